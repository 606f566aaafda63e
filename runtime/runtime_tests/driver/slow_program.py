"""Reads Kafka with a function that takes a fifth of a millisecond a record: input of a test."""

import sys
import time

from headrace.common import Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource


class Slow(KeyedProcessFunction):
    def process_element(self, value, ctx):
        end = time.perf_counter() + 0.0002
        while time.perf_counter() < end:
            pass
        return ()


def main(servers: str, topic: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
    stream.key_by(lambda value: value, Types.STRING()).process(Slow(), Types.STRING()).print()
    env.execute("slow")


if __name__ == "__main__":
    main(*sys.argv[1:])
