"""Built-in sinks as the suites of `headrace.testing.sinks` want them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from headrace.common import Row, Types
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.formats.json import JsonRowSerializationSchema
from headrace.datastream.formats.parquet import ParquetBulkWriters

ROW = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])


class FilesTarget:
    """A directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def parts(self):
        return sorted(self.directory.glob("part-*"))


class JsonTarget(FilesTarget):
    """JSON lines."""

    def make_sink(self):
        schema = JsonRowSerializationSchema.builder().with_type_info(ROW).build()
        return FileSink.for_row_format(str(self.directory), schema).build()

    def value(self, number):
        return Row(number=number, name=f"line {number}\nend")

    def visible(self):
        lines = [line for part in self.parts() for line in part.read_text().splitlines()]
        return [json.loads(line)["number"] for line in lines]


class ParquetTarget(FilesTarget):
    """Parquet files, read as a reader of the whole directory does."""

    def make_sink(self):
        return FileSink.for_bulk_format(
            str(self.directory), ParquetBulkWriters.for_row_type(ROW)
        ).build()

    def value(self, number):
        return Row(number=number, name=f"row {number}")

    def visible(self):
        if not self.parts():
            return []
        return pq.read_table(self.directory)["number"].to_pylist()
