"""Keyed state of one slot on its way from a checkpoint to open backends.

Three ways, from fast to slow, chosen for each operator by what is at hand; all end in the same
state:

- **hand-over**: rows that this process prepared (`PreparedState`) plus what changed since;
- **local recovery**: the frozen copy on this disk of the very checkpoint that is ordered (I6);
- **download** from checkpoint storage, every byte checked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.upload import ReusableFiles
from headrace.errors import CorruptStateError, EpochAbortedError, StorageUnavailableError
from headrace.keygroups import key_group_range_of_slot
from headrace.slot.snapshots import KeyedPart
from headrace.state.contract import BackendConfig, RestoreSource
from headrace.state.directories import working_directory
from headrace.state.factory import backend_factory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.checkpoint.download import SnapshotDownloader
    from headrace.checkpoint.protocol.types import KeyedStateHandle
    from headrace.clock import Clock
    from headrace.graph.job_graph import JobGraph, JobOperator
    from headrace.ids import OperatorUid, SlotIndex
    from headrace.slot.messages import Restore
    from headrace.slot.preparation import PreparedState
    from headrace.slot.settings import SlotSettings
    from headrace.slot.snapshots import SlotSnapshots
    from headrace.state.memory import SlotMemory
    from headrace.state.storage import StateStorage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyedPlace:
    """Where and for whom state is opened.

    Attributes:
        directory: working files go below it.
        max_parallelism: of the job.
        memory: what all backends of the slot share.
    """

    slot: SlotIndex
    max_parallelism: int
    directory: Path
    settings: SlotSettings
    clock: Clock
    memory: SlotMemory

    def config(self, operator: JobOperator, graph: JobGraph) -> BackendConfig[object]:
        """Return what an operator's backend is opened with."""
        if operator.key_serializer is None:
            msg = f"keyed operator without a key type; uid={operator.uid}"
            raise EpochAbortedError(msg)
        settings = self.settings
        parallelism = graph.parallelism_of(operator)
        keyed_operators = sum(1 for one in graph.operators() if one.kind.is_keyed)
        name = working_directory(
            settings.job_id,
            type(operator.function).__name__,
            operator.uid,
            self.slot,
            parallelism,
        )
        return BackendConfig(
            directory=self.directory / name,
            operator_uid=operator.uid,
            key_serializer=operator.key_serializer,
            key_group_range=key_group_range_of_slot(self.slot, parallelism, self.max_parallelism),
            managed_memory_bytes=settings.managed_memory_bytes // keyed_operators,
            memory=self.memory,
            options=settings.state_options,
            clock=self.clock,
            allow_non_restored_state=settings.allow_non_restored_state,
        )


class KeyedStateOpener:
    """Opens the backends of one restore order.

    Attributes:
        downloaded_bytes: from storage so far.
        restored_locally: nothing had to be downloaded.
    """

    def __init__(
        self,
        order: Restore,
        place: KeyedPlace,
        graph: JobGraph,
        downloader: SnapshotDownloader,
        snapshots: SlotSnapshots,
        prepared: PreparedState | None,
    ) -> None:
        self._order = order
        self._place = place
        self._graph = graph
        self._downloader = downloader
        self._snapshots = snapshots
        self._prepared = prepared
        self.downloaded_bytes = 0
        self.restored_locally = order.checkpoint_id is not None

    def open(self, operator: JobOperator) -> KeyedPart:
        """Open the backend of one operator.

        Raises:
            HeadraceError: its state cannot be restored.
        """
        settings = self._place.settings
        handles = [h for h in self._order.keyed if h.operator_uid == operator.uid]
        factory = backend_factory(settings.state_backend)
        taken = self._take_prepared(operator.uid)
        if taken is not None:
            config, storage, changes = taken
            backend = factory.open_prepared(config, storage, handles, changes)
            reusable = ReusableFiles(None)
        else:
            config = self._place.config(operator, self._graph)
            sources = [self._fetch(operator, i, handle) for i, handle in enumerate(handles)]
            backend = factory.open(config, sources)
            adopted = _adopted(handles, config, settings.state_backend)
            reusable = ReusableFiles(adopted if settings.incremental else None)
        return KeyedPart(operator.id, operator.uid, backend, settings.state_backend, reusable)

    def _take_prepared(
        self, uid: OperatorUid
    ) -> tuple[BackendConfig[object], StateStorage, list[Path]] | None:
        """Return prepared rows and the files of changes, None when they do not lead there."""
        prepared, hand_over = self._prepared, self._order.hand_over
        if prepared is None or hand_over is None or prepared.base != hand_over.base:
            return None
        files = hand_over.changes.get(uid)
        if files is None or uid not in prepared.operators:
            log.warning("restoring from storage, changes are not known operator=%s", uid)
            return None
        directory = self._place.directory / "changes" / str(len(prepared.operators))
        try:
            paths = self._downloader.download_files(files, directory)
        except (CorruptStateError, StorageUnavailableError) as error:
            log.warning("restoring from storage, changes are gone operator=%s: %s", uid, error)
            return None
        self.downloaded_bytes += sum(file.size_bytes for file in files)
        config, storage = prepared.operators.pop(uid)
        return config, storage, paths

    def _fetch(self, operator: JobOperator, index: int, handle: KeyedStateHandle) -> RestoreSource:
        """Return the handle's files on local disk, from the frozen copy if it is the same state."""
        recovery, order = self._snapshots.recovery, self._order
        if (
            recovery is not None
            and recovery.checkpoint_id == order.checkpoint_id
            and recovery.generation == order.checkpoint_generation
        ):
            stored = recovery.handles.get(operator.uid)
            if stored is not None and stored[0] == handle:
                local = stored[1]
                return RestoreSource(
                    local.directory,
                    local.key_group_range,
                    local.key_serializer,
                    local.schemas,
                    handle.backend,
                )
        self.restored_locally = False
        target = self._place.directory / "downloads" / f"{operator.id}-{index}"
        source = self._downloader.download_keyed(handle, target)
        self.downloaded_bytes += sum(file.size_bytes for file in handle.files)
        return source


def _adopted(
    handles: Sequence[KeyedStateHandle], config: BackendConfig[object], backend: str
) -> KeyedStateHandle | None:
    """Return the handle whose very files the backend works on, if they are this job's."""
    if len(handles) != 1 or handles[0].key_group_range != config.key_group_range:
        return None
    if handles[0].backend != backend:
        return None
    return None if any("://" in file.path for file in handles[0].files) else handles[0]
