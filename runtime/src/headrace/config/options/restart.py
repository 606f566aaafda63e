"""Options of restart strategies (I8), with Flink's keys and defaults."""

from __future__ import annotations

import enum
from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import DURATION, INTEGER_MAX, enumeration, integer, number, optional

_SECTION: Final = Section.RESTART


class RestartStrategyKind(enum.Enum):
    """Restart strategies."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


KIND: Final = Option(
    "restart-strategy.type",
    optional(
        enumeration(
            RestartStrategyKind,
            {
                "off": RestartStrategyKind.NONE,
                "disable": RestartStrategyKind.NONE,
                "fixeddelay": RestartStrategyKind.FIXED_DELAY,
                "failurerate": RestartStrategyKind.FAILURE_RATE,
                "exponentialdelay": RestartStrategyKind.EXPONENTIAL_DELAY,
            },
        )
    ),
    None,
    _SECTION,
    "What happens after a failure. Not set: `exponential-delay` when checkpointing is on, `none` "
    "when it is off.",
    aliases=("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS: Final = Option(
    "restart-strategy.fixed-delay.attempts",
    integer(0),
    1,
    _SECTION,
    "Restarts over the life of the driver before the job fails for good.",
)
FIXED_DELAY_DELAY: Final = Option(
    "restart-strategy.fixed-delay.delay",
    DURATION,
    1_000,
    _SECTION,
    "Time between a failure and the restart.",
)
FAILURE_RATE_MAX: Final = Option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    integer(1),
    1,
    _SECTION,
    "Failures within one interval that are survived; one more fails the job for good.",
)
FAILURE_RATE_INTERVAL: Final = Option(
    "restart-strategy.failure-rate.failure-rate-interval",
    DURATION,
    60_000,
    _SECTION,
    "Length of the interval in which failures are counted.",
)
FAILURE_RATE_DELAY: Final = Option(
    "restart-strategy.failure-rate.delay",
    DURATION,
    1_000,
    _SECTION,
    "Time between a failure and the restart.",
)
EXPONENTIAL_INITIAL: Final = Option(
    "restart-strategy.exponential-delay.initial-backoff",
    DURATION,
    1_000,
    _SECTION,
    "Delay of the first restart.",
)
EXPONENTIAL_MAX: Final = Option(
    "restart-strategy.exponential-delay.max-backoff",
    DURATION,
    60_000,
    _SECTION,
    "Longest delay of a restart.",
)
EXPONENTIAL_MULTIPLIER: Final = Option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    number(1.0, above=True),
    1.5,
    _SECTION,
    "Factor by which the delay grows with every failure.",
)
EXPONENTIAL_RESET: Final = Option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    DURATION,
    3_600_000,
    _SECTION,
    "Time without a failure after which the delay starts again from the initial one.",
)
EXPONENTIAL_JITTER: Final = Option(
    "restart-strategy.exponential-delay.jitter-factor",
    number(0.0, 1.0),
    0.1,
    _SECTION,
    "Part of the delay by which it is changed at random, up or down.",
)
EXPONENTIAL_ATTEMPTS: Final = Option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    integer(1),
    INTEGER_MAX,
    _SECTION,
    "Restarts without a reset of the delay before the job fails for good.",
)

OPTIONS: Final = (
    KIND,
    FIXED_DELAY_ATTEMPTS,
    FIXED_DELAY_DELAY,
    FAILURE_RATE_MAX,
    FAILURE_RATE_INTERVAL,
    FAILURE_RATE_DELAY,
    EXPONENTIAL_INITIAL,
    EXPONENTIAL_MAX,
    EXPONENTIAL_MULTIPLIER,
    EXPONENTIAL_RESET,
    EXPONENTIAL_JITTER,
    EXPONENTIAL_ATTEMPTS,
)
