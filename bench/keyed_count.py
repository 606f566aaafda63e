"""Throughput of a keyed count: generator ``process_element``, RocksDB, checkpoints, two executors.

Prints one JSON line last: ``events_per_s`` over the measured time, ``empty_epoch_ms``, and where a
record's time goes (``exchange``, ``decode``, ``user_code``, ``state_flush``, in nanoseconds a
record). ``peers.py`` runs it too, beside other systems: "measuring" and "measured" on standard
error tell it when. Not a test: run it with ``make bench NAME=keyed_count`` on a quiet machine."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time

from pyspark.sql import SparkSession

from headrace.common import Configuration, Types
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.driver import execution


class Count(KeyedProcessFunction):
    """Counts the records of every key; emits one result in a million."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 1_000_000 == 0:
            yield count


def build(args: argparse.Namespace, directory: str, *, empty: bool) -> StreamExecutionEnvironment:
    """Return an environment that holds the program; ``empty`` gives it a source without rows."""
    options = {
        "parallelism.default": str(args.parallelism),
        "execution.checkpointing.interval": f"{args.interval_s} s",
        "execution.checkpointing.dir": f"file://{directory}",
        "state.backend.type": args.backend,
        "headrace.epoch.max-rows": str(args.epoch_rows),
        "spark.master": args.master,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    spark = env.get_spark_session()
    frame = (
        spark.readStream.format("rate").load().where("false").selectExpr("value AS key", "value")
        if empty
        else spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", args.epoch_rows)
        .option("numPartitions", args.parallelism)
        .load()
        .selectExpr(f"pmod(value * 2654435761L, {args.keys}L) AS key", "value")
    )
    env.from_dataframe(frame).key_by("key").process(Count(), Types.LONG()).uid("count").print()
    return env


def watch(seconds: float, warmup_epochs: int, samples: list[dict[str, float]]) -> None:
    """Sample the job's gauges four times a second, then stop it."""
    executor = execution._local_executor()  # noqa: SLF001 - a benchmark of this very process
    started = None
    while True:
        time.sleep(0.25)
        board = executor.board
        if board is None or board.get().epochs_committed < warmup_epochs:
            continue
        status = board.get()
        now = time.perf_counter()
        if started is None:
            print("measuring", file=sys.stderr, flush=True)
            started = now
        samples.append(
            {
                "at": now,
                "records": status.records_in,
                "trigger": trigger_ms(),
                **board.metrics(),
            }
        )
        if now - started > seconds and executor.master is not None:
            print("measured", file=sys.stderr, flush=True)
            executor.master.stop(cancel=True)
            return


def trigger_ms() -> float:
    """Return how long Spark's last trigger took: the epoch with planning and log writes."""
    active = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001
    queries = active.streams.active if active is not None else []
    progress = queries[0].lastProgress if queries else None
    return float(progress["durationMs"]["triggerExecution"]) if progress else 0.0


def run(args: argparse.Namespace, seconds: float, *, empty: bool) -> list[dict[str, float]]:
    """Run the job for a while and return its samples."""
    samples: list[dict[str, float]] = []
    warmup_epochs = args.empty_warmup_epochs if empty else args.warmup_epochs
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        env = build(args, directory, empty=empty)
        watcher = threading.Thread(
            target=watch, args=(seconds, warmup_epochs, samples), daemon=True
        )
        watcher.start()
        env.execute("keyed-count")
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--epoch-rows", type=int, default=2_000_000)
    parser.add_argument("--interval-s", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--empty-seconds", type=float, default=12, help="0: leave it out")
    parser.add_argument("--warmup-epochs", type=int, default=3)
    parser.add_argument(
        "--empty-warmup-epochs", type=int, default=40, help="compilers are busy for 20 s"
    )
    parser.add_argument("--backend", default="rocksdb")
    args = parser.parse_args()
    samples = run(args, args.seconds, empty=False)
    idle = run(args, args.empty_seconds, empty=True) if args.empty_seconds else []
    # Records are counted when an epoch ends: whole epochs, from one end to another.
    ends = [b for a, b in itertools.pairwise(samples) if a["records"] != b["records"]]
    first, last = ends[0], ends[-1]
    seconds = last["at"] - first["at"]

    def median(name: str, of: list[dict[str, float]] = samples) -> float:
        return statistics.median(sample[name] for sample in of)

    def ns_a_record(milliseconds: float) -> int:
        return round(milliseconds * 1e6 / (args.epoch_rows / args.parallelism))

    print(
        json.dumps(
            {
                "bench": "keyed_count",
                "events_per_s": round((last["records"] - first["records"]) / seconds),
                "empty_epoch_ms": round(median("trigger", idle)) if idle else None,
                "seconds": round(seconds, 1),
                "epoch_ms": round(median("epochDuration")),
                "parts_ns_per_event_and_slot": {
                    "exchange": ns_a_record(median("epochDuration") - median("epochSlotBusyTime")),
                    "decode": ns_a_record(median("epochDecodeTime")),
                    "user_code": ns_a_record(median("epochUserTime")),
                    "timers_and_state": ns_a_record(median("epochTimersTime")),
                },
                "state_flush_ms": last.get("lastCheckpointSyncTime"),
                "checkpoint_ms": last.get("lastCheckpointDuration"),
                "state_bytes": last.get("stateSizeBytes"),
                "keys": args.keys,
                "master": args.master,
            }
        )
    )


if __name__ == "__main__":
    main()
