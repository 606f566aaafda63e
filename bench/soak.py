"""Memory of every process of a job over thousands of small epochs: it has to stay flat.

A keyed count with timers and checkpoints runs back to back on a real driver process and one
executor. Now and then each process is asked how much it holds: resident memory of all, heap after a
full collection of the JVMs (resident memory of a JVM only tells how large its heap ever was), open
files and threads. Prints one JSON line last: for each process ``start`` and ``end`` (means of the
first and last quarter of the samples, after a warm-up) and ``per_1000_epochs``, the slope of a
straight line through the samples. Run it with ``make bench NAME=soak ARGS="--epochs 10000"``; needs
a JDK (``jcmd``)."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headrace.api.driver import DriverConfig
from headrace.common import Configuration, Types
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing.driver_process import DriverProcess, kill_process

MIB = 1 << 20


class Count(KeyedProcessFunction):
    """Counts the records of every key, with a timer a key that fires and is set again."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        now_ms = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now_ms // 1000 * 1000 + 1000)
        return ()

    def on_timer(self, timestamp, ctx):
        return ()


def job(rows: int) -> None:
    """The program that the driver runs."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    spark = env.get_spark_session()
    frame = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 1)
        .load()
        .selectExpr("value % 1000 AS key", "value")
    )
    env.from_dataframe(frame).key_by("key").process(Count(), Types.LONG()).uid("count").print()
    env.execute("soak")


@dataclass
class Series:
    """Samples of one figure of one process."""

    epochs: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, epoch: int, value: float) -> None:
        self.epochs.append(epoch)
        self.values.append(value)

    def summary(self, warm_up: float) -> dict[str, float]:
        """Return start, end and slope of the samples after the warm-up."""
        first = int(len(self.values) * warm_up)
        epochs, values = self.epochs[first:], self.values[first:]
        quarter = max(1, len(values) // 4)
        slope = statistics.linear_regression(epochs, values).slope if len(values) > 1 else 0.0
        return {
            "start": round(statistics.mean(values[:quarter]), 1),
            "end": round(statistics.mean(values[-quarter:]), 1),
            "per_1000_epochs": round(slope * 1000, 2),
        }


def status_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def jcmd(pid: int, *command: str) -> str:
    return subprocess.run(
        ["jcmd", str(pid), *command], capture_output=True, text=True, check=True
    ).stdout


def live_classes(pid: int) -> dict[str, int]:
    """Return the bytes that live objects hold, by class; collects garbage first."""
    sizes: Counter[str] = Counter()
    text = jcmd(pid, "GC.class_histogram")
    for size, name in re.findall(r"^ *\d+: +\d+ +(\d+) *(.*)$", text, re.MULTILINE):
        sizes[name or "hidden"] += int(size)  # one name can be many classes
    return dict(sizes)


def thread_groups(pid: int) -> Counter[str]:
    """Return how many threads a JVM has of each kind."""
    names = re.findall(r'^"(.*?)" ', jcmd(pid, "Thread.print"), re.MULTILINE)
    return Counter(re.sub(r"\d+", "*", name) for name in names)


class Soak:
    """One run."""

    def __init__(self, driver: DriverProcess, args: argparse.Namespace) -> None:
        self.driver = driver
        self.args = args
        self.series: dict[str, dict[str, Series]] = {}
        self.classes: dict[str, list[dict[str, int]]] = {}

    def processes(self) -> dict[str, int]:
        """Return the processes by their role."""
        found = {"driver_python": self.driver.pid, "driver_jvm": self.driver.jvm()}
        for number, pid in enumerate(sorted(self.driver.executors())):
            found[f"executor_jvm_{number}"] = pid
        for number, pid in enumerate(sorted(self.driver.slots())):
            found[f"slot_{number}"] = pid
        return found

    def sample(self, epoch: int) -> None:
        """Ask every process."""
        for name, pid in self.processes().items():
            figures = self.series.setdefault(name, {})
            if "jvm" in name:
                classes = live_classes(pid)
                self.classes.setdefault(name, []).append(classes)
                figures.setdefault("heap_mib", Series()).add(epoch, sum(classes.values()) / MIB)
            figures.setdefault("resident_mib", Series()).add(epoch, status_mib(pid))
            figures.setdefault("open_files", Series()).add(epoch, open_files(pid))
            figures.setdefault("threads", Series()).add(epoch, threads(pid))

    def grown(self, name: str) -> list[str]:
        """Return the classes that grew most between the first sample after warm-up and the last."""
        samples = self.classes[name]
        first, last = samples[int(len(samples) * self.args.warm_up)], samples[-1]
        growth = {kind: size - first.get(kind, 0) for kind, size in last.items()}
        largest = sorted(growth, key=lambda kind: -growth[kind])[:12]
        return [f"{kind} {growth[kind] // 1024:+} KiB" for kind in largest]

    def run(self) -> dict[str, object]:
        """Run until the epochs are done or the time is over."""
        args = self.args
        step = max(1, args.epochs // args.samples)
        started = time.monotonic()
        next_sample, first = 0, None
        while True:
            time.sleep(0.2)
            status = self.driver.status()
            if self.driver.returncode is not None:
                raise SystemExit(f"the driver has ended\n{self.driver.log_tail()}")
            if status is None or status.epochs_committed == 0:
                continue
            first = first or (time.monotonic(), status.epochs_committed)
            epoch = status.epochs_committed
            if epoch >= next_sample:
                self.sample(epoch)
                next_sample = epoch + step
                if args.verbose:
                    heap = self.series["driver_jvm"]["heap_mib"].values[-1]
                    print(f"epoch={epoch} driver_heap_mib={heap:.1f}", file=sys.stderr)
            if epoch >= args.epochs or time.monotonic() - started > args.seconds:
                break
        seconds = time.monotonic() - first[0]
        processes = {
            name: {figure: series.summary(args.warm_up) for figure, series in figures.items()}
            for name, figures in self.series.items()
        }
        if args.verbose:
            for name in self.classes:
                kinds = thread_groups(self.processes()[name]).most_common(12)
                threads_of = [f"{count} {kind}" for kind, count in kinds]
                print(name, *self.grown(name), *threads_of, sep="\n  ", file=sys.stderr)
        return {
            "bench": "soak",
            "epochs": epoch,
            "epochs_per_s": round((epoch - first[1]) / seconds, 2),
            "samples": len(self.series["driver_python"]["threads"].values),
            "processes": processes,
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        job(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="rows of an epoch")
    parser.add_argument("--seconds", type=float, default=7200, help="longest run")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument(
        "--warm-up", type=float, default=0.25, help="part of samples that is left out"
    )
    parser.add_argument("--master", default="local-cluster[1,1,1024]")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if shutil.which("jcmd") is None:
        raise SystemExit("jcmd is missing, install a JDK")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        config = DriverConfig(
            job_id=uuid.uuid4().hex,
            job_name="soak",
            namespace="bench",
            program=str(Path(__file__).resolve()),
            args=["--job", str(args.rows)],
            parallelism=1,
            max_parallelism=128,
            config={
                "rest.port": str(free_port()),
                "execution.checkpointing.interval": "5 s",
                "execution.checkpointing.dir": f"file://{directory}/checkpoints",
            },
            spark_conf={"spark.master": args.master},
        )
        driver = DriverProcess(config, Path(directory))
        driver.start()
        try:
            line = Soak(driver, args).run()
        finally:
            slots = driver.slots()
            driver.kill()
            for pid in slots:
                kill_process(pid)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
