"""Function objects on keyed streams: map, flat_map and filter with access to keyed state.

As in PyFlink, such a function runs as a `KeyedProcessFunction`, so its ``open`` may obtain state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.datastream.functions import RuntimeContext

# ruff: noqa: ANN401, ARG002 - values are the user's; the context is part of the signature


class _Adapter(KeyedProcessFunction):
    """Opens and closes the wrapped function."""

    def __init__(self, function: Function) -> None:
        self._wrapped = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the wrapped function."""
        self._wrapped.open(runtime_context)

    def close(self) -> None:
        """Close the wrapped function."""
        self._wrapped.close()


class KeyedMap(_Adapter):
    """A `MapFunction` on a keyed stream."""

    def __init__(self, function: MapFunction) -> None:
        super().__init__(function)
        self._map = function.map

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Return the mapped value."""
        return (self._map(value),)


class KeyedFlatMap(_Adapter):
    """A `FlatMapFunction` on a keyed stream."""

    def __init__(self, function: FlatMapFunction) -> None:
        super().__init__(function)
        self._flat_map = function.flat_map

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return what the function returns."""
        return self._flat_map(value)


class KeyedFilter(_Adapter):
    """A `FilterFunction` on a keyed stream."""

    def __init__(self, function: FilterFunction) -> None:
        super().__init__(function)
        self._filter = function.filter

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Return the value if it stays."""
        return (value,) if self._filter(value) else ()
