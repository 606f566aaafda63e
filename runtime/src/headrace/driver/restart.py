"""Restart strategies: how long to wait after a failure before the next start, or to give up.

Pure decisions (I8): the caller keeps the history of failures and hands it in with the present time;
only the jitter needs a random source, which is a constructor argument. The caller asks only for
failures that a restart may help (`HeadraceError.restartable`).

Source: Flink's ``FixedDelayRestartBackoffTimeStrategy``, ``FailureRateRestartBackoffTimeStrategy``
and ``ExponentialDelayRestartBackoffTimeStrategy`` (FLIP-364).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.config.options import checkpointing, restart
from headrace.config.options.restart import RestartStrategyKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random  # noqa: TID251 - only the type of what is handed in

    from headrace.config.job_configuration import JobConfiguration


@dataclass(frozen=True, slots=True)
class PastFailure:
    """One failure that was answered with a restart.

    Attributes:
        at_ms: when it happened.
        delay_ms: how long the restart waited.
    """

    at_ms: int
    delay_ms: int

    @property
    def restarted_at_ms(self) -> int:
        """When the job was started again."""
        return self.at_ms + self.delay_ms


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start the job again ``delay_ms`` milliseconds after the failure."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job has failed for good; ``reason`` is for people."""

    reason: str


class RestartStrategy(Protocol):
    """Decides about restarts."""

    def next_delay(self, history: Sequence[PastFailure], now_ms: int) -> RestartAfter | GiveUp:
        """Decide about a failure that happened at ``now_ms``.

        Args:
            history: earlier failures of this driver, oldest first, without the present one.
            now_ms: time of the present failure, not before the last of ``history``.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoRestart:
    """Every failure is final."""

    def next_delay(self, history: Sequence[PastFailure], now_ms: int) -> RestartAfter | GiveUp:  # noqa: ARG002 - the protocol's
        """Give up."""
        return GiveUp("the restart strategy is none")


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most ``attempts`` restarts, each after the same delay."""

    attempts: int
    delay_ms: int

    def next_delay(self, history: Sequence[PastFailure], now_ms: int) -> RestartAfter | GiveUp:  # noqa: ARG002 - the protocol's
        """Restart while attempts are left."""
        if len(history) >= self.attempts:
            return GiveUp(f"all restart attempts are used up; attempts={self.attempts}")
        return RestartAfter(self.delay_ms)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restarts as long as no more than ``failures_max`` failures fall into one interval."""

    failures_max: int
    interval_ms: int
    delay_ms: int

    def next_delay(self, history: Sequence[PastFailure], now_ms: int) -> RestartAfter | GiveUp:
        """Restart unless this failure is one too many within the interval that ends now."""
        recent = sum(1 for failure in history if now_ms - failure.at_ms <= self.interval_ms) + 1
        if recent > self.failures_max:
            return GiveUp(
                f"too many failures within one interval; failures={recent} "
                f"max={self.failures_max} interval_ms={self.interval_ms}"
            )
        return RestartAfter(self.delay_ms)


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Restarts after a growing, jittered delay, which starts afresh after a time without failures.

    Attributes:
        initial_ms, max_ms: bounds of the delay, both inclusive, jitter included.
        multiplier: growth with every failure, > 1.
        reset_after_ms: a job that ran for so long since its restart begins at ``initial_ms``.
        jitter: part of the delay that is added or taken away at most, 0..1.
        attempts: restarts without such a reset before giving up.
        random: source of the jitter.
    """

    initial_ms: int
    max_ms: int
    multiplier: float
    reset_after_ms: int
    jitter: float
    attempts: int
    random: Random

    def next_delay(self, history: Sequence[PastFailure], now_ms: int) -> RestartAfter | GiveUp:
        """Restart after the delay that follows from the failures since the last reset."""
        streak = self._failures_since_reset(history, now_ms)
        if streak >= self.attempts:
            return GiveUp(
                "all restart attempts are used up since the last run without failures; "
                f"attempts={self.attempts} reset_after_ms={self.reset_after_ms}"
            )
        backoff = self._backoff_ms(streak)
        spread = int(backoff * self.jitter)
        jittered = backoff + self.random.randint(-spread, spread)
        return RestartAfter(max(self.initial_ms, min(self.max_ms, jittered)))

    def _failures_since_reset(self, history: Sequence[PastFailure], now_ms: int) -> int:
        streak = 0
        next_failure_ms = now_ms
        for failure in reversed(history):
            if next_failure_ms - failure.restarted_at_ms >= self.reset_after_ms:
                break
            streak += 1
            next_failure_ms = failure.at_ms
        return streak

    def _backoff_ms(self, streak: int) -> int:
        backoff = float(self.initial_ms)
        for _ in range(streak):
            if backoff >= self.max_ms:
                break
            backoff *= self.multiplier
        return min(int(backoff), self.max_ms)


def restart_strategy(configuration: JobConfiguration, random: Random) -> RestartStrategy:
    """Return the configured strategy.

    Without ``restart-strategy.type`` it is Flink's default: exponential delay when checkpointing is
    on, none when it is off.
    """
    get = configuration.get
    kind = get(restart.KIND)
    if kind is None:
        checkpointed = get(checkpointing.INTERVAL) is not None
        kind = RestartStrategyKind.EXPONENTIAL_DELAY if checkpointed else RestartStrategyKind.NONE
    match kind:
        case RestartStrategyKind.NONE:
            return NoRestart()
        case RestartStrategyKind.FIXED_DELAY:
            return FixedDelay(get(restart.FIXED_DELAY_ATTEMPTS), get(restart.FIXED_DELAY_DELAY))
        case RestartStrategyKind.FAILURE_RATE:
            return FailureRate(
                get(restart.FAILURE_RATE_MAX),
                get(restart.FAILURE_RATE_INTERVAL),
                get(restart.FAILURE_RATE_DELAY),
            )
        case RestartStrategyKind.EXPONENTIAL_DELAY:
            return ExponentialDelay(
                initial_ms=get(restart.EXPONENTIAL_INITIAL),
                max_ms=get(restart.EXPONENTIAL_MAX),
                multiplier=get(restart.EXPONENTIAL_MULTIPLIER),
                reset_after_ms=get(restart.EXPONENTIAL_RESET),
                jitter=get(restart.EXPONENTIAL_JITTER),
                attempts=get(restart.EXPONENTIAL_ATTEMPTS),
                random=random,
            )
