"""Rows of one key group in memory: a dictionary, and an order for those who scan parts of it.

Value state never scans, so it pays for no order. The first scan builds one, and from then on it is
kept: sorted blocks of bounded length, so that a row is entered or removed by two binary searches
and the move of one block.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_MAX: Final = 512
"""Rows of a block; a longer one is split in two."""


class SortableRows:
    """Rows with their values; ``values`` may be read by anyone."""

    __slots__ = ("_blocks", "_lasts", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._blocks: list[list[bytes]] | None = None
        # Of each block; not before its last row, and before the first row of the next block.
        self._lasts: list[bytes] = []

    def put(self, row: bytes, value: bytes) -> bytes | None:
        """Set a row's value and return the old one."""
        old = self.values.get(row)
        self.values[row] = value
        if old is None and self._blocks is not None:
            self._enter(row, self._blocks)
        return old

    def remove(self, row: bytes) -> bytes | None:
        """Remove a row and return its value, None when it is not there."""
        old = self.values.pop(row, None)
        if old is not None and self._blocks is not None:
            self._leave(row, self._blocks)
        return old

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order; nothing may be written meanwhile."""
        if self._blocks is None:
            self._sort()
        blocks = self._blocks or []
        at = bisect.bisect_left(self._lasts, start)
        for block in blocks[at:]:
            for row in block[bisect.bisect_left(block, start) :]:
                if row >= end:
                    return
                yield row, self.values[row]

    def _sort(self) -> None:
        rows = sorted(self.values)
        half = BLOCK_MAX // 2
        self._blocks = [rows[i : i + half] for i in range(0, len(rows), half)]
        self._lasts = [block[-1] for block in self._blocks]

    def _enter(self, row: bytes, blocks: list[list[bytes]]) -> None:
        if not blocks:
            blocks.append([row])
            self._lasts.append(row)
            return
        at = min(bisect.bisect_left(self._lasts, row), len(blocks) - 1)
        block = blocks[at]
        bisect.insort(block, row)
        self._lasts[at] = block[-1]
        if len(block) > BLOCK_MAX:
            half = len(block) // 2
            blocks[at : at + 1] = [block[:half], block[half:]]
            self._lasts[at : at + 1] = [block[half - 1], block[-1]]

    def _leave(self, row: bytes, blocks: list[list[bytes]]) -> None:
        at = bisect.bisect_left(self._lasts, row)
        block = blocks[at]
        del block[bisect.bisect_left(block, row)]
        if not block:
            del blocks[at]
            del self._lasts[at]
