"""A bounded job that goes on with the counts of words that a savepoint holds."""

import sys
from pathlib import Path

from headrace.common import Types
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value} {self.count.value()}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} fired {self.count.value()}"


def main(output):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_max_parallelism(16)
    words = env.from_collection(["word-1", "word-2", "word-1", "new"], Types.STRING())
    counted = words.key_by(lambda word: word, Types.STRING()).process(Count(), Types.STRING())
    counted.uid("count")
    with counted.execute_and_collect() as results:
        Path(output).write_text("\n".join(sorted(results)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
