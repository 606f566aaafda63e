"""Declared types: PyFlink's names over descriptions that serializers understand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.common import SimpleStringSchema, Types
from headrace.common.configuration import Configuration
from headrace.common.serialization import ByteArraySchema
from headrace.common.typeinfo import type_info_of
from headrace.datastream.dataframe_types import type_info_of_schema
from headrace.errors import InvalidConfigError, InvalidProgramError
from headrace.serialization import types as described


@dataclass
class Point:
    x: int
    y: int


ROW = Types.ROW_NAMED(["name", "tags"], [Types.STRING(), Types.LIST(Types.LONG())])
ALL = [
    Types.STRING(),
    Types.BYTE(),
    Types.BOOLEAN(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(Types.INT()),
    Types.MAP(Types.STRING(), Types.LONG()),
    Types.TUPLE([Types.STRING(), Types.INT()]),
    Types.ROW([Types.STRING(), Types.INT()]),
    ROW,
    Types.POJO(Point),
    Types.DURATION(),
    Types.NUMPY("float32"),
    Types.ARROW_ARRAY(Types.LONG()),
    Types.ARROW_BATCH(ROW),
    Types.ROW_NAMED(["total"], [Types.LONG()], {"total": ["count"]}),
]


@pytest.mark.parametrize("type_info", ALL, ids=repr)
def test_every_type_can_be_stored_and_rebuilt_from_its_description(type_info):
    assert type_info == type_info_of(type_info.description)
    assert type(type_info) is type(type_info_of(type_info.description))
    assert type_info.value_serializer().snapshot()


def test_types_print_as_people_write_them():
    assert str(ROW) == "ROW<name STRING, tags LIST<LONG>>"
    assert str(Types.TUPLE([Types.MAP(Types.STRING(), Types.INT())])) == "TUPLE<MAP<STRING, INT>>"
    assert [str(Types.POJO(Point)), str(Types.PICKLED_BYTE_ARRAY())] == ["Point", "PICKLED"]
    assert [str(Types.NUMPY("int8", None)), str(Types.ARROW_BATCH(Types.ROW([Types.INT()])))] == [
        "NUMPY<int8>",
        "ARROW_BATCH<f0 INT>",
    ]


def test_the_page_of_types_names_them_all():
    page = (Path(__file__).parents[3] / "docs" / "types.md").read_text()
    assert [name for name in dir(Types) if name.isupper() and name not in page] == []


def test_former_names_are_of_fields_that_exist():
    with pytest.raises(ValueError, match="former names"):
        Types.ROW_NAMED(["total"], [Types.LONG()], {"sum": ["count"]})


def test_fields_of_rows_have_places():
    assert Types.ROW([Types.INT(), Types.INT()]).get_field_names() == ["f0", "f1"]
    assert (ROW.get_field_index("tags"), ROW.get_field_index("none")) == (1, -1)
    assert ROW.get_field_types() == [Types.STRING(), Types.LIST(Types.LONG())]


def test_an_array_of_bytes_is_bytes():
    assert Types.PRIMITIVE_ARRAY(Types.BYTE()).description == described.BYTES
    assert Types.PRIMITIVE_ARRAY(Types.INT()) == Types.LIST(Types.INT())


def test_columns_of_a_data_frame_have_counterparts():
    schema = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": "decimal(10,2)"},
            {"name": "at", "type": "timestamp"},
            {"name": "blob", "type": "binary"},
            {"name": "tags", "type": {"type": "array", "elementType": "string"}},
            {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "double"}},
            {
                "name": "inner",
                "type": {"type": "struct", "fields": [{"name": "x", "type": "integer"}]},
            },
        ],
    }

    assert str(type_info_of_schema(schema)) == (
        "ROW<id LONG, price DECIMAL, at INSTANT, blob BYTES, tags LIST<STRING>, "
        "m MAP<STRING, DOUBLE>, inner ROW<x INT>>"
    )


@pytest.mark.parametrize("kind", ["interval day to second", {"type": "udt"}])
def test_a_column_without_counterpart_is_named(kind):
    schema = {"type": "struct", "fields": [{"name": "odd", "type": kind}]}
    with pytest.raises(InvalidProgramError, match="cast it; column='odd'"):
        type_info_of_schema(schema)


def test_simple_schemas_read_what_they_write():
    text, raw = SimpleStringSchema("UTF-16"), ByteArraySchema()

    assert text.deserialize(text.serialize("ü")) == "ü"
    assert raw.deserialize(raw.serialize(b"\x00")) == b"\x00"
    assert (text.get_produced_type(), raw.get_produced_type()) == (
        Types.STRING(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    )


def test_a_configuration_is_text_with_typed_access():
    configuration = Configuration.from_dict({"a": "1", "b": "true", "c": "0.5"})
    configuration.set_integer("d", 2).set_boolean("e", False).set_float("f", 1).set_string("g", "x")

    assert configuration.get_integer("a", 0) == 1
    assert configuration.get_boolean("b", False) is True
    assert configuration.get_float("c", 0.0) == 0.5
    assert configuration.get_string("missing", "default") == "default"
    assert configuration.to_dict()["f"] == "1.0"
    assert configuration.remove_config("a")
    assert not configuration.contains_key("a")
    assert Configuration(configuration) == configuration
    assert configuration.key_set() == {"b", "c", "d", "e", "f", "g"}
    merged = Configuration().add_all(configuration, "p.")
    assert merged.contains_key("p.g")


@pytest.mark.parametrize("getter", ["get_integer", "get_boolean", "get_float"])
def test_a_configuration_names_key_and_value_of_a_wrong_text(getter):
    configuration = Configuration.from_dict({"a": "soon"})
    with pytest.raises(InvalidConfigError, match="key=a value='soon'"):
        getattr(configuration, getter)("a", 0)
