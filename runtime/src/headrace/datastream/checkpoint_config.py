"""Checkpoint settings of a program, as ``pyflink.datastream.checkpoint_config``.

Every setter writes an option of the environment's configuration and every getter reads what is in
effect, so program, file and manifest share one set of keys. Times are milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.config.options import checkpointing
from headrace.datastream.checkpointing_mode import CheckpointingMode
from headrace.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from headrace.datastream.unsupported import CHECKPOINTS, missing_attribute

if TYPE_CHECKING:
    from headrace.config.job_configuration import JobConfiguration
    from headrace.config.option import Option

T = TypeVar("T")


class SettingsTarget(Protocol):
    """Where settings are kept: the environment."""

    def set_option(self, key: str, text: str) -> None:
        """Set the option of a key to a text."""
        ...

    def options_in_effect(self) -> JobConfiguration:
        """Return all options in effect, without cross-field rules."""
        ...


class CheckpointConfig:
    """The checkpoint settings of one environment."""

    def __init__(self, target: SettingsTarget) -> None:
        self._target = target

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise missing_attribute(self, name, CHECKPOINTS)

    def is_checkpointing_enabled(self) -> bool:
        """Return whether checkpoints are taken."""
        return self._target.options_in_effect().get(checkpointing.INTERVAL) is not None

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee."""
        return CheckpointingMode[self._target.options_in_effect().get(checkpointing.MODE).name]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the guarantee."""
        return self._set(checkpointing.MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Return the interval, -1 when checkpointing is off."""
        interval = self._target.options_in_effect().get(checkpointing.INTERVAL)
        return -1 if interval is None else interval

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the interval and switch checkpointing on."""
        return self._set(checkpointing.INTERVAL, f"{checkpoint_interval} ms")

    def get_checkpoint_timeout(self) -> int:
        """Return the timeout of a checkpoint."""
        return self._target.options_in_effect().get(checkpointing.TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the timeout of a checkpoint."""
        return self._set(checkpointing.TIMEOUT, f"{checkpoint_timeout} ms")

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least time from the end of a checkpoint to the start of the next."""
        return self._target.options_in_effect().get(checkpointing.MIN_PAUSE)

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: int
    ) -> CheckpointConfig:
        """Set the least time from the end of a checkpoint to the start of the next."""
        return self._set(checkpointing.MIN_PAUSE, f"{min_pause_between_checkpoints} ms")

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints may be under way at once: 1."""
        return self._target.options_in_effect().get(checkpointing.MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Accept 1; more are refused when the program is executed."""
        return self._set(checkpointing.MAX_CONCURRENT, str(max_concurrent_checkpoints))

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many failed checkpoints in a row are tolerated."""
        return self._target.options_in_effect().get(checkpointing.TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many failed checkpoints in a row are tolerated."""
        return self._set(checkpointing.TOLERABLE_FAILURES, str(tolerable_checkpoint_failure_number))

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the fate of checkpoints after cancellation."""
        retention = self._target.options_in_effect().get(checkpointing.RETENTION)
        return ExternalizedCheckpointRetention[retention.name]

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the fate of checkpoints after cancellation."""
        return self._set(checkpointing.RETENTION, retention_mode.name)

    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the fate of checkpoints after cancellation (the name before Flink 2)."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether a fate was chosen."""
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the root of all checkpoints, a URI."""
        return self._set(checkpointing.DIRECTORY, checkpoint_path)

    def get_checkpoint_storage_dir(self) -> str | None:
        """Return the root of all checkpoints."""
        return self._target.options_in_effect().get(checkpointing.DIRECTORY)

    def _set(self, option: Option[T], text: str) -> CheckpointConfig:
        self._target.set_option(option.key, text)
        return self
