"""What checkpoints cost a running job: throughput as a series, with and without them.

The keyed count of ``keyed_count.py`` in short epochs runs in turns without checkpoints and with
one every ``--interval-s``. A series has one value for each second: records of epochs, spread evenly
over the time between their ends.

Prints one JSON line last: ``dip_percent``, the loss of mean throughput with checkpoints;
``worst_second``, the lowest value with checkpoints as a share of its mean (and the same without
them: what the machine itself does); ``sync_ms`` and ``checkpoint_ms``, medians. Both series are
drawn into ``--plot``, an SVG or PNG by its name.

``make bench NAME=checkpoint_dip`` takes about 5 minutes, on a quiet machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from keyed_count import build

from headrace.driver import execution

NEVER_S = 1_000_000


@dataclass
class Series:
    """Ends of epochs and of checkpoints in one run, in seconds since the first."""

    ends: list[tuple[float, int]] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)
    sync_ms: list[float] = field(default_factory=list)
    checkpoint_ms: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Records a second over the whole run."""
        (start, before), (end, after) = self.ends[0], self.ends[-1]
        return (after - before) / (end - start)

    def by_second(self) -> list[float]:
        """Records in each whole second."""
        seconds = int(self.ends[-1][0])
        totals = [self._total(second) for second in range(seconds + 1)]
        return [after - before for before, after in itertools.pairwise(totals)]

    def _total(self, at: float) -> float:
        """Records until a moment, as if each epoch's came evenly."""
        for (start, before), (end, after) in itertools.pairwise(self.ends):
            if start <= at <= end:
                return before + (after - before) * (at - start) / (end - start)
        return self.ends[-1][1]


def watch(seconds: float, warmup_epochs: int, series: Series) -> None:
    """Note every epoch and checkpoint for a while, then stop the job."""
    executor = execution._local_executor()  # noqa: SLF001 - a benchmark of this very process
    started, completed = None, 0.0
    before = executor.board
    while True:
        time.sleep(0.01)
        board = executor.board
        if board is None or board is before:
            continue
        status = board.get()
        if status.epochs_committed < warmup_epochs:
            continue
        now = time.perf_counter()
        started = started or now
        if not series.ends or status.records_in != series.ends[-1][1]:
            series.ends.append((now - started, status.records_in))
        gauges = board.metrics()
        if gauges.get("numberOfCompletedCheckpoints", 0) > completed:
            completed = gauges["numberOfCompletedCheckpoints"]
            series.checkpoints.append(now - started)
            series.sync_ms.append(gauges["lastCheckpointSyncTime"])
            series.checkpoint_ms.append(gauges["lastCheckpointDuration"])
        if now - started > seconds and executor.master is not None:
            executor.master.stop(cancel=True)
            return


def run(args: argparse.Namespace, interval_s: int) -> Series:
    """Run the job once."""
    series = Series()
    given = argparse.Namespace(**{**vars(args), "interval_s": interval_s})
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        env = build(given, directory, empty=False)
        threading.Thread(
            target=watch, args=(args.seconds, args.warmup_epochs, series), daemon=True
        ).start()
        env.execute("checkpoint-dip")
    kind = "without checkpoints" if interval_s == NEVER_S else f"every {interval_s} s"
    say(f"{kind}: {series.mean:,.0f} events/s, worst second {min(series.by_second()):,.0f}")
    return series


def plot(path: Path, without: Series, with_them: Series) -> None:
    """Draw both series, and where checkpoints were complete."""
    import matplotlib as mpl  # noqa: PLC0415 - needed for the plot alone

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "headrace"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of its backend

    figure, axes = plt.subplots(figsize=(8, 3))
    for series, label, color in (
        (without, "without checkpoints", "0.65"),
        (with_them, "with checkpoints", "tab:blue"),
    ):
        values = [records / 1e6 for records in series.by_second()]
        axes.step(range(len(values)), values, where="post", label=label, color=color)
    for at in with_them.checkpoints:
        axes.axvline(at, color="tab:orange", linewidth=0.8)
    axes.set(xlabel="seconds", ylabel="million records a second", ylim=(0, None))
    axes.legend(loc="lower right", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--epoch-rows", type=int, default=400_000)
    parser.add_argument("--interval-s", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=45, help="of each run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warmup-epochs", type=int, default=20)
    parser.add_argument("--backend", default="rocksdb")
    parser.add_argument("--plot", type=Path, default=Path("artifacts/checkpoint_dip.svg"))
    args = parser.parse_args()
    runs: dict[int, list[Series]] = {NEVER_S: [], args.interval_s: []}
    for number in range(args.rounds):
        # Every other round the other way round: later runs of one process are faster.
        for interval_s in sorted(runs, reverse=number % 2 == 0):
            runs[interval_s].append(run(args, interval_s))
    without, with_them = runs[NEVER_S], runs[args.interval_s]
    mean_without = statistics.mean(series.mean for series in without)
    mean_with = statistics.mean(series.mean for series in with_them)
    plot(args.plot, without[-1], with_them[-1])
    print(
        json.dumps(
            {
                "bench": "checkpoint_dip",
                "dip_percent": round((1 - mean_with / mean_without) * 100, 2),
                "worst_second": worst_second(with_them),
                "worst_second_without": worst_second(without),
                "events_per_s": round(mean_with),
                "events_per_s_without": round(mean_without),
                "each_run": [
                    {"without": round(a.mean), "with": round(b.mean)}
                    for a, b in zip(without, with_them, strict=True)
                ],
                "checkpoints": sum(len(series.checkpoints) for series in with_them),
                "sync_ms": median(with_them, "sync_ms"),
                "checkpoint_ms": median(with_them, "checkpoint_ms"),
                "keys": args.keys,
                "interval_s": args.interval_s,
                "epoch_rows": args.epoch_rows,
                "load": [round(load, 1) for load in os.getloadavg()],
            }
        )
    )


def worst_second(runs: list[Series]) -> float:
    """Return the lowest second of all runs as a share of its run's mean."""
    return round(min(min(series.by_second()) / series.mean for series in runs), 2)


def median(runs: list[Series], name: str) -> float | None:
    """Return the median over the checkpoints of all runs."""
    values = [value for series in runs for value in getattr(series, name)]
    return round(statistics.median(values), 1) if values else None


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
