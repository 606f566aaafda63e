"""The run: payments flow, pods are killed one after the other, the output is checked.

The stream is cut into one stretch before the first kill and one for each kill. A stretch is
released when the one before it is over, and the kill falls into its middle, so that payments flow
at every kill however slow the machine is; the totals are known from the start all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.api.v1alpha1.streamjob_status import LifecycleState
from headrace.clock import Clock
from headrace_demo.errors import ClusterAnswerError, DemoFailedError
from headrace_demo.feed import PaymentFeed
from headrace_demo.kills import Target, has_recovered, plan_kill, strike
from headrace_demo.observation import Observed, Observer
from headrace_demo.oracle import Comparison, compare, compute_expected
from headrace_demo.output import OutputReader
from headrace_demo.payments import PaymentStream
from headrace_demo.report import Report
from headrace_demo.screen import Figures, Screen

START_TIMEOUT_S: Final = 300.0
RECOVERY_TIMEOUT_S: Final = 300.0
STRETCH_TIMEOUT_S: Final = 600.0
POLL_S: Final = 0.25
EVENTS_POLL_S: Final = 2.0
SETTLING_CHECKPOINTS: Final = 2
"""After so many further checkpoints nothing of earlier epochs can appear any more."""


@dataclass(slots=True)
class Scenario:
    """One run against a job that has been applied."""

    stream: PaymentStream
    feed: PaymentFeed
    output: OutputReader
    observer: Observer
    screen: Screen
    clock: Clock
    targets: tuple[Target, ...] = (Target.EXECUTOR, Target.DRIVER, Target.OPERATOR)
    _event: str = ""
    _event_due_s: float = 0.0

    def run(self, started_s: float) -> tuple[Report, Comparison]:
        """Runs to the end and compares.

        Args:
            started_s: When the whole run began, by the clock.

        Raises:
            DemoFailedError: Something did not happen in time, or the job failed for good.
        """
        with self.screen.drawing():
            self._until("the job starts", _is_ready, START_TIMEOUT_S)
            self.screen.say("the job is ready: payments flow")
            first_s = self.clock.monotonic_s()
            self.output.start()
            self.feed.start()
            recovery_s = self._attack()
            published_s = self._drain()
        self.screen.say("comparing the output with the oracle")
        comparison = compare(compute_expected(self.stream), self.output.records())
        report = Report(
            exact=comparison.is_exact,
            events=comparison.expected,
            keys=comparison.keys,
            kills=len(recovery_s),
            duplicates=comparison.duplicates,
            missing=comparison.missing,
            unexpected=comparison.unexpected,
            checkpoints=len(self.observer.checkpoints),
            recovery_s=recovery_s,
            events_per_s=round(comparison.expected / (published_s - first_s), 1),
            wall_s=round(self.clock.monotonic_s() - started_s, 1),
            seed=self.stream.seed,
        )
        return report, comparison

    def _attack(self) -> dict[str, float]:
        """Releases the stretches and kills in each but the first; returns the recoveries."""
        stretches = len(self.targets) + 1
        ends = [self.stream.events * (i + 1) // stretches for i in range(stretches)]
        self.feed.allow(ends[0])
        self._until_sent(ends[0])
        recovery_s: dict[str, float] = {}
        for target, start, end in zip(self.targets, ends, ends[1:], strict=False):
            self.feed.allow(end)
            self._until_sent((start + end) // 2)
            self._until("waiting for a checkpoint", _is_ready, RECOVERY_TIMEOUT_S)
            recovery_s[target.value] = self._kill(target)
            self._until_sent(end)
        return recovery_s

    def _until_sent(self, events: int) -> None:
        self._until("payments flow", lambda _: self.feed.sent >= events, STRETCH_TIMEOUT_S)

    def _kill(self, target: Target) -> float:
        """Kills one pod and waits until the job is back; returns the seconds that it took."""
        kill = plan_kill(target, self.observer.observe())
        struck_s = self.clock.monotonic_s()
        strike(kill, self.observer)
        self.screen.say(f"killed the {target}: pod {kill.pod}", "red")
        back = self._until(
            f"the {target} is killed, waiting for recovery",
            lambda seen: has_recovered(kill, seen),
            RECOVERY_TIMEOUT_S,
        )
        seconds = round(back.at_s - struck_s, 1)
        self.screen.say(f"recovered from the loss of the {target} in {seconds} s", "green")
        self._until("waiting for a checkpoint", _is_ready, RECOVERY_TIMEOUT_S)
        return seconds

    def _drain(self) -> float:
        """Waits until all of the output is published; returns when it was."""
        self._until(
            "the rest is published",
            lambda _: self.feed.is_complete and self.output.count >= self.stream.events,
            STRETCH_TIMEOUT_S,
        )
        published_s = self.clock.monotonic_s()
        last = max(self.observer.checkpoints, default=0) + SETTLING_CHECKPOINTS
        self._until(
            "two more checkpoints, so that a duplicate would show",
            lambda seen: seen.last_checkpoint >= last and self.output.is_at_end,
            STRETCH_TIMEOUT_S,
        )
        return published_s

    def _until(
        self, doing: str, condition: Callable[[Observed], bool], timeout_s: float
    ) -> Observed:
        """Looks at the job and shows it until a condition holds.

        Raises:
            DemoFailedError: It does not hold in time, or the job ended for good.
        """
        pause = threading.Event()
        deadline_s = self.clock.monotonic_s() + timeout_s
        while True:
            seen = self._look(doing)
            if seen is not None and condition(seen):
                return seen
            if self.clock.monotonic_s() > deadline_s:
                raise DemoFailedError(
                    "something did not happen in time: the job's state is below "
                    f"waiting_for={doing!r} timeout_s={timeout_s:.0f}"
                )
            self.clock.wait(pause, POLL_S)

    def _look(self, doing: str) -> Observed | None:
        try:
            seen = self.observer.observe()
            if seen.at_s >= self._event_due_s:
                self._event = self.observer.last_event()
                self._event_due_s = seen.at_s + EVENTS_POLL_S
        except ClusterAnswerError as error:
            self.screen.say(f"{error}", "yellow")
            return None
        figures = Figures(
            events=self.stream.events,
            sent=self.feed.sent,
            published=self.output.count,
            checkpoints=len(self.observer.checkpoints),
            last_event=self._event,
            doing=doing,
        )
        self.screen.show(seen, figures)
        _require_alive(seen)
        self.feed.check()
        self.output.check()
        return seen


def _is_ready(seen: Observed) -> bool:
    return seen.is_ready


def _require_alive(seen: Observed) -> None:
    """Raises `DemoFailedError` if the job ended for good, for then nothing more will happen."""
    status = seen.status
    if status is not None and status.lifecycle_state is LifecycleState.FAILED:
        cause = status.last_error.message if status.last_error is not None else "unknown"
        raise DemoFailedError(f"the job has failed for good cause={cause!r}")
