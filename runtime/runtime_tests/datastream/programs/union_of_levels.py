"""Streams of several levels meet again; prints one JSON line. Run by test_real_run."""

import json

from headrace.common import Row, Types, WatermarkStrategy
from headrace.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

KEYS = ("a", "b", "c")
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
EVENT = Types.ROW_NAMED(["key", "at"], [Types.STRING(), Types.LONG()])


class CountUntilEnd(KeyedProcessFunction):
    """Counts records of a key; emits the count when event time has passed all of them."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()
        self.count.clear()


class Enumerate(MapFunction):
    """Numbers the records of a key, in keyed state."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def map(self, value):
        number = (self.seen.value() or 0) + 1
        self.seen.update(number)
        return value[0], number


FACTORS = MapStateDescriptor("factors", Types.STRING(), Types.LONG())


class Multiply(BroadcastProcessFunction):
    """Multiplies by all factors that were told, once and for all before the first number."""

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(FACTORS).put(str(value), value)

    def process_element(self, value, ctx):
        for factor in ctx.get_broadcast_state(FACTORS).values():
            value *= factor
        yield "product", value


class Pass(MapFunction, CheckpointedFunction):
    """Right behind its source, in a slot."""

    def initialize_state(self, context):
        self.passed = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("passed", Types.LONG())
        )

    def snapshot_state(self, context):
        self.passed.update([sum(self.passed.get())])

    def map(self, value):
        self.passed.add(1)
        return value


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r.at)

events = env.from_collection([(key, at) for at in range(30) for key in KEYS], EVENT)
timed = events.filter(lambda r: isinstance(r, Row)).assign_timestamps_and_watermarks(times)
pairs = timed.map(lambda r: (r.key, r.at), PAIR)
counted = timed.key_by("key").process(CountUntilEnd(), PAIR).uid("counted")
numbered = pairs.union(counted).key_by(lambda p: p[0], Types.STRING()).map(Enumerate(), PAIR)
numbered.uid("numbered")

strategy = WatermarkStrategy.no_watermarks()
numbers = env.from_source(NumberSequenceSource(1, 1000), strategy, "numbers")
sums = numbers.rebalance().map(lambda n: ("sum", n), PAIR).key_by(lambda p: p[0], Types.STRING())
sums = sums.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums")

few = env.from_collection(list(range(1, 41)), Types.LONG()).map(Pass(), Types.LONG()).uid("pass")
told = env.from_collection([2, 3, 7], Types.LONG()).broadcast(FACTORS)
products = few.connect(told).process(Multiply(), PAIR).uid("products")
products = products.key_by(lambda p: p[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1]))

latest: dict[str, int] = {}
for key, number in numbered.union(sums, products.uid("sum of products")).execute_and_collect(
    "union of levels"
):
    latest[key] = max(number, latest.get(key, 0))
print(json.dumps(latest))  # noqa: T201
