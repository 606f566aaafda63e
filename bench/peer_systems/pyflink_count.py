"""The keyed count in PyFlink, run by its own interpreter (see ``flink.py``).

Checkpoints and state are Flink's (RocksDB, incremental); the counting function and the key selector
run in Python workers. ``--execution-mode thread`` runs them inside the JVM's process instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from measuring import WorkerCounter, count_all, measure_rate, report
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

PUBLISH_EVERY = 256


class Count(KeyedProcessFunction):
    """Counts the records of every key; emits one result in a million."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counter = WorkerCounter(self.directory)
        self.seen = 0

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen += 1
        if not self.seen % PUBLISH_EVERY:
            self.counter.publish(self.seen)
        if count % 1_000_000 == 0:
            yield count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--interval-s", type=int, required=True)
    parser.add_argument("--warmup-s", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--managed", required=True)
    parser.add_argument("--execution-mode", default="process", choices=["process", "thread"])
    parser.add_argument("--state-cache", type=int, default=0, help="entries; 0: one for every key")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyflink-bench-") as scratch:
        counters = Path(scratch) / "counters"
        counters.mkdir()
        options = Configuration()
        for key, value in {
            "state.backend.type": "rocksdb",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.interval": f"{args.interval_s} s",
            "execution.checkpointing.dir": f"file://{scratch}/checkpoints",
            "taskmanager.memory.managed.size": args.managed,
            "pipeline.object-reuse": "true",
            "python.executable": sys.executable,
            "python.client.executable": sys.executable,
            "python.execution-mode": args.execution_mode,
            "python.state.cache-size": str(args.state_cache or args.keys),
        }.items():
            options.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(options)
        env.set_parallelism(args.parallelism)
        env.set_max_parallelism(128)
        source = NumberSequenceSource(0, (1 << 62) - 1)
        numbers = env.from_source(
            source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        keys = args.keys
        numbers.key_by(lambda value: value * 2654435761 % keys, Types.LONG()).process(
            Count(str(counters)), Types.LONG()
        ).uid("count").print()
        job = env.execute_async("keyed-count")
        status = job.get_job_status
        rate, elapsed = measure_rate(
            lambda: count_all(str(counters)),
            args.warmup_s,
            args.seconds,
            lambda: status().result().name in ("INITIALIZING", "CREATED", "RUNNING"),
        )
        report(rate, elapsed, execution_mode=args.execution_mode)
        job.cancel().result()


if __name__ == "__main__":
    main()
