"""Rows in batches of bounded size, for whoever moves whole states: memory is bounded by a batch.

A backend also looks at its limits after each write, so a state that does not fit is refused on the
way and not when all of it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BATCH_BYTES: Final = 4 << 20
"""Keys and values of a batch."""

BATCH_ROWS: Final = 20_000
"""The same for rows without much in them: a Python object each takes more than its bytes."""


def row_batches(
    rows: Iterable[tuple[bytes, bytes]],
    size_bytes_max: int = BATCH_BYTES,
    rows_max: int = BATCH_ROWS,
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield ``rows`` in batches that are not empty and end when either bound is reached."""
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row[0]) + len(row[1])
        if size >= size_bytes_max or len(batch) >= rows_max:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
