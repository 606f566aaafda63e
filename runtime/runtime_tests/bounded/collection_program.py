"""Two jobs in one process: a collection with timers, and one without any element."""

from headrace.common import Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class LastWord(KeyedProcessFunction):
    """Says something when event time has come to its end, and from that timer once more."""

    def process_element(self, value, ctx):
        yield f"{value[0]} at {value[1]}"
        ctx.timer_service().register_event_time_timer(1_000_000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} ends, watermark {ctx.timer_service().current_watermark()}"
        if timestamp == 1_000_000:
            ctx.timer_service().register_event_time_timer(timestamp + 1)


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
events = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).assign_timestamps_and_watermarks(times)
events.key_by(lambda v: v[0], Types.STRING()).process(LastWord(), Types.STRING()).print()
env.execute("timers")

assert [] == list(env.from_collection([], Types.LONG()).execute_and_collect("nothing"))
print("done")  # noqa: T201
