"""Seams of the checkpoint coordinator towards storage and slots (used by `headrace.driver`).

`CheckpointStore` hides object names, fencing and clean-up; `headrace.checkpoint.store` implements it
over an `ObjectStore`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.ids import CheckpointId, Generation


@dataclass(frozen=True, slots=True)
class ClaimedGeneration:
    """A generation that this coordinator owns, and what it continues from.

    Attributes:
        generation: the fencing number.
        restore: the checkpoint to restore, None for empty state (only when that is right).
        next_checkpoint_id: first free number.
    """

    generation: Generation
    restore: CheckpointMetadata | None
    next_checkpoint_id: CheckpointId


class CheckpointStore(Protocol):
    """The checkpoints of one job in durable storage; thread-safe, one instance a coordinator life."""

    def claim_generation(self) -> ClaimedGeneration:
        """Fence every older coordinator and decide where to continue (docs/adr/0006).

        Raises:
            NoRestorableStateError: state must exist and cannot be read; lists the candidates.
            CorruptStateError: the chosen checkpoint's metadata does not hold.
        """
        ...

    def publish(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint exist, then check the fence; on return its output may be committed.

        Raises:
            FencedError: a newer generation was claimed; nothing may be committed.
            StorageUnavailableError: not published, the checkpoint has failed.
        """
        ...

    def subsume(self, retained: int) -> int:
        """Discard checkpoints beyond the newest ``retained`` and files that none refers to.

        Reference counts come from the metadata of what is retained (D10). Fail-closed: metadata that
        cannot be read deletes nothing. Returns the number of objects deleted.
        """
        ...

    def discard_aborted(self, checkpoint_id: CheckpointId) -> int:
        """Delete what an aborted checkpoint of this generation wrote under ``chk-<n>/``."""
        ...

    def clean_orphans(self) -> int:
        """At start: classify everything, then delete partial checkpoints and unreferenced files of
        **older** generations than this one; never while fenced (T18)."""
        ...

    def check_fence(self) -> None:
        """Raise FencedError when a newer generation exists."""
        ...
