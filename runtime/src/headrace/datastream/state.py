"""Keyed state as a function sees it, as ``pyflink.datastream.state`` (B7-B12, B15).

What the kinds promise is said in `headrace.state.access`, whose objects a function gets. The name
of a descriptor is part of what checkpoints store: renaming it loses the state, loudly.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.common.typeinfo import Types
from headrace.datastream.callables import ReduceCallable
from headrace.datastream.functions import AggregateFunction, ReduceFunction
from headrace.datastream.state_ttl import StateTtlConfig
from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.common.typeinfo import TypeInformation

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(abc.ABC):
    """State of the current key."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Remove the current key's state."""


class ValueState(State, Generic[T]):
    """One value a key."""

    @abc.abstractmethod
    def value(self) -> T | None:
        """Return the current key's value, None when it is not set.

        A mutable value may be changed in place, but only `update` stores it.
        """

    @abc.abstractmethod
    def update(self, value: T) -> None:
        """Set the current key's value."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abc.abstractmethod
    def get(self) -> OUT | None:
        """Return what the values added up to, None (of a list: no elements) when there are none."""

    @abc.abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """State of which two can become one, as session windows do."""


class ReducingState(MergingState[T, T]):
    """One value a key, combined with every added value by a `ReduceFunction`."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator a key, into which an `AggregateFunction` adds values."""


class ListState(MergingState[T, "Iterable[T]"]):
    """Elements in the order in which they were added.

    Adding costs the same however long the list is; reading costs its length.
    """

    @abc.abstractmethod
    def get(self) -> list[T]:
        """Return a new list of all elements."""

    @abc.abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace all elements."""

    @abc.abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _Readable(State, Generic[K, V]):
    """Entries by key, as far as they are read."""

    @abc.abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None when there is no such entry."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether there is an entry of ``key``."""

    @abc.abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over keys and values."""

    @abc.abstractmethod
    def keys(self) -> Iterator[K]:
        """Iterate over the keys."""

    @abc.abstractmethod
    def values(self) -> Iterator[V]:
        """Iterate over the values."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """Return whether there are no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()


class _Writable(_Readable[K, V]):
    """Entries by key, read and written."""

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""

    @abc.abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set all entries of a dict."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Remove the entry of ``key`` if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_Writable[K, V]):
    """Entries by key, each read and written for itself; they iterate in the order of their keys."""


class ReadOnlyBroadcastState(_Readable[K, V]):
    """A map that is the same in every slot, as the side that may not change it sees it (B19).

    Entries iterate in the order in which they were first put.
    """


class BroadcastState(_Writable[K, V]):
    """The same map for the broadcast side."""


class StateDescriptor:
    """Name and type of a state.

    Names that begin with ``_`` belong to Headrace.
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not name or name.startswith("_"):
            msg = f"name of a state must not be empty or begin with an underscore; name={name!r}"
            raise InvalidProgramError(msg)
        self.name = name
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the entries of the state expire."""
        self.ttl_config = ttl_config

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState`."""

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        super().__init__(name, Types.LIST(elem_type_info))
        self.elem_type_info = elem_type_info


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState`.

    The type of its keys must be one that keys of a stream may have; entries iterate in the order of
    their keys' bytes, which for strings and numbers is that of the keys.
    """

    def __init__(
        self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation
    ) -> None:
        super().__init__(name, Types.MAP(key_type_info, value_type_info))
        self.key_type_info = key_type_info
        self.value_type_info = value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """Describes a `ReducingState`."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation,
    ) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction):
            if not callable(reduce_function):
                msg = f"reducing state needs a function or a ReduceFunction; state={name!r}"
                raise InvalidProgramError(msg)
            reduce_function = ReduceCallable(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction:
        """Return the function that combines what is stored with a new value."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an `AggregatingState`; ``state_type_info`` is the accumulator's type."""

    def __init__(
        self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            msg = f"aggregating state needs an AggregateFunction; state={name!r}"
            raise InvalidProgramError(msg)
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Return the function that makes, changes and reads accumulators."""
        return self._agg_function
