"""First phase of the file sink: rows go to local files that are published as they are."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final, Protocol

import xxhash

from headrace.connectors.files.target import TARGET_SUFFIX, PartNaming, encode_target
from headrace.connectors.sink import PendingSpool, SpoolFile
from headrace.errors import HeadraceError, StorageUnavailableError, UserCodeError
from headrace.ids import CheckpointId

PART_BYTES_MAX: Final = 256 << 20
"""A longer part goes on in a new file; readers split work by files."""

_TRACEBACK_CHARS_MAX: Final = 4000


class FilePart(Protocol):
    """One local file under construction; its methods raise OSError when the disk refuses."""

    @property
    def size_bytes(self) -> int:
        """How long it is by now, roughly."""
        ...

    def append(self, value: object) -> None:
        """Add a value; what it raises but OSError is the program's error."""
        ...

    def seal(self) -> SpoolFile:
        """Finish the file; it never changes again."""
        ...

    def discard(self) -> None:
        """Delete the file."""
        ...


class FileFormat(Protocol):
    """What the files hold; picklable."""

    def create_part(self, path: Path) -> FilePart:
        """Create a file."""
        ...


class FileWriter:
    """`headrace.connectors.sink.SinkWriter` of the file sink in one slot."""

    def __init__(self, naming: PartNaming, file_format: FileFormat, directory: Path) -> None:
        self._naming = naming
        self._format = file_format
        self._directory = directory
        self._number = 0
        self._part: FilePart | None = None
        self._sealed: list[SpoolFile] = []
        self._records = 0

    def write(self, value: object, timestamp_ms: int | None) -> None:  # noqa: ARG002 - the contract
        """See `SinkWriter.write`."""
        try:
            self._current().append(value)
        except OSError as error:
            raise self._disk_error(error) from error
        except HeadraceError:
            raise
        except Exception as error:
            msg = f"the encoder of a file sink failed; error={type(error).__name__}: {error}"
            text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
            raise UserCodeError(msg, traceback_text=text) from error
        self._records += 1

    def flush_epoch(self) -> None:
        """Nothing to do: rows are written by size."""

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`; the first file says where the others go."""
        try:
            self._seal_part()
            files = self._sealed
            if files:
                target = self._naming.target(checkpoint_id, len(files), self._records)
                path = self._directory / f"{self._number:08d}{TARGET_SUFFIX}"
                self._number += 1
                data = encode_target(target)
                path.write_bytes(data)
                digest = xxhash.xxh3_128_hexdigest(data)
                files = [SpoolFile(path, len(data), digest), *files]
        except OSError as error:
            raise self._disk_error(error) from error
        naming = self._naming
        pending = PendingSpool(
            naming.operator_uid, naming.spool_id, checkpoint_id, tuple(files), self._records
        )
        self._sealed = []
        self._records = 0
        return pending

    def close(self) -> None:
        """Delete what is not sealed under a checkpoint."""
        if self._part is not None:
            self._part.discard()
            self._part = None
        for file in self._sealed:
            file.path.unlink(missing_ok=True)
        self._sealed = []

    def _current(self) -> FilePart:
        if self._part is not None and self._part.size_bytes >= PART_BYTES_MAX:
            self._seal_part()
        if self._part is None:
            self._part = self._format.create_part(self._directory / f"{self._number:08d}.part")
            self._number += 1
        return self._part

    def _seal_part(self) -> None:
        if self._part is not None:
            self._sealed.append(self._part.seal())
            self._part = None

    def _disk_error(self, error: OSError) -> StorageUnavailableError:
        msg = (
            "the local disk refused a spool file, look at its free space; "
            f"directory={self._directory} cause={error}"
        )
        return StorageUnavailableError(msg)
