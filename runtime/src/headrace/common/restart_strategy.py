"""Restart strategies as a program sets them, as ``pyflink.common.restart_strategy``.

They only write options (``restart-strategy.*``); `headrace.driver.restart` acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.config.options import restart
from headrace.config.options.restart import RestartStrategyKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A chosen restart strategy as options by key."""

    settings: Mapping[str, str]

    def get_description(self) -> str:
        """Return the settings in one line."""
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())


class RestartStrategies:
    """Makes restart strategies; delays and intervals are milliseconds."""

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Return the strategy by which every failure is final."""
        return RestartStrategyConfiguration({restart.KIND.key: RestartStrategyKind.NONE.value})

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Return the strategy that the configuration outside the program sets."""
        return RestartStrategyConfiguration({})

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int
    ) -> RestartStrategyConfiguration:
        """Return so many restarts with the same delay in ms."""
        return RestartStrategyConfiguration(
            {
                restart.KIND.key: RestartStrategyKind.FIXED_DELAY.value,
                restart.FIXED_DELAY_ATTEMPTS.key: str(restart_attempts),
                restart.FIXED_DELAY_DELAY.key: f"{delay_between_attempts} ms",
            }
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategyConfiguration:
        """Return restarts while at most ``failure_rate`` failures fall into one interval (ms)."""
        return RestartStrategyConfiguration(
            {
                restart.KIND.key: RestartStrategyKind.FAILURE_RATE.value,
                restart.FAILURE_RATE_MAX.key: str(failure_rate),
                restart.FAILURE_RATE_INTERVAL.key: f"{failure_interval} ms",
                restart.FAILURE_RATE_DELAY.key: f"{delay_interval} ms",
            }
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int,
        max_backoff: int,
        backoff_multiplier: float,
        reset_backoff_threshold: int,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Return restarts after a growing delay; times are milliseconds."""
        return RestartStrategyConfiguration(
            {
                restart.KIND.key: RestartStrategyKind.EXPONENTIAL_DELAY.value,
                restart.EXPONENTIAL_INITIAL.key: f"{initial_backoff} ms",
                restart.EXPONENTIAL_MAX.key: f"{max_backoff} ms",
                restart.EXPONENTIAL_MULTIPLIER.key: repr(float(backoff_multiplier)),
                restart.EXPONENTIAL_RESET.key: f"{reset_backoff_threshold} ms",
                restart.EXPONENTIAL_JITTER.key: repr(float(jitter_factor)),
            }
        )
