"""One configuration option: exact key, older keys, type, default and what it does."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from headrace.config.values import ValueType

T = TypeVar("T")


class Section(enum.Enum):
    """Sections of the reference page, in its order."""

    JOB = "Job"
    CHECKPOINTING = "Checkpointing"
    STATE = "State backends"
    ROCKSDB = "RocksDB"
    RESTART = "Restart strategies"
    MEMORY = "Memory and slots"
    STORAGE = "Checkpoint storage"
    REST = "REST"
    ENGINE = "Headrace's engine"


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option.

    Attributes:
        key: Flink's present key, or one below ``headrace.``.
        type: how its text is read and written.
        default: value when no layer of configuration sets it.
        section: place in the reference page.
        description: what it does, with units and what special values mean.
        aliases: keys of earlier Flink versions that mean the same, newest first.
        sensitive: never print the value.
    """

    key: str
    type: ValueType[T]
    default: T
    section: Section
    description: str
    aliases: tuple[str, ...] = ()
    sensitive: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """All accepted keys, the present one first."""
        return (self.key, *self.aliases)
