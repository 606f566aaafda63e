"""A program with every kind of keyed state; what it emits shows what is in all of them.

A line is ``<key> <number>``. For each one the program emits the key with the count, the numbers so
far, how often each number's parity came, the sum, and the mean; at the end of time once more, from
a timer. It must not change: stored state of earlier versions is restored by it.
"""

import sys
from typing import Any

from headrace.common import Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.common.time import Duration
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.functions import AggregateFunction
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

END_OF_TIME = 2**62
PROGRAM_UIDS = ("in", "every kind", "out")
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryKind(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        context = runtime_context
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.numbers = context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.parities = context.get_map_state(
            MapStateDescriptor("parities", Types.STRING(), Types.LONG())
        )
        self.sum = context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        )
        self.mean = context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), PAIR))

    def process_element(self, value: str, ctx: Any) -> Any:
        number = int(value.split()[1])
        parity = "even" if number % 2 == 0 else "odd"
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(number)
        self.parities.put(parity, (self.parities.get(parity) or 0) + 1)
        self.sum.add(number)
        self.mean.add(number)
        ctx.timer_service().register_event_time_timer(END_OF_TIME)
        yield self.seen("now", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self.seen("end", ctx)

    def seen(self, when: str, ctx: Any) -> str:
        numbers = ",".join(str(number) for number in self.numbers.get())
        parities = ",".join(f"{name}={times}" for name, times in sorted(self.parities.items()))
        return (
            f"{ctx.get_current_key()} {when} count={self.count.value()} numbers={numbers} "
            f"{parities} sum={self.sum.get()} mean={self.mean.get():.3f}"
        )


def expected(lines: list[str], before: list[str] | None = None) -> list[str]:
    """Return what the program emits for ``lines`` after ``before``, in any order."""
    seen: dict[str, list[int]] = {}
    output = []
    for index, line in enumerate([*(before or []), *lines]):
        key, number = line.split()
        numbers = seen.setdefault(key, [])
        numbers.append(int(number))
        if index >= len(before or []):
            output.append(described(key, "now", numbers))
    return output


def described(key: str, when: str, numbers: list[int]) -> str:
    """Return one line of output."""
    parities = {
        name: sum(n % 2 == odd for n in numbers) for odd, name in enumerate(("even", "odd"))
    }
    shown = ",".join(f"{name}={times}" for name, times in sorted(parities.items()) if times)
    return (
        f"{key} {when} count={len(numbers)} numbers={','.join(map(str, numbers))} "
        f"{shown} sum={sum(numbers)} mean={sum(numbers) / len(numbers):.3f}"
    )


def main(input_dir: str, output_dir: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_dir)
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )
    sink = FileSink.for_row_format(output_dir, SimpleStringSchema()).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    seen = lines.key_by(lambda line: line.split()[0], Types.STRING())
    seen.process(EveryKind(), Types.STRING()).uid("every kind").sink_to(sink).uid("out")
    env.execute("golden")


if __name__ == "__main__":
    main(*sys.argv[1:])
