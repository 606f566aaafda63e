"""JSON rows: reading and writing by declared type."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    Row,
    Types,
)
from headrace.errors import InvalidProgramError

PAYMENT = Types.ROW_NAMED(["merchant", "paise"], [Types.STRING(), Types.LONG()])


def reader(type_info, **flags):
    builder = JsonRowDeserializationSchema.builder().type_info(type_info)
    for flag in flags:
        getattr(builder, flag)()
    return builder.build()


def writer(type_info):
    return JsonRowSerializationSchema.builder().with_type_info(type_info).build()


def test_an_object_becomes_a_named_row():
    row = reader(PAYMENT).deserialize(b'{"paise": 250, "merchant": "m1", "unknown": [1]}')

    assert isinstance(row, Row)
    assert (row.merchant, row["paise"], row[0]) == ("m1", 250, "m1")
    assert row.as_dict() == {"merchant": "m1", "paise": 250}


def test_an_absent_field_is_none_unless_that_is_an_error():
    assert reader(PAYMENT).deserialize(b'{"paise": 1}').merchant is None

    with pytest.raises(ValueError, match="missing required field"):
        reader(PAYMENT, fail_on_missing_field=True).deserialize(b'{"paise": 1}')


@pytest.mark.parametrize(
    "message",
    [b"", b"no json", b"[1]", b'{"paise": "x"}', b'{"paise": 9223372036854775808}', b"\xff"],
)
def test_an_unreadable_message_is_an_error_with_its_beginning(message):
    with pytest.raises(ValueError, match="message is not JSON of the declared type") as caught:
        reader(PAYMENT).deserialize(message)

    assert repr(message) in str(caught.value)


def test_unreadable_messages_can_be_left_out():
    assert reader(PAYMENT, ignore_parse_errors=True).deserialize(b"no json") is None


def test_the_two_ways_of_failing_exclude_each_other():
    with pytest.raises(InvalidProgramError, match="choose one"):
        reader(PAYMENT, fail_on_missing_field=True, ignore_parse_errors=True)


@pytest.mark.parametrize("build", [reader, writer])
def test_a_schema_needs_a_row_type(build):
    with pytest.raises(InvalidProgramError, match="type=STRING"):
        build(Types.STRING())
    with pytest.raises(InvalidProgramError, match=r"Types\.ROW_NAMED"):
        build(None)


EVERYTHING = Types.ROW_NAMED(
    ["text", "flag", "small", "big", "ratio", "price", "day", "at", "blob", "inner", "list", "map"],
    [
        Types.STRING(),
        Types.BOOLEAN(),
        Types.BYTE(),
        Types.BIG_INT(),
        Types.DOUBLE(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        PAYMENT,
        Types.LIST(PAYMENT),
        Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG(), PAYMENT])),
    ],
)


def payment(merchant, paise):
    return Row("merchant", "paise")(merchant, paise)


def test_every_type_survives_writing_and_reading():
    row = Row(*EVERYTHING.get_field_names())(
        "ü",
        True,
        -128,
        10**30,
        0.5,
        Decimal("12.30"),
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 1, 5),  # noqa: DTZ001 - SQL_TIMESTAMP has no zone
        b"\x00\xff",
        payment("m1", 1),
        [payment("m2", 2), None],
        {"k": (7, payment("m3", None))},
    )

    assert reader(EVERYTHING).deserialize(writer(EVERYTHING).serialize(row)) == row


def test_nulls_survive_everywhere():
    row = Row(*EVERYTHING.get_field_names())(*[None] * 12)

    assert reader(EVERYTHING).deserialize(writer(EVERYTHING).serialize(row)) == row


@pytest.mark.property
@given(st.lists(st.tuples(st.text() | st.none(), st.integers(-(2**63), 2**63 - 1) | st.none())))
def test_any_payment_survives_writing_and_reading(payments):
    rows = [payment(*fields) for fields in payments]
    read, write = reader(PAYMENT), writer(PAYMENT)

    assert [read.deserialize(write.serialize(row)) for row in rows] == rows


def test_rows_are_written_by_name_whatever_their_order():
    assert writer(PAYMENT).serialize(Row(paise=1, merchant="m")) == b'{"merchant":"m","paise":1}'


def test_rows_and_tuples_without_names_are_written_by_place():
    for value in (Row("m", 1), ("m", 1), ["m", 1]):
        assert writer(PAYMENT).serialize(value) == b'{"merchant":"m","paise":1}'


@pytest.mark.parametrize("value", ["m", ("m",), {"merchant": "m", "paise": 1}])
def test_what_is_no_row_of_the_type_cannot_be_written(value):
    with pytest.raises(ValueError, match="row"):
        writer(PAYMENT).serialize(value)


def test_decimals_are_written_as_numbers():
    price = Types.ROW_NAMED(["price"], [Types.BIG_DEC()])

    assert writer(price).serialize((Decimal("12.30"),)) == b'{"price":12.30}'


def test_schemas_travel_to_the_slots():
    read, write = pickle.loads(pickle.dumps((reader(PAYMENT), writer(PAYMENT))))

    assert read.deserialize(write.serialize(("m", 1))) == payment("m", 1)
    assert read.get_produced_type() == PAYMENT


@pytest.mark.parametrize("type_info", [Types.NUMPY("float32"), Types.ARROW_ARRAY(Types.LONG())])
def test_types_that_json_has_no_form_for_are_refused(type_info):
    with pytest.raises(InvalidProgramError, match="cannot be JSON"):
        reader(Types.ROW_NAMED(["x"], [type_info]))
