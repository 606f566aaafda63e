"""Programs in PyFlink's idioms; only their imports are changed.

Each one is as somebody would have written it for PyFlink, with its own spelling of the same ideas.
The recording executor stands for the engine; what is checked is the job that reaches it.
"""

from __future__ import annotations

from headrace.common import Duration, Row, Time, Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.restart_strategy import RestartStrategies
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.config.options import checkpointing, restart, state
from headrace.config.options.restart import RestartStrategyKind
from headrace.config.options.state import StateBackendKind
from headrace.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeDomain,
)
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from headrace.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.graph.endpoints import FromCollection, NumberSequence, PrintSink
from headrace.graph.stream_graph import HashByKey, OperatorKind


def kinds(job):
    return [[operator.kind.value for operator in level.operators] for level in job.levels]


def test_word_count(executor):
    def split(line):
        yield from line.split()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(1)

    ds = env.from_collection(["to be", "or not to be"], type_info=Types.STRING())
    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
    )
    ds.print()
    env.execute("word count")

    assert executor.job.name == "word count"
    assert kinds(executor.job) == [["source", "flat_map", "map"], ["keyed_reduce", "sink"]]
    assert executor.job.sources()[0].function == FromCollection(("to be", "or not to be"))
    reduce = executor.operator("Reduce").function
    assert reduce.reduce(("a", 1), ("a", 2)) == ("a", 3)
    assert list(executor.operator("Flat Map").function.flat_map("x y")) == ["x", "y"]


class FraudCounter(KeyedProcessFunction):
    """More than ten events within a minute of the first trip the limit."""

    def open(self, ctx: RuntimeContext):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, event, ctx: KeyedProcessFunction.Context):
        current = (self.count.value() or 0) + 1
        self.count.update(current)
        if current == 1:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        if current > 10:
            yield ctx.get_current_key(), "rate-limit-trip"

    def on_timer(self, ts, ctx: KeyedProcessFunction.OnTimerContext):
        assert ctx.time_domain() == TimeDomain.EVENT_TIME
        self.count.clear()


def test_fraud_counter_with_event_time(executor):
    class EventTime(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value["ts"]

    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        .with_timestamp_assigner(EventTime())
        .with_idleness(Duration.of_seconds(30))
    )
    row = Types.ROW_NAMED(["account", "ts"], [Types.STRING(), Types.LONG()])

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(30_000, CheckpointingMode.EXACTLY_ONCE)
    env.get_checkpoint_config().set_checkpoint_storage_dir("s3://flink-ckpts/upi/")
    events = env.from_collection([("acc-1", 1_000), ("acc-2", 2_000)], row)
    events = events.assign_timestamps_and_watermarks(strategy)
    events.key_by(lambda e: e["account"], key_type=Types.STRING()).process(
        FraudCounter(), Types.TUPLE([Types.STRING(), Types.STRING()])
    ).uid("fraud").name("FraudCounter").print("fraud").set_parallelism(1)
    env.execute()

    (source,) = executor.job.sources()
    assert source.function.items == (Row("acc-1", 1_000), Row("acc-2", 2_000)) or (
        [row.as_dict() for row in source.function.items]
        == [{"account": "acc-1", "ts": 1_000}, {"account": "acc-2", "ts": 2_000}]
    )
    marks = source.watermarks
    assert (marks.kind, marks.out_of_orderness_ms, marks.idleness_ms) == ("bounded", 5_000, 30_000)
    assert marks.timestamp_assigner(source.function.items[0], -1) == 1_000
    counter = executor.operator("FraudCounter")
    assert (counter.uid, counter.uid_is_generated) == ("fraud", False)
    assert counter.key_serializer.snapshot() == Types.STRING().key_serializer().snapshot()
    assert executor.operator("Sink: Print to Std. Out").function == PrintSink("fraud")
    assert executor.configuration.get(checkpointing.INTERVAL) == 30_000
    assert executor.configuration.get(checkpointing.DIRECTORY) == "s3://flink-ckpts/upi/"


def test_function_objects_of_every_kind(executor):
    class Parse(MapFunction):
        def open(self, runtime_context):
            self.separator = ","

        def map(self, value):
            return tuple(value.split(self.separator))

    class Explode(FlatMapFunction):
        def flat_map(self, value):
            return [value, value]

    class Keep(FilterFunction):
        def filter(self, value):
            return value[0] != "drop"

    class First(KeySelector):
        def get_key(self, value):
            return value[0]

    class Longest(ReduceFunction):
        def reduce(self, value1, value2):
            return max(value1, value2, key=len)

    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.from_collection(["a,1", "b,2"])
        .map(Parse())
        .flat_map(Explode())
        .filter(Keep())
        .process(Stamp())
        .key_by(First())
        .reduce(Longest())
        .print()
    )
    env.execute("functions")

    assert kinds(executor.job) == [
        ["source", "map", "flat_map", "filter", "process"],
        ["keyed_reduce", "sink"],
    ]
    (edge,) = executor.job.levels[1].inputs
    assert edge.partitioning.selector(("k", 1)) == "k"


