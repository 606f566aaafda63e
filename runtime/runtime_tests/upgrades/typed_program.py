"""Three versions of a program that counts lines by key; each has other types for the same state.

The output is ``key:1`` .. ``key:n`` whatever the version, and each version whose state has a later
field adds ``:later``, so that output tells what was read.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

from headrace.common import Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.common.time import Duration
from headrace.common.typeinfo import FormerName
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)


@dataclass
class First:
    lines: int
    note: str


@dataclass
class Second:
    """A field renamed, one dropped, one new."""

    total: Annotated[int, FormerName("lines")]
    later: str = "later"


@dataclass
class Third:
    """No number becomes a text."""

    total: str


class Count(KeyedProcessFunction):
    def __init__(self, version: str) -> None:
        self.version = version

    def open(self, runtime_context):
        record, number = {
            "1": (First, Types.INT()),
            "2": (Second, Types.DOUBLE()),
            "3": (Third, Types.DOUBLE()),
        }[self.version]
        self.record = record
        self.counts = runtime_context.get_state(ValueStateDescriptor("count", Types.POJO(record)))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", number))
        self.by_kind = runtime_context.get_map_state(
            MapStateDescriptor("by_kind", Types.STRING(), number)
        )

    def process_element(self, value, ctx):
        found = self.counts.value()
        if self.version == "1":
            count = 1 + (found.lines if found else 0)
            self.counts.update(First(count, "gone"))
            extra = ""
        else:
            count = 1 + (found.total if found else 0)
            self.counts.update(Second(count))
            extra = f":{found.later if found else 'later'}"
        self.seen.add(count)
        self.by_kind.put("lines", count)
        seen, kept = list(self.seen.get()), self.by_kind.get("lines")
        if [float(number) for number in range(1, count + 1)] != [float(number) for number in seen]:
            extra += f":list {seen}"
        if kept != count:
            extra += f":map {kept}"
        yield f"{ctx.get_current_key()}:{count}{extra}"


def main(input_dir: str, output_dir: str, version: str) -> None:
    """Run one version."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_dir)
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    sink = FileSink.for_row_format(output_dir, SimpleStringSchema()).build()
    keyed = lines.key_by(lambda value: value, Types.STRING())
    keyed.process(Count(version), Types.STRING()).uid("count").sink_to(sink).uid("out")
    env.execute("typed")


if __name__ == "__main__":
    main(*sys.argv[1:])
