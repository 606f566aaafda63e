"""Properties over random nested types: round trips, reading without classes, evolution."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import IncompatibleStateError
from headrace.serialization.arrow_types import ArrowOptions, arrow_array, arrow_type
from headrace.serialization.compatibility import Verdict
from headrace.serialization.registry import (
    described_type,
    serializer_from_snapshot,
    value_serializer,
)

from .random_types import build, changes, specs

pytestmark = pytest.mark.property

unhurried = settings(deadline=None)
"""Making a class takes 20 ms, pyarrow's first array imports pandas."""


@unhurried
@given(specs, st.data())
def test_values_of_any_type_come_back(spec: Any, data: st.DataObject) -> None:
    built = build(spec)
    value = data.draw(built.values)
    serializer = value_serializer(built.type)
    encoded = serializer.serialize(value)
    found = serializer.deserialize(encoded)
    assert value == found
    assert encoded == serializer.serialize(found)


@unhurried
@given(specs, st.data())
def test_values_of_any_type_are_read_and_written_without_its_classes(
    spec: Any, data: st.DataObject
) -> None:
    built = build(spec)
    serializer = value_serializer(built.type)
    encoded = serializer.serialize(data.draw(built.values))
    reader = serializer_from_snapshot(serializer.snapshot())
    assert serializer.snapshot() == reader.snapshot()
    assert encoded == reader.serialize(reader.deserialize(encoded))


@unhurried
@given(specs, st.data())
def test_values_of_any_type_are_shown_as_arrow(spec: Any, data: st.DataObject) -> None:
    built = build(spec)
    serializer = value_serializer(built.type)
    reader = serializer_from_snapshot(serializer.snapshot())
    values = data.draw(st.lists(built.values, max_size=3))
    plain = [reader.deserialize(serializer.serialize(value)) for value in values]
    options = ArrowOptions(decimals_as_text=True)
    description = described_type(serializer.snapshot())
    shown = arrow_array(description, [*plain, None], options)
    assert arrow_type(description, options) == shown.type
    assert [True] == [not item.is_valid for item in shown[-1:]]
    assert len(values) + 1 == len(shown)


@unhurried
@given(specs, st.data())
def test_an_allowed_change_gives_the_expected_values(spec: Any, data: st.DataObject) -> None:
    """The rules of docs/types.md against the code."""
    change = data.draw(changes(spec))
    old, new = build(spec), build(change.spec)
    value = data.draw(old.values)
    was, becomes = value_serializer(old.type), value_serializer(new.type)
    found = becomes.compatibility(was.snapshot())
    encoded = was.serialize(value)
    if change.as_is:
        assert Verdict.AS_IS is found.verdict, found.table()
    else:
        assert Verdict.AFTER_MIGRATION is found.verdict, found.table()
        encoded = becomes.migration(was.snapshot())(encoded)
    assert change.convert(value) == becomes.deserialize(encoded)
    assert value == was.deserialize(was.serialize(value)), "a migration only reads"


@unhurried
@given(specs, st.data())
def test_bytes_that_stay_are_bytes_of_the_new_type_for_every_later_change(
    spec: Any, data: st.DataObject
) -> None:
    """What is read as it is must not be told from newly written values, whatever comes next."""
    first = data.draw(changes(spec).filter(lambda change: change.as_is))
    second = data.draw(changes(first.spec))
    old, middle, last = build(spec), build(first.spec), build(second.spec)
    value = data.draw(old.values)
    never_rewritten = value_serializer(old.type).serialize(value)
    rewritten = value_serializer(middle.type).serialize(first.convert(value))
    reader = value_serializer(last.type)
    if not second.as_is:
        migrate = reader.migration(value_serializer(middle.type).snapshot())
        never_rewritten, rewritten = migrate(never_rewritten), migrate(rewritten)
    assert reader.deserialize(rewritten) == reader.deserialize(never_rewritten)


@unhurried
@given(specs, specs, st.data())
def test_any_two_types_are_refused_or_every_value_arrives_or_is_named(
    one: Any, other: Any, data: st.DataObject
) -> None:
    old, new = build(one), build(other)
    was, becomes = value_serializer(old.type), value_serializer(new.type)
    found = becomes.compatibility(was.snapshot())
    if found.verdict is Verdict.INCOMPATIBLE:
        assert found.reason
        return
    encoded = was.serialize(data.draw(old.values))
    if found.verdict is Verdict.AFTER_MIGRATION:
        try:
            encoded = becomes.migration(was.snapshot())(encoded)
        except IncompatibleStateError:
            return  # e.g. an integer that no double is equal to
    value = becomes.deserialize(encoded)
    assert value == becomes.deserialize(becomes.serialize(value))