def test_keyed_state_inside_a_map_function_on_a_keyed_stream(executor):
    class Enumerate(MapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

        def map(self, value):
            number = (self.seen.value() or 0) + 1
            self.seen.update(number)
            return value, number

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).key_by(lambda v: v % 2, Types.INT()).map(Enumerate()).print()
    env.execute()

    assert OperatorKind.KEYED_PROCESS is executor.operator("Map").kind


def test_a_plain_lambda_on_a_keyed_stream_needs_no_state(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).key_by(lambda v: v % 2).map(lambda v: v + 1).print()
    env.execute()

    assert OperatorKind.MAP is executor.operator("Map").kind
    (edge,) = executor.job.levels[1].inputs
    assert isinstance(edge.partitioning, HashByKey)


def test_checkpoints_backend_and_restarts_set_in_the_program(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(60_000)
    config = env.get_checkpoint_config()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.set_checkpoint_storage_dir("file:///tmp/checkpoints")
    config.set_min_pause_between_checkpoints(30_000)
    config.set_checkpoint_timeout(300_000)
    config.set_max_concurrent_checkpoints(1)
    config.set_tolerable_checkpoint_failure_number(3)
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    env.set_state_backend(EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
    env.from_collection([1]).print()
    env.execute()

    get = executor.configuration.get
    assert get(checkpointing.MODE).name == "AT_LEAST_ONCE"
    assert get(checkpointing.MIN_PAUSE) == 30_000
    assert get(checkpointing.TIMEOUT) == 300_000
    assert get(checkpointing.TOLERABLE_FAILURES) == 3
    assert get(checkpointing.RETENTION).name == "RETAIN_ON_CANCELLATION"
    assert get(checkpointing.INCREMENTAL) is True
    assert StateBackendKind.ROCKSDB is get(state.BACKEND)
    assert RestartStrategyKind.FIXED_DELAY is get(restart.KIND)
    assert (get(restart.FIXED_DELAY_ATTEMPTS), get(restart.FIXED_DELAY_DELAY)) == (3, 10_000)
    assert config.get_checkpoint_interval() == 60_000
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.is_externalized_checkpoints_enabled()


def test_a_number_sequence_and_a_configuration_object(executor):
    configuration = Configuration()
    configuration.set_integer("parallelism.default", 4)
    configuration.set_string("pipeline.name", "numbers")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_source(
        source=NumberSequenceSource(1, 100),
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="seq",
        type_info=Types.LONG(),
    )
    stream.filter(lambda n: n % 2 == 0).rebalance().map(str, Types.STRING()).print()
    env.execute()

    assert (executor.job.name, executor.job.parallelism) == ("numbers", 4)
    (source,) = executor.job.sources()
    assert (source.name, source.function) == ("Source: seq", NumberSequence(1, 100))
    assert kinds(executor.job) == [["source", "filter"], ["map", "sink"]]


def test_two_branches_united_again(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2, 3], Types.LONG())
    small = numbers.filter(lambda n: n < 2)
    large = numbers.filter(lambda n: n >= 2)
    small.union(large).key_by(lambda n: n, Types.LONG()).reduce(lambda a, b: a + b).print()
    env.execute()

    assert kinds(executor.job) == [["source", "filter", "filter"], ["keyed_reduce", "sink"]]
    assert len(executor.job.levels[1].inputs) == 2


def test_collecting_records_in_the_program(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    executor.collected = [("collect-1", 2), ("collect-1", 3)]
    with env.from_collection([1, 2]).map(lambda v: v + 1).execute_and_collect() as results:
        assert list(results) == [2, 3]

    executor.collected = [("collect-2", 7), ("collect-2", 8)]
    assert env.from_collection([6, 7]).execute_and_collect(limit=1) == [7]


def test_durations_and_times_are_pyflinks():
    assert Duration.of_minutes(1) == Duration.of_seconds(60) == Duration.of_millis(60_000)
    assert Time.hours(24).to_milliseconds() == Time.days(1).to_milliseconds() == 86_400_000
