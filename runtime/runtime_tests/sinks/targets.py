"""Built-in sinks as the suites of `headrace.testing.sinks` want them."""

from __future__ import annotations

from pathlib import Path

from headrace.common.serialization import Encoder
from headrace.datastream.connectors.file_system import FileSink


class LinesTarget:
    """Files with one number a line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def make_sink(self):
        return FileSink.for_row_format(str(self.directory), Encoder.simple_string_encoder()).build()

    def value(self, number):
        return number

    def visible(self):
        texts = [path.read_text() for path in self.directory.glob("part-*")]
        return [int(line) for text in texts for line in text.splitlines()]
