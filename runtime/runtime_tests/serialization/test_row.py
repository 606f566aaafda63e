"""`Row` behaves as PyFlink's."""

import copy
import pickle

import pytest

from headrace.serialization.row import Row, RowKind


def test_fields_are_reached_by_position_name_and_attribute() -> None:
    row = Row(name="Alice", age=11)
    assert (row[0], row["age"], row.name) == ("Alice", 11, "Alice")
    assert list(row) == ["Alice", 11]
    assert row.as_dict() == {"name": "Alice", "age": 11}


def test_a_row_of_names_is_a_factory_of_rows() -> None:
    person = Row("name", "age")
    assert Row(name="Alice", age=11) == person("Alice", 11)
    with pytest.raises(TypeError, match="names=2 values=1"):
        person("Alice")


def test_rows_are_equal_when_kind_names_and_values_are() -> None:
    assert Row(1, 2) == Row(1, 2)
    assert Row(1, 2) != Row(a=1, b=2)
    deleted = Row(1, 2)
    deleted.set_row_kind(RowKind.DELETE)
    assert Row(1, 2) != deleted
    assert hash(Row(a=1)) == hash(Row(a=1))


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_clone_is_equal_and_separate(clone) -> None:
    row = Row(a=1, b=[1])
    row.set_row_kind(RowKind.UPDATE_AFTER)
    other = clone(row)
    assert row == other
    other["a"] = 2
    assert row["a"] == 1


def test_nested_rows_become_nested_dicts() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"x": Row(f=3)})
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"x": {"f": 3}}}


def test_missing_names_are_told_apart_from_attributes() -> None:
    with pytest.raises(AttributeError):
        _ = Row(a=1).b
    with pytest.raises(KeyError, match="fields=\\['a'\\]"):
        _ = Row(a=1)["b"]
    assert not hasattr(Row(1), "__array__")
