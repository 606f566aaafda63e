"""Counts the records of every key of a bounded topic; the counts leave at the end of event time."""

import sys

from headrace.common import Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.time_domain import TimeDomain

HALF_AN_HOUR_MS = 1_800_000
"""Event time comes there only at the end; still within what brokers take as a timestamp."""


class CountUntilEnd(KeyedProcessFunction):
    """An event-time timer fires at the end of the input, a processing-time timer does not."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + HALF_AN_HOUR_MS)
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + HALF_AN_HOUR_MS)

    def on_timer(self, timestamp, ctx):
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        if self.count.value() is not None:
            yield f"{ctx.get_current_key()}:{self.count.value()}:{domain}"
            self.count.clear()


def main(servers: str, input_topic: str, output_topic: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(input_topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(output_topic)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(output_topic)
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "in")
    counts = stream.key_by(lambda value: value, Types.STRING())
    counts.process(CountUntilEnd(), Types.STRING()).uid("count").sink_to(sink).uid("out")
    env.execute("bounded")
    print("the program went on", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
