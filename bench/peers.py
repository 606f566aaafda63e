"""The keyed count side by side: Headrace, Java Flink (RocksDB and heap), PyFlink and Spark.

All count the records of the same keys in a ``ValueState``, at the same parallelism and checkpoint
interval, from a generator of their own that costs next to nothing. They run one after the other,
each in its own processes, and are measured for ``--seconds`` after a warm-up.

Prints one JSON line last: events a second of wall time for each system (``headrace``,
``flink_rocksdb``, ``flink_heap``, ``pyflink``, ``spark_tws``, and ``pyflink_thread`` on request),
``ratios`` of Headrace to each, and the same by events a second of processor time
(``cpu``, ``cpu_ratios``): the comparison to read when the machine is not quiet.

``make bench NAME=peers`` takes about 8 minutes; ``ARGS="--systems headrace,flink_rocksdb"`` less.
What each system is given, and why, is in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from peer_systems.flink import Flink, install

HERE = Path(__file__).resolve().parent
SYSTEMS = ("headrace", "flink_rocksdb", "flink_heap", "pyflink", "spark_tws")
OPTIONAL = ("pyflink_thread",)
TAG = "HEADRACE_BENCH_RUN"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def command_headrace(args: argparse.Namespace, _flink: Flink | None, _scratch: Path) -> list[str]:
    return [
        *(sys.executable, str(HERE / "keyed_count.py"), "--empty-seconds", "0"),
        *("--keys", str(args.keys), "--parallelism", str(args.parallelism)),
        *("--interval-s", str(args.interval_s), "--seconds", str(args.seconds)),
    ]


def command_flink(backend: str) -> Callable[[argparse.Namespace, Flink | None, Path], list[str]]:
    def command(args: argparse.Namespace, flink: Flink | None, scratch: Path) -> list[str]:
        assert flink is not None
        return [
            *("java", "-Xmx4g", *flink.java_options, f"-Dlog.file={scratch}/flink.log"),
            *("-cp", flink.class_path, "FlinkCount"),
            *(backend, str(args.keys), str(args.parallelism), str(args.interval_s)),
            *(str(args.warmup_s), str(args.seconds), args.managed, str(scratch)),
        ]

    return command


def command_pyflink(mode: str) -> Callable[[argparse.Namespace, Flink | None, Path], list[str]]:
    def command(args: argparse.Namespace, flink: Flink | None, _scratch: Path) -> list[str]:
        assert flink is not None
        return [
            *(str(flink.python), str(HERE / "peer_systems" / "pyflink_count.py")),
            *("--execution-mode", mode, "--keys", str(args.keys)),
            *("--parallelism", str(args.parallelism), "--interval-s", str(args.interval_s)),
            *("--warmup-s", str(args.warmup_s), "--seconds", str(args.seconds)),
            *("--managed", args.managed),
        ]

    return command


def command_spark(args: argparse.Namespace, _flink: Flink | None, _scratch: Path) -> list[str]:
    return [
        *(sys.executable, str(HERE / "peer_systems" / "spark_count.py")),
        *("--keys", str(args.keys), "--parallelism", str(args.parallelism)),
        *("--seconds", str(args.seconds), "--batch-rows", str(args.spark_batch_rows)),
    ]


COMMANDS = {
    "headrace": command_headrace,
    "flink_rocksdb": command_flink("rocksdb"),
    "flink_heap": command_flink("hashmap"),
    "pyflink": command_pyflink("process"),
    "pyflink_thread": command_pyflink("thread"),
    "spark_tws": command_spark,
}


class Processor:
    """Processor time of all processes that carry a mark in their environment."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{TAG}={mark}".encode()
        self._marked: dict[str, bool] = {}

    def seconds(self) -> float:
        """Return the time so far, of children that have ended too."""
        ticks = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if entry.name not in self._marked:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    self._marked[entry.name] = self._mark in environment
                if self._marked[entry.name]:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    ticks += sum(int(field) for field in fields[11:15])
            except OSError:
                continue
        return ticks * TICK_S


