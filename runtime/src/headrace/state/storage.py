"""What a state backend needs of the place where rows are kept.

State objects and timers are the same for every backend and speak to a
`RowStore`; a backend brings a `StateStorage`. Used by the slot's main thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from headrace.state.contract import SnapshotFile


class RowStore(Protocol):
    """The sorted rows of one state."""

    def get(self, row: bytes) -> bytes | None:
        """Return the value of ``row``, None when it is not there."""
        ...

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes. Of two changes of one row the later one counts."""
        ...

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete all rows with ``start <= row < end``."""
        ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order. Nothing may be written meanwhile.

        Raises:
            CorruptStateError: the rows cannot be read to the end.
        """
        ...


class StateStorage(Protocol):
    """All rows of one operator in one slot, by state name."""

    @property
    def full_snapshots(self) -> bool:
        """Whether `freeze` writes all rows every time."""
        ...

    def rows(self, name: str) -> RowStore:
        """Return the rows of a state, made on first use."""
        ...

    def drop(self, name: str) -> None:
        """Remove a state with all its rows."""
        ...

    def freeze(self, directory: Path) -> tuple[SnapshotFile, ...]:
        """Make ``directory``, which must not exist, and put a frozen copy of all rows there."""
        ...

    def metrics(self) -> dict[str, float]:
        """Return gauges by Flink's names."""
        ...

    def close(self) -> None:
        """Release native resources. Idempotent."""
        ...
