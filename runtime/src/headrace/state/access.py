"""What the kinds of keyed state can do (B7-B11): the contract between backends and the slot.

Every object is bound to one state of one operator and acts on whatever key, and namespace, its
`KeyContext` names. Methods have PyFlink's names, so that the slot hands the objects to user code as
they are (`headrace.datastream.state` declares the same methods for the user).

Common to all kinds, on every backend:

- State changes by calls only. Changing an object in place that went in or came out changes nothing
  until it is handed in again (T27). Accumulators are the one exception, see `AggregatingAccess`.
- Every call may raise `InternalError` when the current key belongs to another slot, and
  `CorruptStateError` or `LocalStorageError` when rows cannot be read.
- A value that is not of its declared type raises TypeError from the call that brings it, or, when
  its fault shows only in its bytes, UserCodeError from the next flush.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
Acc = TypeVar("Acc")

Reduce = Callable[[T, T], T]
"""Combines what is stored with a new value."""


class ValueStateAccess(Protocol[T]):
    """A single value. Unset reads as None."""

    def value(self) -> T | None:
        """Return the value or None."""
        ...

    def update(self, value: T) -> None:
        """Set the value.

        Raises:
            TypeError: None (use `clear`), or a value that is not of the state's type.
        """
        ...

    def clear(self) -> None:
        """Remove the value."""
        ...


class ListStateAccess(Protocol[T]):
    """Elements in the order in which they were added."""

    def get(self) -> list[T]:
        """Return a new list of all elements, empty when there are none."""
        ...

    def add(self, value: T) -> None:
        """Append an element; costs the same whatever the list's length.

        Raises:
            TypeError: None, or an element that is not of the state's type.
        """
        ...

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all or, when one is refused, none."""
        ...

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; no elements is `clear`."""
        ...

    def clear(self) -> None:
        """Remove all elements."""
        ...


class MapStateAccess(Protocol[K, V]):
    """Entries by key. They iterate in the order of their keys' bytes (docs/state-format.md).

    Iterators may be left at any time, and the state may change while one is open: it yields every
    entry that was there all the time exactly once, and changed ones before or after their change.
    """

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None when there is no such entry."""
        ...

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``; None is a value.

        Raises:
            TypeError: key or value is not of its declared type.
        """
        ...

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set all entries of a mapping."""
        ...

    def remove(self, key: K) -> None:
        """Remove the entry of ``key`` if there is one."""
        ...

    def contains(self, key: K) -> bool:
        """Return whether there is an entry of ``key``."""
        ...

    def keys(self) -> Iterator[K]:
        """Iterate over the keys."""
        ...

    def values(self) -> Iterator[V]:
        """Iterate over the values."""
        ...

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over keys and values."""
        ...

    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        ...

    def clear(self) -> None:
        """Remove all entries."""
        ...


class FoldingAccess(Protocol[In_contra, Out_co]):
    """One value into which others are folded: reducing and aggregating state."""

    def get(self) -> Out_co | None:
        """Return the result, None when nothing was added."""
        ...

    def add(self, value: In_contra) -> None:
        """Fold a value in; None is `clear`, as in Flink."""
        ...

    def clear(self) -> None:
        """Remove what was folded."""
        ...


class MergingAccess(Protocol):
    """What list, reducing and aggregating state offer to merging windows beside their own calls."""

    def merge_namespaces(self, target: bytes, sources: Iterable[bytes]) -> None:
        """Move what the current key has in ``sources`` into ``target``, in this order.

        The context's namespace is ``target`` afterwards.
        """
        ...


class Aggregate(Protocol[In_contra, Acc, Out_co]):
    """What aggregating state needs of PyFlink's ``AggregateFunction``.

    The accumulator belongs to the state once it is returned: `add` and `merge` may change it in
    place and return it, and nobody else may.
    """

    def create_accumulator(self) -> Acc:
        """Return a new accumulator, shared with nobody."""
        ...

    def add(self, value: In_contra, accumulator: Acc) -> Acc:
        """Return the accumulator with ``value`` folded in."""
        ...

    def get_result(self, accumulator: Acc) -> Out_co:
        """Return the result."""
        ...

    def merge(self, acc_a: Acc, acc_b: Acc) -> Acc:
        """Return both accumulators in one."""
        ...


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """Expiry of the entries of a state (B15); of a list each element, of a map each entry.

    An entry has expired at ``last access + ttl_ms``, by the backend's clock. Expired entries are
    removed when they are met; which others are removed, and when, is up to the rest.

    Attributes:
        ttl_ms: at least 1.
        on_read: whether reading counts as access, not only creating and writing.
        return_expired: whether an expired entry that was not removed yet is returned, once.
        purge_in_background: between epochs, look at stored entries at a small steady rate.
        purge_per_access: between epochs, look at so many stored entries for each access.
        purge_at_snapshot: leave expired entries out of full snapshots.
    """

    ttl_ms: int
    on_read: bool = False
    return_expired: bool = False
    purge_in_background: bool = True
    purge_per_access: int = 0
    purge_at_snapshot: bool = False

    @property
    def purges(self) -> bool:
        """Whether there is anything to do between epochs."""
        return self.purge_in_background or self.purge_per_access > 0


@dataclass(frozen=True, slots=True)
class StateTraits:
    """What any kind of state may have on top of its name and types.

    Attributes:
        ttl: expiry, None for none.
        namespaced: whether the state has one entry for each (key, namespace) and follows the
            backend's `namespace_context`; else it follows `context`.
    """

    ttl: TimeToLive | None = None
    namespaced: bool = False


PLAIN = StateTraits()
"""Neither expiry nor namespaces."""
