"""Where bounded sources end, and whether they are there (A17, T33).

Spark writes an epoch's offsets, and the files that it takes, before it runs the epoch. So what a
source has read after an epoch is known from Spark's log alone, on the driver: tasks report no ends,
empty partitions and transaction markers need no rows to be seen, and a restart that goes on from
the same log comes to the same answer.

An end that depends on when the job was first started (the newest offsets, the files of a
directory) is found once, then kept in every checkpoint (`SourcePosition.ends`), so that it does not
move with restarts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from headrace.connectors.kafka.starting_offsets import decode_offsets
from headrace.engine.spark_log import offsets_of_epoch, source_log
from headrace.errors import CorruptStateError, SourceUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.ids import Epoch, OperatorUid

_FILES_NAMED_MAX: Final = 5
T = TypeVar("T")
_NO_AUTHORITY: Final = re.compile(r"^([A-Za-z][\w+.-]*):///")


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """What Spark has read of one source when an epoch has ended.

    Attributes:
        offset: the source's line in the offset log, None before its first one.
        log: the source's own directory in Spark's checkpoint location; need not exist.
        advanced: whether the epoch took anything from the source.
    """

    offset: str | None
    log: Path
    advanced: bool


class SourceEnd(Protocol):
    """The end of one bounded source."""

    def reached(self, read: ReadSoFar) -> bool:
        """Return whether everything before the end has been read.

        Raises:
            SourceUnavailableError: something before the end is gone.
            CorruptStateError: Spark's log cannot be read.
        """
        ...


class _CountOffset(msgspec.Struct):
    offset: int


@dataclass(frozen=True, slots=True)
class CountEnd:
    """The end of a sequence: so many numbers of Spark's ``rate-micro-batch`` source."""

    count: int

    def reached(self, read: ReadSoFar) -> bool:
        """See `SourceEnd.reached`."""
        return read.offset is not None and _decoded(read.offset, _CountOffset).offset >= self.count


@dataclass(frozen=True, slots=True)
class KafkaEnd:
    """The end of topics: for each (topic, partition) the first offset that is not read."""

    offsets: Mapping[tuple[str, int], int]

    def reached(self, read: ReadSoFar) -> bool:
        """See `SourceEnd.reached`."""
        if read.offset is None:
            return not self.offsets
        now = decode_offsets(read.offset)
        return all(now.get(place, -1) >= end for place, end in self.offsets.items())


class _FileOffset(msgspec.Struct):
    logOffset: int  # noqa: N815 - Spark's name


class _FileEntry(msgspec.Struct):
    path: str
    batchId: int  # noqa: N815 - Spark's name


@dataclass(frozen=True, slots=True)
class FilesEnd:
    """The end of a fixed set of files.

    Attributes:
        uris: the files, as ``DataFrame.inputFiles`` names them.
    """

    uris: frozenset[str]

    def reached(self, read: ReadSoFar) -> bool:
        """See `SourceEnd.reached`."""
        missing = self.uris - self._taken(read)
        if missing and not read.advanced:
            # Spark takes in every epoch what it finds: what it did not take is not there.
            named = sorted(missing)[:_FILES_NAMED_MAX]
            msg = (
                "files of a bounded source are gone, put them back; "
                f"missing={len(missing)} of={len(self.uris)} files={named}"
            )
            raise SourceUnavailableError(msg)
        return not missing

    def _taken(self, read: ReadSoFar) -> set[str]:
        if read.offset is None:
            return set()
        last = _decoded(read.offset, _FileOffset).logOffset
        entries = (_decoded(line, _FileEntry) for line in source_log(read.log))
        return {entry.path for entry in entries if entry.batchId <= last}

    def spellings(self) -> list[str]:
        """Return every file as Spark may spell it: with and without an empty authority."""
        return sorted(self.uris | {_NO_AUTHORITY.sub(r"\1:/", uri) for uri in self.uris})


@dataclass(slots=True)
class SourceEnds:
    """The ends of all sources of one generation.

    Attributes:
        ends: for each source of the job, in its order; None for one without an end.
        stored: by source uid, what checkpoints keep of them.
    """

    ends: tuple[SourceEnd | None, ...]
    stored: Mapping[OperatorUid, str]
    _reached: set[int] = field(default_factory=set)
    _offsets: dict[int, str | None] = field(default_factory=dict)

    def reached_by(self, scratch: Path, epoch: Epoch) -> frozenset[int]:
        """Return the sources that are at their ends when ``epoch`` has ended.

        Args:
            scratch: Spark's checkpoint location; it holds the epoch's offsets already.
            epoch: epochs are asked about in order.

        Raises:
            SourceUnavailableError, CorruptStateError: see `SourceEnd.reached`.
        """
        waited_for = [
            (index, end)
            for index, end in enumerate(self.ends)
            if end is not None and index not in self._reached
        ]
        if waited_for:
            offsets = offsets_of_epoch(scratch, epoch)
            for index, end in waited_for:
                offset = offsets[index]
                advanced = offset != self._offsets.get(index, "")
                self._offsets[index] = offset
                log = scratch / "sources" / str(index)
                if end.reached(ReadSoFar(offset, log, advanced)):
                    self._reached.add(index)
        return frozenset(self._reached)

    def all_reached(self, reached: frozenset[int]) -> bool:
        """Return whether no source has anything more to say."""
        return len(reached) == len(self.ends)


def decode_file_set(stored: str) -> frozenset[str]:
    """Return the files of a stored end."""
    return frozenset(_decoded(stored, list[str]))


def encode_file_set(uris: frozenset[str]) -> str:
    """Return a file set as it is stored."""
    return msgspec.json.encode(sorted(uris)).decode()


def _decoded(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        msg = f"an entry of Spark's log cannot be read; entry={text[:200]!r} cause={error}"
        raise CorruptStateError(msg) from error
