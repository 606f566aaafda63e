"""Parquet files of rows of a declared type, with Arrow's types (`headrace.serialization`).

A file is readable only when its footer is written, which is when it is sealed: that is at the
barrier, so a file holds whole checkpoints and nothing of it is ever seen half written.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from headrace.connectors.sink import SpoolFile
from headrace.errors import InvalidProgramError, UserCodeError
from headrace.serialization.arrow_types import arrow_array, arrow_schema
from headrace.serialization.registry import value_serializer
from headrace.serialization.row import Row, RowKind
from headrace.serialization.type_text import type_text
from headrace.serialization.types import PickledType, RowType

DEFAULT_COMPRESSION: Final = "snappy"  # Spark's and Flink's
COMPRESSIONS: Final = frozenset({"none", "snappy", "gzip", "brotli", "lz4", "zstd"})

_BATCH_ROWS: Final = 4096
_ROW_GROUP_BYTES: Final = 64 << 20
"""Of Arrow memory; readers split work by row groups, and the writer holds one of them."""

_RETRACTIONS: Final = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Every value is a row; a `headrace.connectors.files.writer.FileFormat`.

    Attributes:
        row: type of the rows; its names are the columns.
        compression: one of `COMPRESSIONS`.
    """

    row: RowType
    compression: str = DEFAULT_COMPRESSION

    def check(self) -> None:
        """Find out whether Parquet has a type for every field.

        Raises:
            InvalidProgramError: it has not; names the fields.
        """
        undeclared = [
            name
            for name, of in zip(self.row.field_names, self.row.field_types, strict=True)
            if isinstance(of, PickledType)
        ]
        if undeclared:
            msg = f"Parquet needs a type for every field, declare them; fields={undeclared}"
            raise InvalidProgramError(msg)
        try:
            with self.open_writer(io.BytesIO()):
                pass
        except pa.ArrowException as error:
            msg = f"Parquet has no such type; type={type_text(self.row)} cause={error}"
            raise InvalidProgramError(msg) from error

    def open_writer(self, file: BinaryIO | _Hashed) -> pq.ParquetWriter:
        """Return a writer to an open file."""
        return pq.ParquetWriter(file, arrow_schema(self.row), compression=self.compression)

    def create_part(self, path: Path) -> ParquetPart:
        """Create a file."""
        return ParquetPart(path, self)


class _Hashed:
    """A file that is only appended to, and what its bytes hash to."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("xb")
        self.checksum = xxhash.xxh3_128()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self.checksum.update(data)
        size = len(memoryview(data).cast("B"))
        self.size_bytes += size
        return size

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True
        self._file.close()


class ParquetPart:
    """One file under construction; holds at most one row group in memory."""

    def __init__(self, path: Path, of: ParquetFormat) -> None:
        self._path = path
        self._row = of.row
        self._coerce = value_serializer(of.row).coerce
        self._file = _Hashed(path)
        self._writer = of.open_writer(self._file)
        self._rows: list[object] = []
        self._batches: list[pa.RecordBatch] = []
        self._batches_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Roughly, and too much rather than too little: what waits is not yet compressed."""
        return self._file.size_bytes + self._batches_bytes

    def append(self, value: object) -> None:
        """Add a row."""
        row = self._coerce(value)
        if isinstance(row, Row) and row.get_row_kind() in _RETRACTIONS:
            msg = (
                "a file takes no row back, filter retractions before the sink; "
                f"row_kind={row.get_row_kind()}"
            )
            raise UserCodeError(msg)
        self._rows.append(row)
        if len(self._rows) >= _BATCH_ROWS:
            self._end_batch()

    def seal(self) -> SpoolFile:
        """Write the footer; the file never changes again."""
        self._end_batch()
        self._end_row_group()
        self._writer.close()
        self._file.close()
        file = self._file
        return SpoolFile(self._path, file.size_bytes, file.checksum.hexdigest())

    def discard(self) -> None:
        """Delete the file."""
        self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _end_batch(self) -> None:
        if not self._rows:
            return
        try:
            array = arrow_array(self._row, self._rows)
        except (TypeError, ValueError, AttributeError) as error:
            msg = f"a row does not fit the columns of a Parquet file; cause={error}"
            raise UserCodeError(msg) from error
        batch = pa.RecordBatch.from_struct_array(array)
        self._rows = []
        self._batches.append(batch)
        self._batches_bytes += cast("int", batch.nbytes)
        if self._batches_bytes >= _ROW_GROUP_BYTES:
            self._end_row_group()

    def _end_row_group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._batches = []
            self._batches_bytes = 0
