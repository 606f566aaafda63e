"""Plain functions and lambdas as function objects, so that every operator holds a `Function`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ReduceFunction,
)
from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Values are the user's own, of any type.
# ruff: noqa: ANN401


class MapCallable(MapFunction):
    """A plain function as a `MapFunction`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        # The instance attribute shadows the method: no second call for each record.
        vars(self)["map"] = function

    def map(self, value: Any) -> Any:
        """Call the function."""
        return self._function(value)


class FlatMapCallable(FlatMapFunction):
    """A plain function as a `FlatMapFunction`."""

    def __init__(self, function: Callable[[Any], Iterable[Any] | None]) -> None:
        self._function = function
        vars(self)["flat_map"] = function

    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Call the function."""
        return self._function(value)


class FilterCallable(FilterFunction):
    """A plain function as a `FilterFunction`."""

    def __init__(self, function: Callable[[Any], bool]) -> None:
        self._function = function
        vars(self)["filter"] = function

    def filter(self, value: Any) -> bool:
        """Call the function."""
        return self._function(value)


class ReduceCallable(ReduceFunction):
    """A plain function as a `ReduceFunction`."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function
        vars(self)["reduce"] = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Call the function."""
        return self._function(value1, value2)


def plain_callable(func: object, method: str) -> Callable[..., Any]:
    """Return ``func`` if it may be called as it is.

    Raises:
        InvalidProgramError: it is a function object for something else, or cannot be called.
    """
    if not callable(func) or isinstance(func, Function):
        msg = (
            "not a function or an object of the right class; "
            f"method={method} type={type(func).__name__}"
        )
        raise InvalidProgramError(msg)
    return func


def expect_function(func: object, kind: type[Function], method: str) -> None:
    """Check that ``func`` is a function object of the right kind.

    Raises:
        InvalidProgramError: it is not.
    """
    if not isinstance(func, kind):
        msg = f"expected a {kind.__name__}; method={method} type={type(func).__name__}"
        raise InvalidProgramError(msg)
