"""Guarantees of checkpoints, as ``pyflink.datastream.checkpointing_mode``."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """What a checkpoint guarantees about state."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
