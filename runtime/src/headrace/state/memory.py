"""Managed memory of one slot, shared by the keyed operators in it (A5, J2).

Made once in a slot process and handed to every backend that it opens, also to those that are
prepared while their predecessors still run. What is shared is native memory: with one block cache
and one bound for all memtables, an operator that needs little leaves its part to the others, and
the sum stays within the budget whatever the number of operators and states. The caches of objects
are not shared; each operator has its part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class SlotMemory:
    """The budget of a slot, and what its backends have in common.

    Args:
        managed_bytes: managed memory of the whole slot.
    """

    def __init__(self, managed_bytes: int) -> None:
        self.managed_bytes = managed_bytes
        self._shared: dict[Hashable, object] = {}

    def shared(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what all backends of the slot share under ``name``, made by the first that asks.

        Args:
            name: backend and sizes; always with the same type of ``make``.
            make: builds it.
        """
        if name not in self._shared:
            self._shared[name] = make()
        return cast("T", self._shared[name])


class SlotMemories:
    """Hands out a slot's memory to its generations: the same as long as its size is the same."""

    def __init__(self) -> None:
        self._memory: SlotMemory | None = None

    def of_bytes(self, managed_bytes: int) -> SlotMemory:
        """Return the memory of a slot that has so much."""
        if self._memory is None or self._memory.managed_bytes != managed_bytes:
            self._memory = SlotMemory(managed_bytes)
        return self._memory
