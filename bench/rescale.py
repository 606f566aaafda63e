"""Pause of a live rescale against a restart from a savepoint and Spark's offline repartition.

A driver with `local-cluster` executors fills its state from a generated stream, then goes on under
load. Measured: the live rescale ``--from`` -> ``--to`` and back (`pause_ms` as the driver reports
it: no epoch between the last one before and the first one after), and the same two changes as a
stop with savepoint and a start of a new driver from it (from the last epoch of the old driver to
the first epoch of the new one). Last, Spark alone, on the same keys, values and batches
(``peer_systems/spark_repartition.py``). State lies on the local disk for all three.

Prints one JSON line last. Run it with ``make bench NAME=rescale`` on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

from headrace.api.driver import DriverConfig
from headrace.testing.driver_process import TOKEN, DriverProcess

PROGRAM = """
import sys
from hashlib import md5
from headrace.common import Types
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor

keys, value_bytes, rows = (int(argument) for argument in sys.argv[1:])

class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value, ctx):
        # What compression leaves is about half, here as in the peer's program.
        parts = (md5(b"%d-%d" % (value[1], part)).hexdigest() for part in range(value_bytes // 32))
        self.kept.update("".join(parts))
        if False:
            yield 0

env = StreamExecutionEnvironment.get_execution_environment()
frame = (env.get_spark_session().readStream.format("rate-micro-batch")
    .option("rowsPerBatch", rows).option("numPartitions", 2).load()
    .selectExpr(f"pmod(value, {keys}L) AS key", "value"))
env.from_dataframe(frame).key_by("key").process(Keep(), Types.LONG()).uid("keep").print()
env.execute("rescale")
"""


class Job:
    """A driver process, told what to do over its REST API."""

    def __init__(self, args: argparse.Namespace, directory: Path, parallelism: int) -> None:
        self._args = args
        self._directory = directory
        (directory / "program.py").write_text(PROGRAM)
        self.start(parallelism, None)

    def start(self, parallelism: int, savepoint: str | None) -> None:
        """Start a new job, from a savepoint if one is given."""
        args = self._args
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = DriverConfig(
            job_id=uuid.uuid4().hex,
            job_name="rescale",
            namespace="bench",
            program=str(self._directory / "program.py"),
            args=[str(args.keys), str(args.value_bytes), str(args.rows)],
            parallelism=parallelism,
            max_parallelism=128,
            config={
                "rest.port": str(port),
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.dir": f"file://{self._directory}/checkpoints",
                "execution.checkpointing.savepoint-dir": f"file://{self._directory}/savepoints",
                "taskmanager.memory.managed.size": args.managed,
                "headrace.epoch.max-rows": str(args.rows),
            },
            spark_conf={"spark.master": args.master},
            restore_path=savepoint,
        )
        self.driver = DriverProcess(config, self._directory, {})
        self.driver.start()

    def call(self, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        """GET, or POST a body."""
        config = self.driver.config
        request = urllib.request.Request(
            f"http://127.0.0.1:{config.config['rest.port']}/jobs/{config.job_id}{path}",
            data=json.dumps(body).encode() if body is not None else None,
            headers={"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def wait_epochs(self, epochs: int) -> None:
        """Wait for some epochs of the present generation."""
        reached = self.driver.wait(lambda s: s is not None and s.epochs_committed >= epochs, 1200)
        if not reached:
            raise SystemExit(self.driver.log_tail())

    def state_bytes(self) -> int:
        """Size of the last checkpoint's state."""
        status = self.driver.status()
        last = status.last_checkpoint if status else None
        return last.state_size_bytes if last else 0

    def rescale(self, parallelism: int) -> dict[str, object]:
        """Rescale live; returns the report."""
        self.call("/rescale", {"parallelism": parallelism})
        while True:
            report = self.call("/rescale")
            if report["phase"] == "COMPLETED":
                return report
            if report["phase"] == "FAILED":
                raise SystemExit(f"{report}\n{self.driver.log_tail()}")
            time.sleep(0.2)

    def restart(self, parallelism: int) -> float:
        """Stop with a savepoint and start from it; returns the pause in seconds."""
        status = self.driver.status()
        epoch = status.epoch if status else None
        trigger = self.call("/stop", {})["request-id"]
        stopped_s = time.perf_counter()
        location = None
        while self.driver.returncode is None:
            try:
                current = self.driver.status()
                if current is not None and current.epoch != epoch:
                    epoch, stopped_s = current.epoch, time.perf_counter()
                outcome = self.call(f"/savepoints/{trigger}")
                location = (outcome.get("operation") or {}).get("location") or location
            except OSError:
                pass
            time.sleep(0.05)
        if location is None:
            found = sorted((self._directory / "savepoints").iterdir(), key=os.path.getmtime)
            location = f"file://{found[-1]}"
        self.start(parallelism, location)
        self.wait_epochs(1)
        return time.perf_counter() - stopped_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048, help="state to build up")
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of an epoch under load")
    parser.add_argument("--from", dest="low", type=int, default=2)
    parser.add_argument("--to", dest="high", type=int, default=4)
    parser.add_argument("--managed", default="256mb")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    args = parser.parse_args()
    args.keys = args.mib * (1 << 20) // args.value_bytes
    directory = Path(tempfile.mkdtemp(prefix="headrace-rescale-"))
    job = Job(args, directory, args.low)
    try:
        say(f"filling {args.keys:,} keys of {args.value_bytes} bytes")
        job.wait_epochs(args.keys // args.rows + 2)
        up = job.rescale(args.high)
        say(f"live {args.low} -> {args.high}: {up['pauseMs']} ms")
        job.wait_epochs(5)
        down = job.rescale(args.low)
        say(f"live {args.high} -> {args.low}: {down['pauseMs']} ms")
        job.wait_epochs(5)
        state = job.state_bytes()
        slow_up_s = job.restart(args.high)
        say(f"savepoint {args.low} -> {args.high}: {slow_up_s:.1f} s")
        job.wait_epochs(5)
        slow_down_s = job.restart(args.low)
        say(f"savepoint {args.high} -> {args.low}: {slow_down_s:.1f} s")
    finally:
        job.driver.kill()
        shutil.rmtree(directory, ignore_errors=True)
    pauses = {"up": up["pauseMs"], "down": down["pauseMs"]}
    savepoint = {"up": round(slow_up_s * 1000), "down": round(slow_down_s * 1000)}
    spark = {} if args.without_spark else spark_alone(args)
    spark_ms = spark.get("pause_ms", {})
    print(
        json.dumps(
            {
                "bench": "rescale",
                "state_bytes": state,
                "from": args.low,
                "to": args.high,
                "pause_ms": pauses,
                "prepare_ms": {"up": up["prepareMs"], "down": down["prepareMs"]},
                "key_groups_moved": {"up": up["keyGroupsMoved"], "down": down["keyGroupsMoved"]},
                "bytes_moved": {"up": up["bytesMoved"], "down": down["bytesMoved"]},
                "savepoint_ms": savepoint,
                "spark_ms": spark_ms,
                "spark_repartition_ms": spark.get("repartition_ms"),
                "ratio_savepoint": round(min(savepoint[way] / pauses[way] for way in pauses), 1),
                "ratio_spark": (
                    round(min(spark_ms[way] / pauses[way] for way in pauses), 1)
                    if spark_ms
                    else None
                ),
            }
        )
    )


def spark_alone(args: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Run the same change in Spark; returns what it measured."""
    command = [
        *(sys.executable, str(Path(__file__).parent / "peer_systems" / "spark_repartition.py")),
        *("--keys", str(args.keys), "--value-bytes", str(args.value_bytes)),
        *("--rows", str(args.rows), "--from", str(args.low), "--to", str(args.high)),
        *("--master", args.master),
    ]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, dict[str, int]] = json.loads(run.stdout.splitlines()[-1])
    say(f"spark {found}")
    return found


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
