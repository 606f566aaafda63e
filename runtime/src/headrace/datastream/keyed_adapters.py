"""Function objects that run as another kind of function.

On keyed streams, map, flat_map and filter: as in PyFlink they run as a `KeyedProcessFunction`, so
their ``open`` may obtain state. On connected streams, co-map and co-flat-map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.datastream.functions import RuntimeContext

# ruff: noqa: ANN401, ARG002 - values are the user's; the context is part of the signature


class Adapter(Function):
    """Opens and closes the wrapped function."""

    def __init__(self, function: Function) -> None:
        self.wrapped = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the wrapped function."""
        self.wrapped.open(runtime_context)

    def close(self) -> None:
        """Close the wrapped function."""
        self.wrapped.close()


class KeyedMap(Adapter, KeyedProcessFunction):
    """A `MapFunction` on a keyed stream."""

    def __init__(self, function: MapFunction) -> None:
        super().__init__(function)
        self._map = function.map

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Return the mapped value."""
        return (self._map(value),)


class KeyedFlatMap(Adapter, KeyedProcessFunction):
    """A `FlatMapFunction` on a keyed stream."""

    def __init__(self, function: FlatMapFunction) -> None:
        super().__init__(function)
        self._flat_map = function.flat_map

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return what the function returns."""
        return self._flat_map(value)


class KeyedFilter(Adapter, KeyedProcessFunction):
    """A `FilterFunction` on a keyed stream."""

    def __init__(self, function: FilterFunction) -> None:
        super().__init__(function)
        self._filter = function.filter

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Return the value if it stays."""
        return (value,) if self._filter(value) else ()


class _CoMap(Adapter):
    """A `CoMapFunction` on connected streams."""

    def __init__(self, function: CoMapFunction) -> None:
        super().__init__(function)
        self._map1, self._map2 = function.map1, function.map2

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        """Return the mapped value."""
        return (self._map1(value),)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        """Return the mapped value."""
        return (self._map2(value),)


class _CoFlatMap(Adapter):
    """A `CoFlatMapFunction` on connected streams."""

    def __init__(self, function: CoFlatMapFunction) -> None:
        super().__init__(function)
        self._flat_map1, self._flat_map2 = function.flat_map1, function.flat_map2

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return what the function returns."""
        return self._flat_map1(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return what the function returns."""
        return self._flat_map2(value)


class CoMap(_CoMap, CoProcessFunction):
    """A `CoMapFunction` without keys."""


class KeyedCoMap(_CoMap, KeyedCoProcessFunction):
    """A `CoMapFunction` with keys."""


class CoFlatMap(_CoFlatMap, CoProcessFunction):
    """A `CoFlatMapFunction` without keys."""


class KeyedCoFlatMap(_CoFlatMap, KeyedCoProcessFunction):
    """A `CoFlatMapFunction` with keys."""
