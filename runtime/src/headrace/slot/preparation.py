"""State of a slot that will take over: built from the base of a rescale while others serve.

Rows come from the frozen directories of former owners where this machine can reach them, by hard
links and without a byte downloaded, otherwise from checkpoint storage.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle
import msgspec

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.storage.opening import open_store
from headrace.errors import CorruptStateError, LocalStorageError, StorageUnavailableError
from headrace.slot.keyed_state import KeyedPlace
from headrace.slot.settings import SlotSettings
from headrace.state.changes import apply_changes
from headrace.state.contract import RestoreSource
from headrace.state.factory import backend_factory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.checkpoint.protocol.types import KeyedStateHandle
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import CheckpointId, OperatorUid
    from headrace.slot.job import SlotEnvironment
    from headrace.slot.messages import CatchUp, Prepare
    from headrace.state.contract import BackendConfig
    from headrace.state.storage import StateStorage

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PreparedState:
    """Rows of every keyed operator as of one checkpoint, waiting for a hand-over.

    Attributes:
        base: the checkpoint; moves on with every `catch_up`.
        downloaded_bytes, copied_bytes: from storage, and from former owners on this disk.
    """

    base: CheckpointId
    directory: Path
    downloader: SnapshotDownloader
    downloaded_bytes: int = 0
    copied_bytes: int = 0
    operators: dict[OperatorUid, tuple[BackendConfig[object], StateStorage]] = field(
        default_factory=dict
    )

    def catch_up(self, order: CatchUp) -> int:
        """Apply what changed up to a later checkpoint; returns the bytes downloaded.

        An operator whose changes are not known is let go of: its rows lead nowhere, and the slot
        restores it from storage when it takes over.
        """
        moved = 0
        directory = self.directory / f"changes-{order.checkpoint_id}"
        for index, (uid, (config, storage)) in enumerate(list(self.operators.items())):
            files = order.hand_over.changes.get(uid)
            cause: object = "changes are not known"
            if files is not None and order.hand_over.base == self.base:
                try:
                    for path in self.downloader.download_files(files, directory / str(index)):
                        apply_changes(path, storage, config.key_group_range)
                    moved += sum(file.size_bytes for file in files)
                    continue
                except (CorruptStateError, StorageUnavailableError) as error:
                    cause = error
            log.warning("prepared rows are given up operator=%s cause=%s", uid, cause)
            storage.close()
            del self.operators[uid]
        shutil.rmtree(directory, ignore_errors=True)
        self.base = order.checkpoint_id
        return moved

    def close(self) -> None:
        """Close what nobody took."""
        for _, storage in self.operators.values():
            storage.close()
        self.operators.clear()


def prepare_state(
    order: Prepare, graph: JobGraph, place: KeyedPlace, downloader: SnapshotDownloader
) -> PreparedState:
    """Build the rows of a slot that will take over.

    Raises:
        HeadraceError: a handle's files cannot be had or read.
    """
    prepared = PreparedState(order.checkpoint_id, place.directory, downloader)
    factory = backend_factory(place.settings.state_backend)
    try:
        for operator in graph.operators_in(place.slot):
            if not operator.kind.is_keyed:
                continue
            config = place.config(operator, graph)
            handles = [h for h in order.keyed if h.operator_uid == operator.uid]
            try:
                sources = [_near(handle, order) for handle in handles]
                storage = factory.prepare(config, sources)
                prepared.copied_bytes += _size(handles)
            except (CorruptStateError, LocalStorageError, OSError) as error:
                # Out of reach on another machine, or already gone: storage has it for certain.
                log.info("preparing from storage operator=%s cause=%s", operator.uid, error)
                shutil.rmtree(config.directory, ignore_errors=True)
                downloads = place.directory / "downloads" / str(operator.id)
                sources = [
                    downloader.download_keyed(handle, downloads / str(index))
                    for index, handle in enumerate(handles)
                ]
                storage = factory.prepare(config, sources)
                shutil.rmtree(downloads, ignore_errors=True)
                prepared.downloaded_bytes += _size(handles)
            prepared.operators[operator.uid] = (config, storage)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _near(handle: KeyedStateHandle, order: Prepare) -> RestoreSource:
    """Return a handle's files in the frozen directory of the slot that wrote them.

    Raises:
        CorruptStateError: they are not there.
    """
    known = order.directories.get(f"{handle.operator_uid}/{handle.slot}")
    directory = Path(known) if known is not None else None
    complete = directory is not None and all(
        (path := directory / file.name).is_file() and path.stat().st_size == file.size_bytes
        for file in handle.files
    )
    if directory is None or not complete:
        msg = f"not on this disk; operator={handle.operator_uid} slot={handle.slot}"
        raise CorruptStateError(msg)
    return RestoreSource(
        directory,
        handle.key_group_range,
        handle.key_serializer,
        tuple(handle.schemas),
        handle.backend,
    )


def _size(handles: Sequence[KeyedStateHandle]) -> int:
    return sum(file.size_bytes for handle in handles for file in handle.files)


def prepare(order: Prepare, environment: SlotEnvironment) -> PreparedState:
    """Build the rows of a slot that will take over at a hand-over.

    Raises:
        HeadraceError: the base checkpoint's files cannot be had or read.
    """
    settings = msgspec.msgpack.decode(order.settings, type=SlotSettings)
    graph: JobGraph = cloudpickle.loads(order.job_graph)
    directory = environment.work_dir / f"prepared-{order.checkpoint_id}"
    shutil.rmtree(directory, ignore_errors=True)
    place = KeyedPlace(
        slot=environment.slot,
        max_parallelism=order.max_parallelism,
        directory=directory,
        settings=settings,
        clock=environment.clock,
        memory=environment.memories.of_bytes(settings.managed_memory_bytes),
    )
    options = settings.storage_options
    store = open_store(settings.checkpoints_uri, options)
    downloader = SnapshotDownloader(
        store, environment.pool, open_elsewhere=lambda uri: open_store(uri, options)
    )
    return prepare_state(order, graph, place, downloader)