class Run:
    """One system, run once."""

    def __init__(self, name: str, command: list[str], log: Path, timeout_s: float) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._timeout_s = timeout_s
        self._marks: dict[str, tuple[float, float]] = {}

    def execute(self) -> dict[str, float]:
        """Run it; returns what it printed, with ``cpu_s`` of its measured window."""
        mark = uuid.uuid4().hex
        environment = {**os.environ, TAG: mark, "SPARK_LOCAL_IP": "127.0.0.1"}
        processor = Processor(mark)
        process = subprocess.Popen(
            self._command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        reader = threading.Thread(target=self._follow, args=(process, processor))
        reader.start()
        timer = threading.Timer(self._timeout_s, process.kill)
        timer.start()
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        process.wait()
        timer.cancel()
        reader.join()
        # Flink logs to standard output too.
        printed = [line for line in lines if line.startswith("{")]
        if not printed or len(self._marks) < 2:
            raise SystemExit(f"{self.name} gave no result, its log ends:\n{self._tail(lines)}")
        began_at, began_cpu = self._marks["measuring"]
        ended_at, ended_cpu = self._marks["measured"]
        cores = (ended_cpu - began_cpu) / (ended_at - began_at)
        return {**json.loads(printed[-1]), "cores": cores}

    def _follow(self, process: subprocess.Popen[str], processor: Processor) -> None:
        assert process.stderr is not None
        with self._log.open("w") as log:
            for line in process.stderr:
                log.write(line)
                if line.strip() in ("measuring", "measured"):
                    self._marks[line.strip()] = (time.perf_counter(), processor.seconds())
                    say(f"{self.name}: {line.strip()}")

    def _tail(self, printed: list[str]) -> str:
        return "\n".join(printed[-30:] + self._log.read_text().splitlines()[-30:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--interval-s", type=int, default=30)
    parser.add_argument("--warmup-s", type=float, default=15)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--managed", default="1g", help="managed memory of Flink's task manager")
    parser.add_argument("--spark-batch-rows", type=int, default=500_000)
    parser.add_argument("--timeout-s", type=float, default=400, help="for one system")
    args = parser.parse_args()
    systems = args.systems.split(",")
    unknown = set(systems) - set(COMMANDS)
    if unknown:
        parser.error(f"no such systems: {', '.join(sorted(unknown))}")
    flink = install() if any("flink" in name for name in systems) else None
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-peers-") as directory:
        for name in systems:
            say(f"{name}: starting, load {os.getloadavg()[0]:.1f}")
            scratch = Path(directory) / name
            scratch.mkdir()
            command = COMMANDS[name](args, flink, scratch)
            log = Path(directory) / f"{name}.log"
            results[name] = Run(name, command, log, args.timeout_s).execute()
            say(f"{name}: {results[name]}")
    print(json.dumps(describe(args, results)))


def describe(args: argparse.Namespace, results: dict[str, dict[str, float]]) -> dict[str, object]:
    """Return the line to print."""
    rates = {name: result["events_per_s"] for name, result in results.items()}
    cpu = {name: round(rates[name] / max(r["cores"], 0.01)) for name, r in results.items()}
    return {
        "bench": "peers",
        **rates,
        "ratios": ratios(rates),
        "cpu": cpu,
        "cpu_ratios": ratios(cpu),
        "cores": {name: round(result["cores"], 2) for name, result in results.items()},
        "keys": args.keys,
        "parallelism": args.parallelism,
        "interval_s": args.interval_s,
        "spark_batch_rows": args.spark_batch_rows,
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def ratios(rates: dict[str, float]) -> dict[str, float]:
    """Return how many times as fast as each other system Headrace is."""
    own = rates.get("headrace")
    if own is None:
        return {}
    peers = {name: rate for name, rate in rates.items() if name != "headrace"}
    return {name: round(own / max(rate, 1), 2) for name, rate in peers.items()}


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
