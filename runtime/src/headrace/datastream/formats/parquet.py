"""Parquet files, as ``pyflink.datastream.formats.parquet``; for ``FileSink.for_bulk_format``.

Files come out as Spark reads them: the row's names are the columns, all of them nullable. Types
are those of docs/types.md; a DURATION is a number of microseconds, for Parquet has no such type.
"""

from __future__ import annotations

from headrace.common.typeinfo import RowTypeInfo
from headrace.connectors.files.parquet import COMPRESSIONS, DEFAULT_COMPRESSION, ParquetFormat
from headrace.datastream.connectors.file_system import BulkWriterFactory
from headrace.errors import InvalidConfigError, InvalidProgramError

SUFFIX = ".parquet"


class ParquetBulkWriters:
    """Writers of Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, compression: str = DEFAULT_COMPRESSION
    ) -> BulkWriterFactory:
        """Return a factory of writers of rows.

        Args:
            row_type: a ``Types.ROW_NAMED``.
            compression: none, snappy, gzip, brotli, lz4 or zstd.

        Raises:
            InvalidProgramError: not a row, or a field that Parquet has no type for.
            InvalidConfigError: no such compression.
        """
        if not isinstance(row_type, RowTypeInfo):
            msg = f"Parquet needs rows, use Types.ROW_NAMED; type={row_type}"
            raise InvalidProgramError(msg)
        if compression not in COMPRESSIONS:
            msg = f"no such compression; compression={compression} known={sorted(COMPRESSIONS)}"
            raise InvalidConfigError(msg)
        file_format = ParquetFormat(row_type.row, compression)
        file_format.check()
        return BulkWriterFactory(file_format, SUFFIX)
