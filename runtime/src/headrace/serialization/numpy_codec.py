"""Codec of `numpy.ndarray`: ``[<elements: bin, little-endian, C order>, <dimension's length>...]``.

Arrays come back writable and of native byte order. Their type says the element type, so that an
array costs its elements and a few bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from headrace.errors import InvalidProgramError
from headrace.serialization.codec import Codec

if TYPE_CHECKING:
    from headrace.serialization.class_types import NumpyType

AnyArray = npt.NDArray[np.generic]


def check_dtype(dtype: str) -> str:
    """Return NumPy's name of a storable element type.

    Raises:
        InvalidProgramError: neither boolean, integer nor float of 16 to 64 bits.
    """
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        msg = f"numpy knows no such element type; dtype={dtype!r}"
        raise InvalidProgramError(msg) from error
    if found.kind not in "biuf" or found.itemsize > 8:
        msg = (
            "elements of a stored array must be booleans, integers or floats of at most 64 bits, "
            f"view times as int64; dtype={found}"
        )
        raise InvalidProgramError(msg)
    return found.name


def numpy_codec(description: NumpyType) -> Codec:
    """Return the codec of arrays of one element type.

    Raises:
        InvalidProgramError: the element type cannot be stored.
    """
    dtype = np.dtype(check_dtype(description.dtype))
    ndim = description.ndim

    def coerce(value: object) -> AnyArray:
        if type(value) is not np.ndarray or ndim not in {None, value.ndim}:
            raise _not_of(description, value)
        if value.dtype == dtype:
            return value
        if not np.can_cast(value.dtype, dtype, "safe"):
            raise _not_of(description, value)
        return value.astype(dtype)

    def lower(value: object) -> list[object]:
        return array_to_wire(coerce(value), dtype)

    def lift(wire: object) -> AnyArray:
        return array_of_wire(cast("tuple[object, ...]", wire), dtype)

    return Codec(
        wire_type=list[bytes | int] if ndim is None else tuple[(bytes, *[int] * ndim)],  # type: ignore[misc]  # known at run time only
        coerce=coerce,
        lower=lower,
        lift=lift,
        immutable=False,
    )


def array_to_wire(array: AnyArray, dtype: np.dtype[np.generic]) -> list[object]:
    """Return the elements' bytes as ``dtype``, then the shape."""
    return [array.astype(dtype.newbyteorder("<"), copy=False).tobytes(), *array.shape]


def array_of_wire(wire: tuple[object, ...] | list[object], dtype: np.dtype[np.generic]) -> AnyArray:
    """Return the writable array of `array_to_wire`'s result.

    Raises:
        ValueError: there are not as many elements as the shape says.
    """
    data, *shape = wire
    if not isinstance(data, bytes) or not all(isinstance(n, int) and n >= 0 for n in shape):
        msg = f"not an array's elements and shape; shape={shape}"
        raise ValueError(msg)
    lengths = cast("list[int]", shape)
    if len(data) != dtype.itemsize * math.prod(lengths):
        msg = f"an array's elements do not fill its shape; shape={shape} bytes={len(data)}"
        raise ValueError(msg)
    array = np.empty(lengths, dtype)
    array.ravel()[:] = np.frombuffer(data, dtype.newbyteorder("<"))
    return array


def _not_of(description: NumpyType, value: object) -> TypeError:
    found = type(value).__qualname__
    if isinstance(value, np.ndarray):
        found = f"{found} of {value.dtype} with {value.ndim} dimensions"
    declared = f"numpy {description.dtype}, dimensions {description.ndim or 'any'}"
    return TypeError(f"a value is not of its declared type; declared={declared} type={found}")
