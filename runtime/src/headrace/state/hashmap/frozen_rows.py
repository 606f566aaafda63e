"""Reading the files that the in-memory backend froze, one state at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import CorruptStateError
from headrace.state.hashmap.row_file import SUFFIX, read_row_file, read_state_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.state.contract import RestoreSource


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of one state in a file."""

    path: Path

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order; the file is in memory meanwhile.

        Raises:
            CorruptStateError: the file is cut or of another format.
        """
        _, rows = read_row_file(self.path)
        return (item for item in rows if start <= item[0] < end)


class FrozenRows:
    """All files of one source; `headrace.state.stored.StoredRows`.

    Raises:
        CorruptStateError: a state's file is missing, or a file cannot be read.
    """

    def __init__(self, source: RestoreSource) -> None:
        paths = sorted(source.directory.glob(f"*{SUFFIX}"))
        self._files = {read_state_name(path): RowFile(path) for path in paths}
        missing = {schema.name for schema in source.schemas} - set(self._files)
        if missing:
            msg = (
                "stored state lacks files, restore another checkpoint; "
                f"states={sorted(missing)} directory={source.directory}"
            )
            raise CorruptStateError(msg)

    @property
    def names(self) -> list[str]:
        """Names of the states that have a file, in the order of the files."""
        return list(self._files)

    def rows(self, name: str) -> RowFile:
        """Return the rows of one of the source's states."""
        return self._files[name]

    def close(self) -> None:
        """Nothing is held open between scans."""
