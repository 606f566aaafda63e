"""Counts the lines of every key, and emits each count once; at the end of time, each key's total.

For a key with n lines the output is ``key:1`` .. ``key:n``, and ``key:end:n`` after a drain.
"""

import sys

from headrace.common import Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.common.time import Duration
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.state import ValueStateDescriptor

END_OF_TIME = 2**62


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(END_OF_TIME)
        yield f"{ctx.get_current_key()}:{count}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()}:end:{self.count.value()}"


def lines_of(env: StreamExecutionEnvironment, directory: str, uid: str):
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory)
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), uid).uid(uid)


def main(input_dir: str, output_dir: str, new_input: str = "", count_uid: str = "count") -> None:
    """Run the job, or what became of it: a new source before the old one, a renamed operator."""
    env = StreamExecutionEnvironment.get_execution_environment()
    new = lines_of(env, new_input, "new") if new_input else None
    lines = lines_of(env, input_dir, "in")
    lines = lines if new is None else new.union(lines)
    sink = FileSink.for_row_format(output_dir, SimpleStringSchema()).build()
    counts = lines.key_by(lambda value: value, Types.STRING()).process(Count(), Types.STRING())
    counts.uid(count_uid).sink_to(sink).uid("out")
    env.execute("count")


if __name__ == "__main__":
    main(*sys.argv[1:])
