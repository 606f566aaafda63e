"""Second phase of the file sink: put the parts, then create the manifest.

Every step may be repeated by anybody: parts have names and bytes that never differ between
attempts, and the manifest is created conditionally. The manifest spares what was published from
being written again, which matters when somebody has moved or deleted finished parts since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from headrace.checkpoint.storage.store import ObjectStore
from headrace.connectors.files.target import MANIFEST_DIR, FileTarget, encode_target, read_target
from headrace.connectors.sink import CommitOutcome, LocalCommittable, SinkContext
from headrace.errors import (
    CorruptStateError,
    InvalidConfigError,
    ObjectExistsError,
    ObjectMissingError,
    SourceUnavailableError,
    StorageAccessError,
    StorageUnavailableError,
)

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S: Final = 120.0
_PAUSE_S: Final = 1.0

StoreOpener = Callable[[str], ObjectStore]


class FileCommitter:
    """`headrace.connectors.sink.Committer` of the file sink in one slot."""

    def __init__(self, base_uri: str, open_store: StoreOpener, context: SinkContext) -> None:
        """Create a committer; nothing is opened yet.

        Args:
            base_uri: the sink's directory today.
            open_store: URI -> store; spools may name directories of earlier programs.
            context: of the slot.
        """
        self._base_uri = base_uri
        self._open_store = open_store
        self._clock = context.clock
        self._cancelled = context.cancelled
        self._stores: dict[str, ObjectStore] = {}

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """See `Committer.recover`; nothing is to be fenced.

        Checks that today's directory can be written, so that a wrong one is named at the start and
        not at the first checkpoint.
        """
        with _access_errors(self._base_uri):
            # Below the manifests' directory, where readers of the files do not look.
            self._open_store(f"{self._base_uri.rstrip('/')}/{MANIFEST_DIR}").check()
        order = sorted(
            range(len(committables)),
            key=lambda index: committables[index].committable.checkpoint_id,
        )
        outcomes = [CommitOutcome.EMPTY] * len(committables)
        for index in order:
            outcomes[index] = self.commit(committables[index])
        return outcomes

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """See `Committer.commit`."""
        if not committable.paths:
            return CommitOutcome.EMPTY
        first, *parts = committable.paths
        target = read_target(first)
        if len(parts) != len(target.parts) or target.records != committable.committable.records:
            msg = (
                "a file spool does not hold what its target says, restore its checkpoint again; "
                f"path={first} parts={len(parts)} expected={len(target.parts)}"
            )
            raise CorruptStateError(msg)
        deadline = self._clock.monotonic_s() + COMMIT_TIMEOUT_S
        while True:
            try:
                with _access_errors(target.base_uri):
                    return self._publish(target, committable)
            except StorageUnavailableError as error:
                if self._clock.monotonic_s() >= deadline:
                    raise
                logger.warning("file sink retries manifest=%s cause=%s", target.manifest, error)
            if self._clock.wait(self._cancelled, _PAUSE_S):
                msg = f"the sink's generation is over; manifest={target.manifest}"
                raise SourceUnavailableError(msg)

    def close(self) -> None:
        """Nothing is held."""

    def _publish(self, target: FileTarget, committable: LocalCommittable) -> CommitOutcome:
        store = self._stores.get(target.base_uri)
        if store is None:
            store = self._stores[target.base_uri] = self._open_store(target.base_uri)
        try:
            store.get(target.manifest)
        except ObjectMissingError:
            pass
        else:
            return CommitOutcome.ALREADY_PUBLISHED
        for name, path in zip(target.parts, committable.paths[1:], strict=True):
            store.put_file(name, path)
        try:
            store.create(target.manifest, encode_target(target))
        except ObjectExistsError:
            return CommitOutcome.ALREADY_PUBLISHED
        return CommitOutcome.PUBLISHED


@contextmanager
def _access_errors(base_uri: str) -> Iterator[None]:
    """Say whose directory it is: storage itself only knows about checkpoints."""
    try:
        yield
    except StorageAccessError as error:
        msg = (
            "the file sink's directory refuses access, check its path, credentials and "
            f"permissions; base_path={base_uri} cause={error}"
        )
        raise InvalidConfigError(msg) from error
