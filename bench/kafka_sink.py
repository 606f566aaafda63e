"""The exactly-once Kafka sink alone: how fast records are spooled and a spool is published.

Starts a real single-node broker; it shares the machine, so publication is a lower bound. Prints one
JSON line last: records a second of both phases (by the wall clock, and by the CPU time of the
calling thread, which other load does not change), bytes of a record on disk, and the milliseconds
of a commit of one record and of the take-over at a start.

    python bench/kafka_sink.py --records 2000000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from headrace.checkpoint.protocol.types import FileHandle, SinkCommittable
from headrace.cli.cache import cache_dir
from headrace.clock import SystemClock
from headrace.common.serialization import SerializationSchema, SimpleStringSchema
from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.sink import LocalCommittable, PendingSpool, SinkContext
from headrace.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from headrace.ids import CheckpointId, Generation, OperatorUid, SlotIndex, new_job_id
from headrace.testing.kafka_broker import (
    KafkaBroker,
    KafkaBrokerConfig,
    resolve_broker_class_path,
)

TOPIC = "bench"


class Key(SerializationSchema):
    """First ten characters of the value."""

    def serialize(self, element: str) -> bytes:
        """Return the key."""
        return element[:10].encode()


def build_sink(servers: str) -> KafkaSink:
    """Return the sink as a program would build it."""
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(TOPIC)
        .set_key_serialization_schema(Key())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("bench")
        .build()
    )


def as_restored(spool: PendingSpool) -> LocalCommittable:
    """Return the spool as the slot hands it back."""
    files = [FileHandle(f.path.name, f.path.name, f.size_bytes, f.checksum) for f in spool.files]
    committable = SinkCommittable(
        spool.operator_uid, spool.spool_id, spool.checkpoint_id, files, spool.records
    )
    return LocalCommittable(committable, tuple(file.path for file in spool.files))


def measure(
    broker: KafkaBroker, directory: Path, records: int, value_bytes: int
) -> dict[str, object]:
    """Spool and publish; return the numbers."""
    ClusterProbe({"bootstrap.servers": broker.bootstrap_servers}).create_topic(TOPIC, 4, {})
    sink = build_sink(broker.bootstrap_servers).description()
    spool_dir = directory / "spool"
    spool_dir.mkdir()
    context = SinkContext(
        job_id=new_job_id(),
        operator_uid=OperatorUid("bench"),
        slot=SlotIndex(0),
        parallelism=1,
        generation=Generation(1),
        restored_checkpoint_id=None,
        restored_parallelism=None,
        spool_dir=spool_dir,
        clock=SystemClock(),
    )
    writer, committer = sink.create_writer(context), sink.create_committer(context)
    committer.recover([])
    fill = "x" * (value_bytes - 10)
    values = [f"{number:010d}{fill}" for number in range(10_000)]
    now_ms = context.clock.now_ms()

    began, began_cpu = time.perf_counter(), time.thread_time()
    for _ in range(records // len(values)):
        for value in values:
            writer.write(value, now_ms)
    spool = writer.prepare_commit(CheckpointId(1))
    spool_s, spool_cpu_s = time.perf_counter() - began, time.thread_time() - began_cpu

    began, began_cpu = time.perf_counter(), time.thread_time()
    committer.commit(as_restored(spool))
    publish_s = time.perf_counter() - began
    publish_cpu_s = time.thread_time() - began_cpu

    commits_ms = []
    for checkpoint in range(2, 22):
        writer.write(values[0], now_ms)
        item = as_restored(writer.prepare_commit(CheckpointId(checkpoint)))
        began = time.perf_counter()
        committer.commit(item)
        commits_ms.append((time.perf_counter() - began) * 1000)
    committer.close()
    successor = sink.create_committer(context)
    began = time.perf_counter()
    successor.recover([])
    take_over_ms = (time.perf_counter() - began) * 1000
    successor.close()
    return {
        "records": spool.records,
        "value_bytes": value_bytes,
        "spool_records_per_s": round(spool.records / spool_s),
        "publish_records_per_s": round(spool.records / publish_s),
        "spool_records_per_cpu_s": round(spool.records / spool_cpu_s),
        "publish_records_per_cpu_s": round(spool.records / publish_cpu_s),
        "spool_bytes_per_record": round(
            sum(file.size_bytes for file in spool.files) / spool.records, 1
        ),
        "commit_one_record_ms": round(sorted(commits_ms)[len(commits_ms) // 2], 1),
        "take_over_ms": round(take_over_ms, 1),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    args = parser.parse_args()
    jars = resolve_broker_class_path(cache_dir())
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        config = KafkaBrokerConfig(heap_mb=512)
        with KafkaBroker(directory / "broker", jars, config) as broker:
            numbers = measure(broker, directory, args.records, args.value_bytes)
    print(json.dumps({"bench": "kafka_sink", **numbers}))


if __name__ == "__main__":
    main()
