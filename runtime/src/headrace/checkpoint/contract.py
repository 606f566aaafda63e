"""Seams of the checkpoint coordinator towards storage (used by `headrace.driver`).

`CheckpointStore` hides object names, fencing and clean-up; `headrace.checkpoint.store` implements
it over an `ObjectStore`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.ids import CheckpointId

if TYPE_CHECKING:
    from headrace.api.driver import CheckpointSummary
    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.ids import Generation


@dataclass(frozen=True, slots=True)
class ClaimedGeneration:
    """A generation that this coordinator owns, and what it continues from.

    Attributes:
        generation: the fencing number.
        restore: the checkpoint to restore, None for empty state (only when that is right).
        next_checkpoint_id: first free number.
        parent: ``restore``'s number if it is a checkpoint of this job's own line; what every
            checkpoint of this generation records as its parent.
    """

    generation: Generation
    restore: CheckpointMetadata | None
    next_checkpoint_id: CheckpointId
    parent: CheckpointId | None

    def starting_from(self, foreign: CheckpointMetadata) -> ClaimedGeneration:
        """Return this claim with the state of a checkpoint that `read_checkpoint` has read.

        Only for a job that has none of its own. Numbers go on above the foreign one: sinks record
        the number of what they have published, pending output of ``foreign`` included.
        """
        number = max(self.next_checkpoint_id, CheckpointId(foreign.checkpoint_id + 1))
        return dataclasses.replace(self, restore=foreign, next_checkpoint_id=number, parent=None)


class CheckpointStore(Protocol):
    """The checkpoints of one job in durable storage; thread-safe, one instance a generation.

    A deposed coordinator finds files missing that its successor has superseded. So before a fatal
    error is reported (CorruptStateError of a slot's restore, say), ask `check_fence`: if it raises
    FencedError, that is the truth.

    There is no method that cleans up after one aborted checkpoint: whether its metadata exists may
    be unknown, and its pending output may travel on in the next one. What it left behind is
    garbage once a newer checkpoint is complete, and the next `subsume` removes it.
    """

    def probe_writable(self) -> None:
        """Check within seconds that storage can be written, read, and honours conditional create.

        Raises:
            StorageAccessError: it refuses what is configured; the message names the option.
            StorageUnavailableError: it does not answer.
        """
        ...

    def claim_generation(self) -> ClaimedGeneration:
        """Fence every older coordinator and decide where to continue (docs/adr/0006).

        Call once. All files of the checkpoint to restore have been seen with their right sizes.

        Raises:
            FencedError: a newer generation was claimed meanwhile: stop, touch nothing.
            NoRestorableStateError: state must exist and cannot be found; lists the candidates.
            CorruptStateError: the chosen checkpoint's metadata or files do not hold.
            StorageUnavailableError: nothing was decided; a fresh instance may try again.
        """
        ...

    def publish(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint exist, then check the fence; on return its output may be committed.

        Raises:
            FencedError: a newer generation was claimed; nothing may be committed.
            ObjectExistsError: a deposed coordinator used this number; take a higher one.
            StorageUnavailableError: the checkpoint has failed: nothing may be committed, and
                whether it exists is unknown. If the job fails over now, the next generation may
                continue from it, which is right; if a newer one completes, it is discarded.
        """
        ...

    def subsume(self, retained: int) -> int:
        """Discard checkpoints beyond the newest ``retained`` and every file that none refers to.

        Call in background after `publish` has returned. Reference counts come from the metadata in
        storage (D10). Fail-closed: metadata that cannot be read deletes nothing. Files of a
        checkpoint in progress, or of one that a savepoint is copied from, are never touched.
        Returns the number of objects deleted.

        Raises:
            FencedError: a newer generation exists; nothing was deleted.
            CorruptStateError: metadata that must be read cannot be; nothing was deleted.
            StorageUnavailableError: some garbage is left for the next call.
        """
        ...

    def clean_orphans(self) -> int:
        """Delete what older generations left behind and this one does not continue from (T18).

        Once after `claim_generation`; may run while slots restore. Partial checkpoints, checkpoints
        of deposed coordinators, unreferenced files. Returns and raises as `subsume`.
        """
        ...

    def discard_all(self) -> int:
        """Delete every checkpoint of the job, for ``DELETE_ON_CANCELLATION`` (D17).

        The generation markers stay, so that a restart under the same job id is refused instead of
        starting empty. Returns and raises as `subsume`.
        """
        ...

    def check_fence(self) -> None:
        """Raise FencedError when a newer generation exists."""
        ...

    def list_checkpoints(self) -> list[CheckpointSummary]:
        """Return the complete checkpoints on this generation's line, newest first."""
        ...

    def read_checkpoint(self, path: str) -> CheckpointMetadata:
        """Read a checkpoint or savepoint by explicit URI (``.../chk-<n>``), of any job (D18).

        Its file handles are returned with absolute URIs, for they lie outside this job's directory;
        `SnapshotDownloader` takes both. Presence and size of every file have been checked.

        Raises:
            NoRestorableStateError: there is no complete checkpoint at ``path``.
            CorruptStateError: metadata or files do not hold.
            InvalidConfigError: the URI's scheme is not supported.
        """
        ...
