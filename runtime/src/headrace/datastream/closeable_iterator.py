"""Iterator over collected records, as ``pyflink.datastream.data_stream.CloseableIterator``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


class CloseableIterator:
    """Iterates once over the records of a job; usable in a ``with`` block."""

    def __init__(self, records: Iterable[object]) -> None:
        self._records = iter(records)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - the user's records
        return next(self._records)

    def next(self) -> Any:  # noqa: ANN401 - the user's records
        """Return the next record.

        Raises:
            StopIteration: there is none.
        """
        return next(self._records)

    def close(self) -> None:
        """Forget the records that were not read."""
        self._records = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()
