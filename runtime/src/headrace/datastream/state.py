"""Keyed state as a function sees it, as ``pyflink.datastream.state`` (B7, B12).

The name of a descriptor is part of what checkpoints store: renaming it loses the state, loudly.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.serialization.serializer import TypeSerializer

T = TypeVar("T")


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

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def serializer(self) -> TypeSerializer[object]:
        """Return the serializer of what is stored."""
        return self.type_info.value_serializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)
