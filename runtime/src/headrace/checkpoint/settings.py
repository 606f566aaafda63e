"""How a job checkpoints, as data. Parsed from Flink's keys elsewhere; checked here once."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headrace.errors import InvalidConfigError


class CheckpointingMode(enum.StrEnum):
    """``execution.checkpointing.mode`` (D8)."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class ExternalizedRetention(enum.StrEnum):
    """``execution.checkpointing.externalized-checkpoint-retention``: fate on cancellation (D17)."""

    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Settings of the checkpoint coordinator; the comment names Flink's key.

    Attributes:
        interval_ms: ``execution.checkpointing.interval``; None switches periodic checkpoints off,
            forced ones stay possible.
        min_pause_ms: ``execution.checkpointing.min-pause``, from the **end** of one checkpoint,
            completed or failed, to the start of the next periodic one.
        timeout_ms: ``execution.checkpointing.timeout``, from trigger to the last acknowledgement.
        tolerable_failures: ``execution.checkpointing.tolerable-failed-checkpoints``: so many
            consecutive failures are borne, one more fails the job over.
        retained: ``state.checkpoints.num-retained``, at least 1.
        mode: ``execution.checkpointing.mode``.
        externalized_retention: what cancellation does with the retained checkpoints.
    """

    interval_ms: int | None
    min_pause_ms: int = 0
    timeout_ms: int = 600_000
    tolerable_failures: int = 0
    retained: int = 1
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    externalized_retention: ExternalizedRetention = ExternalizedRetention.RETAIN_ON_CANCELLATION

    def __post_init__(self) -> None:
        if self.interval_ms is not None:
            _require("execution.checkpointing.interval", self.interval_ms, at_least=10)
        _require("execution.checkpointing.min-pause", self.min_pause_ms, at_least=0)
        _require("execution.checkpointing.timeout", self.timeout_ms, at_least=10)
        _require(
            "execution.checkpointing.tolerable-failed-checkpoints",
            self.tolerable_failures,
            at_least=0,
        )
        _require("state.checkpoints.num-retained", self.retained, at_least=1)


def _require(key: str, value: int, *, at_least: int) -> None:
    if value < at_least:
        msg = f"option is too small, raise it; option={key} value={value} at_least={at_least}"
        raise InvalidConfigError(msg)
