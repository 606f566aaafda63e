"""NumPy arrays as values: shape, element type, order; what is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from headrace.errors import CorruptStateError, InvalidProgramError
from headrace.serialization.registry import value_serializer
from headrace.serialization.types import STRING, ListType, MapType, NumpyType

DTYPES = ["bool", "int8", "int64", "uint16", "uint64", "float16", "float32", "float64"]


@pytest.mark.property
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_arrays_of_any_shape_come_back(dtype: str, data: st.DataObject) -> None:
    array = data.draw(npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0, max_side=4)))
    for ndim in (None, array.ndim):
        serializer = value_serializer(NumpyType(dtype, ndim))
        found = serializer.deserialize(serializer.serialize(array))
        assert (array.dtype, array.shape, array.tobytes()) == (
            found.dtype,
            found.shape,
            found.tobytes(),
        )
        assert found.flags.writeable


def test_order_and_byte_order_are_not_part_of_a_value() -> None:
    serializer = value_serializer(NumpyType("int32", 2))
    array = np.arange(6, dtype="int32").reshape(2, 3)
    data = serializer.serialize(array)
    assert data == serializer.serialize(np.asfortranarray(array))
    assert data == serializer.serialize(array.astype(">i4"))
    assert data == serializer.serialize(np.repeat(array, 2, axis=0)[::2])


def test_narrower_elements_are_taken() -> None:
    serializer = value_serializer(NumpyType("float64"))
    found = serializer.deserialize(serializer.serialize(np.array([1, 2], "int16")))
    assert (np.dtype("float64"), [1.0, 2.0]) == (found.dtype, found.tolist())


@pytest.mark.parametrize(
    "value",
    [
        [1.0],
        np.float64(1),
        np.zeros((1, 1)),
        np.zeros(1, "complex64"),
        np.array(["x"]),
        np.ma.masked_array([1.0]),
        None,
    ],
    ids=repr,
)
def test_other_values_are_refused_with_their_type(value: object) -> None:
    with pytest.raises(TypeError, match="declared=numpy float64, dimensions 1 type="):
        value_serializer(NumpyType("float64", 1)).serialize(value)


@pytest.mark.parametrize(
    "wire", [[b"\x00", 2], [b"\x00\x00", 1, 2], [b"", -1], [1, 1], [b"\x00"], []], ids=repr
)
def test_bytes_of_no_array_are_corrupt(wire: object) -> None:
    with pytest.raises(CorruptStateError):
        value_serializer(NumpyType("int16")).deserialize(msgspec.msgpack.encode(wire))
    with pytest.raises(CorruptStateError):
        value_serializer(NumpyType("int16", None)).deserialize(msgspec.msgpack.encode(wire))


@pytest.mark.parametrize(
    "dtype", ["object", "datetime64[us]", "U4", "complex128", "longdouble", "no"]
)
def test_elements_that_cannot_be_stored_are_refused(dtype: str) -> None:
    with pytest.raises(InvalidProgramError, match="dtype="):
        value_serializer(NumpyType(dtype))


def test_arrays_nest() -> None:
    serializer = value_serializer(MapType(STRING, ListType(NumpyType("int8"))))
    found = serializer.deserialize(serializer.serialize({"a": [np.array([1], "int8"), None]}))
    assert [1] == found["a"][0].tolist()
    assert found["a"][1] is None
