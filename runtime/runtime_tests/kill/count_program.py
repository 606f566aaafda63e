"""Counts the records of every key, and emits each count once: input of the kill tests.

For a key with n records the output must be exactly ``key:1`` .. ``key:n``, each one once: a lost
update, a state rolled back too far and an output published twice all show.
"""

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


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()}:{count}"


def main(servers: str, input_topic: str, output_topic: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(input_topic)
        .set_group_id("ledger")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
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
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
    counts = stream.key_by(lambda value: value, Types.STRING()).process(Count(), Types.STRING())
    counts.uid("count").sink_to(sink).uid("out")
    env.execute("ledger")


if __name__ == "__main__":
    main(*sys.argv[1:])
