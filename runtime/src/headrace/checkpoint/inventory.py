"""Reading what storage holds of one job: markers, checkpoints, files. No decisions, no writes.

Used by `ObjectCheckpointStore`, which hands the facts to the pure functions of `protocol`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.cleanup import CompleteCheckpoint, references_of
from headrace.checkpoint.protocol.generations import (
    LatestRecord,
    ObservedGeneration,
    StartRecord,
)
from headrace.checkpoint.protocol.types import CheckpointMetadata, FileHandle, decode_metadata
from headrace.errors import CorruptStateError, ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.checkpoint.storage import ObjectInfo, ObjectStore
    from headrace.ids import CheckpointId, Generation

T = TypeVar("T")
R = TypeVar("R", StartRecord, LatestRecord)

READ_ATTEMPTS: Final = 3
"""So often is read what does not hold: a cut reply is another one the next time, rot is not."""

_NAMED_IN_MESSAGES: Final = 5
"""So many missing files are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything below the job's root, as one listing showed it."""

    objects: dict[str, ObjectInfo]

    @property
    def claims(self) -> list[Generation]:
        """Claimed generations."""
        return [generation for generation, kind in self._markers() if kind == "claim"]

    @property
    def starts(self) -> list[Generation]:
        """Generations that recorded where they start."""
        return [generation for generation, kind in self._markers() if kind == "start"]

    @property
    def complete(self) -> list[CheckpointId]:
        """Checkpoints whose metadata exists."""
        found = (paths.parse_metadata_path(path) for path in self.objects)
        return [n for n in found if n is not None]

    @property
    def numbers(self) -> list[CheckpointId]:
        """Every checkpoint number in use, partial checkpoints included."""
        found = {paths.parse_checkpoint_dir(path) for path in self.objects}
        return [n for n in found if n is not None]

    def has_latest(self, generation: Generation) -> bool:
        """Return whether the generation has completed a checkpoint."""
        return paths.latest_path(generation) in self.objects

    def _markers(self) -> list[tuple[Generation, str]]:
        found = (paths.parse_generation_marker(path) for path in self.objects)
        return [marker for marker in found if marker is not None]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Reader over one job's directory.

    It remembers nothing on purpose: a number can be used again after its orphan was deleted, with
    metadata of the same size and, on S3, the same second.

    Attributes:
        store: rooted at the job's directory.
    """

    store: ObjectStore

    def list_all(self) -> Listing:
        """List the job's directory."""
        return Listing({info.path: info for info in self.store.list()})

    def claims(self) -> list[Generation]:
        """List the claims alone."""
        found = self.store.list(f"{paths.GENERATIONS_DIR}/")
        return Listing({info.path: info for info in found}).claims

    def observed_generation(self, listing: Listing) -> ObservedGeneration | None:
        """Read the markers of the newest generation that recorded a start.

        Raises:
            CorruptStateError: a marker cannot be read.
        """
        if not listing.starts:
            return None
        last = max(listing.starts)
        start = self._record(paths.start_path(last), StartRecord)
        latest = (
            self._record(paths.latest_path(last), LatestRecord).checkpoint_id
            if listing.has_latest(last)
            else None
        )
        return ObservedGeneration(last, start.checkpoint_id, start.first_checkpoint_id, latest)

    def metadata(self, checkpoint_id: CheckpointId) -> CheckpointMetadata | None:
        """Read a checkpoint's metadata; None if it does not exist (any longer).

        Raises:
            CorruptStateError: it cannot be decoded.
        """
        try:
            return read_metadata(self.store, paths.metadata_path(checkpoint_id))
        except ObjectMissingError:
            return None

    def complete(self, listing: Listing) -> dict[CheckpointId, CheckpointMetadata]:
        """Read every checkpoint that the listing shows as complete.

        Raises:
            CorruptStateError: one cannot be decoded.
        """
        read = {n: self.metadata(n) for n in listing.complete}
        return {n: metadata for n, metadata in read.items() if metadata is not None}

    def _record(self, path: str, kind: type[R]) -> R:
        def decode(data: bytes) -> R:
            try:
                return msgspec.json.decode(data, type=kind)
            except msgspec.MsgspecError as error:
                msg = f"generation marker cannot be read; path={self.store.root_uri}/{path}"
                raise CorruptStateError(msg) from error

        try:
            return _read_decoded(self.store, path, decode)
        except ObjectMissingError as error:
            msg = f"generation marker is gone; path={self.store.root_uri}/{path}"
            raise CorruptStateError(msg) from error


def read_metadata(store: ObjectStore, path: str) -> CheckpointMetadata:
    """Read and decode a ``_metadata`` object.

    Raises:
        ObjectMissingError: there is none.
        CorruptStateError: it cannot be decoded, however often it is read.
    """
    uri = f"{store.root_uri}/{path}"
    return _read_decoded(store, path, lambda data: decode_metadata(data, path=uri))


def _read_decoded(store: ObjectStore, path: str, decode: Callable[[bytes], T]) -> T:
    """Read an object until it can be decoded; JSON objects never decode when they are cut off."""
    for _ in range(READ_ATTEMPTS - 1):
        with contextlib.suppress(CorruptStateError):
            return decode(store.get(path))
    return decode(store.get(path))


def complete_checkpoint(metadata: CheckpointMetadata) -> CompleteCheckpoint:
    """Return what clean-up needs to know of a checkpoint."""
    return CompleteCheckpoint(
        checkpoint_id=metadata.checkpoint_id,
        generation=metadata.generation,
        parent=metadata.parent,
        references=frozenset(file.path for file in references_of(metadata)),
    )


def check_files(store: ObjectStore, metadata: CheckpointMetadata, *, name: str = "") -> None:
    """Check that every file of a checkpoint is there with its recorded size (D22).

    The listing begins after the metadata was read, so it shows every file that was ever durable.

    Args:
        store: rooted where the paths of ``metadata`` begin.
        metadata: with relative paths.
        name: URI of the checkpoint for the message; by default that of the job's own.

    Raises:
        CorruptStateError: names what is missing or has another size.
    """
    files = references_of(metadata)
    name = name or f"{store.root_uri}/{paths.checkpoint_dir(metadata.checkpoint_id)}"
    sizes = _sizes(store, files)
    wrong = [file for file in files if sizes.get(file.path) != file.size_bytes]
    if wrong:
        named = ", ".join(
            f"{file.path} size={sizes.get(file.path, 'missing')} expected={file.size_bytes}"
            for file in wrong[:_NAMED_IN_MESSAGES]
        )
        msg = (
            "checkpoint has lost files, restore another one; "
            f"checkpoint={name} "
            f"wrong_files={len(wrong)} of={len(files)} first={named}"
        )
        raise CorruptStateError(msg)


def _sizes(store: ObjectStore, files: Iterable[FileHandle]) -> dict[str, int]:
    folders = sorted({file.path.rpartition("/")[0] for file in files})
    return {info.path: info.size_bytes for folder in folders for info in store.list(f"{folder}/")}
