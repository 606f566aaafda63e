"""Values as pickles: the fallback for what no type was declared for (B34).

Objects of classes that exist only in the submitted program travel by value (cloudpickle).
"""

from __future__ import annotations

import pickle
from typing import Final

import cloudpickle

from headrace.errors import CorruptStateError

PROTOCOL: Final = 5


def pickled(value: object) -> bytes:
    """Return a pickle.

    Raises:
        TypeError: the object cannot be pickled.
    """
    try:
        return pickle.dumps(value, protocol=PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _by_value(value)


def _by_value(value: object) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value, protocol=PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        msg = f"a value cannot be pickled: {error}; type={type(value).__qualname__}"
        raise TypeError(msg) from error
    return data


def unpickled(data: bytes) -> object:
    """Return the object of a pickle. Runs what the pickle says.

    Raises:
        CorruptStateError: not a pickle, or one of a class that is no longer there.
    """
    try:
        return pickle.loads(data)  # noqa: S301  the job's own state, behind its checksums
    except _UNPICKLING as error:
        msg = (
            f"pickled state cannot be read, did a class move? {error}; "
            f"error={type(error).__name__} length={len(data)}"
        )
        raise CorruptStateError(msg) from error


_UNPICKLING: Final[tuple[type[Exception], ...]] = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)
