"""Making a written savepoint exist, and removing what is not part of it (E9).

Called by whoever had `headrace.state_processor.bootstrap` write all slots. ``_metadata`` is created
last and conditionally, after every file was listed with its size: a directory without it is no
savepoint, and one that is there is never replaced.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.checkpoint.inventory import check_files
from headrace.checkpoint.protocol.cleanup import references_of
from headrace.checkpoint.protocol.paths import METADATA_NAME
from headrace.checkpoint.protocol.savepoints import SAVEPOINT, data_dir
from headrace.checkpoint.protocol.types import (
    FORMAT_VERSION,
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorRecord,
    SlotSnapshot,
    encode_metadata,
)
from headrace.errors import (
    HeadraceError,
    InternalError,
    InvalidConfigError,
    ObjectExistsError,
    StorageUnavailableError,
)
from headrace.ids import OperatorUid, SlotIndex, new_job_id
from headrace.state_processor.bootstrap import FIRST_CHECKPOINT, FIRST_GENERATION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.checkpoint.storage import ObjectStore
    from headrace.clock import Clock
    from headrace.state_processor.bootstrap import SavepointTarget

_LOG = logging.getLogger(__name__)

_CREATE_ATTEMPTS: Final = 3
"""An answer that was lost is asked for again; `ObjectStore.create` knows its own object."""


def check_free(target: SavepointTarget) -> None:
    """Assert that there is no savepoint yet.

    Raises:
        InvalidConfigError: there is one.
    """
    if next(iter(target.open().list(METADATA_NAME)), None) is not None:
        raise _taken(target)


def publish(
    target: SavepointTarget,
    handles: Mapping[OperatorUid, Sequence[KeyedStateHandle]],
    clock: Clock,
    existing: CheckpointMetadata | None = None,
) -> CheckpointMetadata:
    """Make the savepoint exist.

    Args:
        target: the savepoint.
        handles: of every operator that was written, one for each slot.
        clock: time of completion.
        existing: what it takes over from another savepoint, its files already copied.

    Returns:
        its metadata, with paths relative to its directory.

    Raises:
        InvalidConfigError: somebody else has made a savepoint there.
        InternalError: a slot is missing or there twice.
        CorruptStateError: a file is not there.
        StorageUnavailableError: storage failed; the savepoint may exist if that was at the end.
        StorageAccessError: storage refuses.
    """
    for uid, written in handles.items():
        slots = sorted(handle.slot for handle in written)
        if slots != list(range(target.parallelism)):
            msg = f"not every slot was written once; operator={uid} {slots=}"
            raise InternalError(msg)
    base = _empty(target) if existing is None else existing
    records = [OperatorRecord(uid, uid, stateful=True, uid_is_generated=False) for uid in handles]
    metadata = replace(
        base,
        created_ms=clock.now_ms(),
        operators=[*base.operators, *records],
        slots=[
            _with_keyed(slot, [h for hs in handles.values() for h in hs if h.slot == slot.slot])
            for slot in base.slots
        ],
    )
    store = target.open()
    try:
        check_files(store, metadata, name=target.location)
    except BaseException:
        discard(target)
        raise
    try:
        _create(store, encode_metadata(metadata))
    except ObjectExistsError as error:
        discard(target)
        raise _taken(target) from error
    used = {file.path for file in references_of(metadata)}
    discard(target, keep=used)
    return metadata


def discard(target: SavepointTarget, keep: Collection[str] = ()) -> None:
    """Remove what an attempt has written but for ``keep``, best effort: nothing refers to it."""
    store = target.open()
    try:
        written = [info.path for info in store.list(f"{data_dir(target.attempt)}/")]
        store.delete([path for path in written if path not in keep])
    except HeadraceError as error:
        _LOG.warning("files are left behind; location=%s error=%s", target.location, error)


def _create(store: ObjectStore, data: bytes) -> None:
    """Create the metadata.

    When the last answer is lost too, the savepoint may exist, now or in a moment: its files stay.
    """
    for left in reversed(range(_CREATE_ATTEMPTS)):
        try:
            store.create(METADATA_NAME, data)
        except StorageUnavailableError:
            if left == 0:
                raise
        else:
            return


def _empty(target: SavepointTarget) -> CheckpointMetadata:
    """Return a savepoint without operators."""
    return CheckpointMetadata(
        format_version=FORMAT_VERSION,
        kind=SAVEPOINT,
        job_id=new_job_id(),
        checkpoint_id=FIRST_CHECKPOINT,
        generation=FIRST_GENERATION,
        parent=None,
        created_ms=0,
        parallelism=target.parallelism,
        max_parallelism=target.max_parallelism,
        source=None,
        watermark_ms=None,
        operators=[],
        slots=[
            SlotSnapshot(SlotIndex(slot), [], [], [], 0, 0, 0.0, 0.0)
            for slot in range(target.parallelism)
        ],
    )


def _with_keyed(slot: SlotSnapshot, keyed: list[KeyedStateHandle]) -> SlotSnapshot:
    """Return a slot with further keyed state."""
    handles = [*slot.keyed, *keyed]
    size = sum(file.size_bytes for handle in handles for file in handle.files)
    return replace(slot, keyed=handles, state_size_bytes=size, uploaded_bytes=size)


def _taken(target: SavepointTarget) -> InvalidConfigError:
    msg = f"there is a savepoint already, choose another path; path={target.location}"
    return InvalidConfigError(msg)
