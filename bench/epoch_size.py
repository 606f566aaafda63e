"""Throughput and latency against the target duration of epochs, on a Kafka topic with a backlog.

A keyed count over Kafka catches up with the same records once for each target; ``0`` stands for
epochs of fixed size. Prints one JSON line last: for each target ``events_per_s`` after the size
has settled, ``epoch_s`` (median and longest), ``epoch_rows`` and ``settled_after`` (epochs). Run it
with ``make bench NAME=epoch_size`` on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.cache import cache_dir
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.serialization import SimpleStringSchema
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from headrace.datastream.state import ValueStateDescriptor
from headrace.driver import execution
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path

TOPIC = "events"


class Count(KeyedProcessFunction):
    """Counts the records of every key, and can be slow."""

    def __init__(self, row_us: float) -> None:
        self.row_s = row_us / 1e6

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if self.row_s:
            end = time.perf_counter() + self.row_s
            while time.perf_counter() < end:
                pass
        self.count.update((self.count.value() or 0) + 1)
        return ()


def fill(servers: str, records: int, keys: int) -> None:
    """Write the records, spread over four partitions."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 100,
            "queue.buffering.max.messages": 2_000_000,
            "compression.type": "lz4",
        }
    )
    for number in range(records):
        value = b"%d" % (number * 2654435761 % keys)
        try:
            producer.produce(TOPIC, value, partition=number & 3)
        except BufferError:
            producer.flush()
            producer.produce(TOPIC, value, partition=number & 3)
    producer.flush()


def build(args: argparse.Namespace, target_s: float, servers: str, directory: str):
    """Return an environment that holds the program."""
    options = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": f"file://{directory}",
        "headrace.epoch.target-duration": f"{int(target_s * 1000)} ms",
        "headrace.epoch.max-rows": str(args.max_rows),
        "spark.master": args.master,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(TOPIC)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    counted = stream.key_by(lambda value: value, Types.STRING()).process(
        Count(args.row_us), Types.LONG()
    )
    counted.uid("count").print()
    return env


def watch(seconds: float, epochs: list[dict[str, float]], ended: threading.Event) -> None:
    """Note every epoch until the backlog is gone or the time is over, then stop the job."""
    executor = execution._local_executor()  # noqa: SLF001 - a benchmark of this very process
    old, started = executor.board, None
    while not ended.is_set():
        time.sleep(0.02)
        board = executor.board
        if board is None or board is old or board.get().epochs_committed == 0:
            continue
        started = started or time.perf_counter()
        status, gauges = board.get(), board.metrics()
        if not epochs or epochs[-1]["epoch"] != status.epoch:
            epochs.append(
                {
                    "at": time.perf_counter(),
                    "epoch": status.epoch,
                    "records": status.records_in,
                    "seconds": gauges["epochDuration"] / 1000,
                    "max_rows": gauges.get("epochMaxRows", 0),
                    "lag": status.source_lag or 0,
                }
            )
        done = time.perf_counter() - started > seconds or (
            len(epochs) > 3 and not epochs[-1]["lag"]
        )
        if done and executor.master is not None:
            executor.master.stop(cancel=True)
            return


def measure(args: argparse.Namespace, target_s: float, servers: str) -> dict[str, object]:
    """Run the job once."""
    epochs: list[dict[str, float]] = []
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        env = build(args, target_s, servers, directory)
        threading.Thread(target=watch, args=(args.seconds, epochs, ended), daemon=True).start()
        env.execute("epoch-size")
        ended.set()
    full = [epoch for epoch in epochs if epoch["lag"]]
    final = full[-1]["max_rows"]
    settled = next((i for i, e in enumerate(full) if abs(e["max_rows"] - final) <= 0.3 * final), 0)
    after = full[max(1, settled) :]
    if args.verbose:
        print(target_s, [(e["max_rows"], round(e["seconds"], 2)) for e in epochs], flush=True)
    if len(after) < 2:
        return {"target_s": target_s, "epochs": len(epochs), "seconds": epochs[-1]["seconds"]}
    rows = after[-1]["records"] - after[0]["records"]
    return {
        "target_s": target_s,
        "events_per_s": round(rows / (after[-1]["at"] - after[0]["at"])),
        "epoch_s": round(statistics.median(e["seconds"] for e in after), 2),
        "epoch_s_max": round(max(e["seconds"] for e in after), 2),
        "epoch_rows": round(statistics.median(e["max_rows"] for e in after)),
        "epochs": len(after),
        "settled_after": settled,
        "settled_after_s": round(full[settled]["at"] - full[0]["at"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="0.25,0.5,1,2,4,0", help="seconds; 0: fixed size")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--row-us", type=float, default=0, help="time that a row takes in Python")
    parser.add_argument("--max-rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=30, help="longest run of one target")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        KafkaBroker(Path(directory), resolve_broker_class_path(cache_dir())) as broker,
    ):
        fill(broker.bootstrap_servers, args.records, args.keys)
        targets = [float(text) for text in args.targets.split(",")]
        results = [measure(args, target_s, broker.bootstrap_servers) for target_s in targets]
    line = {"bench": "epoch_size", "records": args.records, "row_us": args.row_us}
    print(json.dumps({**line, "master": args.master, "targets": results}))


if __name__ == "__main__":
    main()
