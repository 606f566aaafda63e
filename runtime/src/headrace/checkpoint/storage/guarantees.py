"""The start-up check of a store: bad storage must be named within seconds, before any job runs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from headrace.errors import ObjectExistsError, ObjectMissingError, StorageAccessError

if TYPE_CHECKING:
    from headrace.checkpoint.storage.store import ObjectStore

PROBE_DIR: Final = "probe"
"""Probe objects live here; nothing else does."""


def check_guarantees(store: ObjectStore) -> None:
    """Use every operation once on a probe object and compare with what `ObjectStore` promises.

    Raises:
        StorageAccessError: refused, or a guarantee does not hold (an S3 service that ignores
            ``If-None-Match`` would let two coordinators publish the same checkpoint).
        StorageUnavailableError: no answer.
    """
    unique = uuid.uuid4().hex
    path = f"{PROBE_DIR}/{unique}"
    first, second = unique.encode(), uuid.uuid4().hex.encode()
    # A read comes first: what it meets (no bucket, wrong key, no answer) is said once, not thrice.
    _require(_is_missing(store, path), store, "an object is there that nobody wrote")
    try:
        store.create(path, first)
        _require(_is_refused(store, path, second), store, "conditional create is not honoured")
        _require(store.get(path) == first, store, "an object reads back differently")
        listed = [info.path for info in store.list(f"{PROBE_DIR}/{unique}")]
        _require(listed == [path], store, "a written object is not listed")
    finally:
        store.delete([path])
    _require(_is_missing(store, path), store, "a deleted object can still be read")


def _is_refused(store: ObjectStore, path: str, data: bytes) -> bool:
    try:
        store.create(path, data)
    except ObjectExistsError:
        return True
    return False


def _is_missing(store: ObjectStore, path: str) -> bool:
    try:
        store.get(path)
    except ObjectMissingError:
        return True
    return False


def _require(holds: bool, store: ObjectStore, fact: str) -> None:
    if not holds:
        msg = (
            "storage lacks a guarantee that checkpoints need, use another for "
            f"state.checkpoints.dir; fact={fact} uri={store.root_uri}"
        )
        raise StorageAccessError(msg)
