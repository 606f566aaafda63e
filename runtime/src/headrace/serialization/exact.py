"""Whether values may be encoded as they are: checks that run in C instead of a call a part.

Most values of a declared type are of exactly the type that msgspec writes for it (a ``float`` of a
DOUBLE), and need no conversion. Whether that holds for all parts of a container is asked here; the
answer may be a wrong "no", which costs time only: the parts are then looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


@dataclass(frozen=True, slots=True)
class Exact:
    """Values of exactly ``python_type``, of an integer within ``bounds`` (inclusive)."""

    python_type: type
    bounds: tuple[int, int] | None = None


_NONE: Final = type(None)


def all_exact(exact: Exact | None) -> Callable[[Collection[object]], bool]:
    """Return the check of a list's elements; they may be None."""
    if exact is None:
        return _never
    allowed = {exact.python_type, _NONE}
    if exact.bounds is None:
        return lambda items: allowed.issuperset(map(type, items))
    low, high = exact.bounds

    def fit(items: Collection[object]) -> bool:
        types = set(map(type, items))
        if types == {int}:
            return low <= min(items) and max(items) <= high  # type: ignore[type-var,operator]  # ints
        return not types or types == {_NONE}

    return fit


def each_exact(exacts: Sequence[Exact | None]) -> Callable[[Sequence[object]], bool]:
    """Return the check of the elements of tuples and rows, one by one, of the right length."""
    if None in exacts:
        return _never
    known = [exact for exact in exacts if exact is not None]
    types = tuple(exact.python_type for exact in known)
    bounded = [(at, *exact.bounds) for at, exact in enumerate(known) if exact.bounds is not None]

    def fit(items: Sequence[object]) -> bool:
        if tuple(map(type, items)) != types:
            return False
        for at, low, high in bounded:  # noqa: SIM110  a generator takes longer than the rest
            if not low <= items[at] <= high:  # type: ignore[operator]  # an int
                return False
        return True

    return fit


def _never(_items: object) -> bool:
    return False
