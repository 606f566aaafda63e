"""Reducing and aggregating state: one value a key into which others are folded (B10, B11).

Both stand on a value state, so caching, expiry, copying and rows are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.state.access import Aggregate, Reduce, ValueStateAccess
    from headrace.state.contract import KeyContext

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")
Acc = TypeVar("Acc")


class ReducingState(Generic[T]):
    """`FoldingAccess` by a reduce function.

    Args:
        value: what is stored.
        context: the current key and namespace of ``value``.
        reduce: combines stored and new value.
    """

    def __init__(self, value: ValueStateAccess[T], context: KeyContext, reduce: Reduce[T]) -> None:
        self._value = value
        self._context = context
        self._reduce = reduce
        self.get = value.value
        self.clear = value.clear

    def add(self, value: T) -> None:
        """Fold a value in; None is `clear`.

        Raises:
            TypeError: the value, or what it was reduced to, is not of the state's type.
        """
        if value is None:
            self.clear()
            return
        current = self.get()
        self._value.update(value if current is None else self._reduce(current, value))

    def merge_namespaces(self, target: bytes, sources: Iterable[bytes]) -> None:
        """Reduce the values of ``sources`` into that of ``target``, in this order."""
        context = self._context
        for source in sources:
            context.enter(context, source)
            value = self.get()
            self.clear()
            context.enter(context, target)
            if value is not None:
                self.add(value)


class AggregatingState(Generic[In, Acc, Out]):
    """`FoldingAccess` by an aggregate function.

    Args:
        value: the stored accumulator.
        context: the current key and namespace of ``value``.
        function: makes, changes and reads accumulators.
    """

    def __init__(
        self,
        value: ValueStateAccess[Acc],
        context: KeyContext,
        function: Aggregate[In, Acc, Out],
    ) -> None:
        self._value = value
        self._context = context
        self._function = function
        self._add = function.add
        self.clear = value.clear

    def get(self) -> Out | None:
        """Return the result, None when nothing was added."""
        accumulator = self._value.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: In) -> None:
        """Fold a value in; None is `clear`.

        Raises:
            TypeError: the accumulator is not of the state's type.
        """
        if value is None:
            self.clear()
            return
        accumulator = self._value.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._value.update(self._add(value, accumulator))

    def merge_namespaces(self, target: bytes, sources: Iterable[bytes]) -> None:
        """Merge the accumulators of ``sources`` into that of ``target``, in this order."""
        context = self._context
        for source in sources:
            context.enter(context, source)
            accumulator = self._value.value()
            self.clear()
            context.enter(context, target)
            if accumulator is not None:
                own = self._value.value()
                merged = accumulator if own is None else self._function.merge(own, accumulator)
                self._value.update(merged)
