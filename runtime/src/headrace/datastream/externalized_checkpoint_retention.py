"""Fate of checkpoints after cancellation, as PyFlink's module of this name."""

from __future__ import annotations

import enum


class ExternalizedCheckpointRetention(enum.Enum):
    """What happens to the retained checkpoints when a job is cancelled."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""The name before Flink 2."""
