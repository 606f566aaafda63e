"""Rules between options, all in one place: pure functions, configuration -> reason or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.config.options import checkpointing, engine, job, restart
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.config.job_configuration import JobConfiguration


def check_rules(configuration: JobConfiguration) -> None:
    """Check every rule.

    Raises:
        InvalidConfigError: the first rule that does not hold; names the keys and values.
    """
    for rule in RULES:
        reason = rule(configuration)
        if reason is not None:
            raise InvalidConfigError(reason)


def _parallelism_fits(configuration: JobConfiguration) -> str | None:
    parallelism = configuration.get(job.PARALLELISM)
    maximum = configuration.get(job.MAX_PARALLELISM)
    if parallelism <= maximum:
        return None
    return (
        f"parallelism must not exceed the number of key groups, raise {job.MAX_PARALLELISM.key} "
        f"before the first start; parallelism={parallelism} max_parallelism={maximum}"
    )


def _checkpoints_have_a_directory(configuration: JobConfiguration) -> str | None:
    interval = configuration.get(checkpointing.INTERVAL)
    if interval is None or configuration.get(checkpointing.DIRECTORY) is not None:
        return None
    return (
        f"checkpointing needs a directory, set {checkpointing.DIRECTORY.key}; "
        f"{configuration.key_of(checkpointing.INTERVAL)}={interval}"
    )


def _durations_are_long_enough(configuration: JobConfiguration) -> str | None:
    for option in (checkpointing.TIMEOUT, engine.EPOCH_TIMEOUT):
        reason = _too_short(configuration.key_of(option), configuration.get(option))
        if reason is not None:
            return reason
    interval = configuration.get(checkpointing.INTERVAL)
    if interval is None:
        return None
    return _too_short(configuration.key_of(checkpointing.INTERVAL), interval)


def _too_short(key: str, value_ms: int) -> str | None:
    if value_ms >= DURATION_MS_MIN:
        return None
    return f"duration is too short, use {DURATION_MS_MIN} ms or more; key={key} value_ms={value_ms}"


def _heartbeat_timeout_is_longer(configuration: JobConfiguration) -> str | None:
    interval = configuration.get(engine.SLOT_HEARTBEAT_INTERVAL)
    timeout = configuration.get(engine.SLOT_HEARTBEAT_TIMEOUT)
    if timeout > interval:
        return None
    return (
        f"{engine.SLOT_HEARTBEAT_TIMEOUT.key} must be longer than "
        f"{engine.SLOT_HEARTBEAT_INTERVAL.key}; timeout_ms={timeout} interval_ms={interval}"
    )


def _backoff_grows_to_its_maximum(configuration: JobConfiguration) -> str | None:
    initial = configuration.get(restart.EXPONENTIAL_INITIAL)
    maximum = configuration.get(restart.EXPONENTIAL_MAX)
    if 1 <= initial <= maximum:
        return None
    return (
        f"{restart.EXPONENTIAL_INITIAL.key} must be at least 1 ms and not above "
        f"{restart.EXPONENTIAL_MAX.key}; initial_ms={initial} max_ms={maximum}"
    )


DURATION_MS_MIN: Final = 10
"""Flink's least checkpoint interval (``CheckpointCoordinatorConfiguration``)."""

RULES: Final[tuple[Callable[[JobConfiguration], str | None], ...]] = (
    _parallelism_fits,
    _durations_are_long_enough,
    _checkpoints_have_a_directory,
    _heartbeat_timeout_is_longer,
    _backoff_grows_to_its_maximum,
)
