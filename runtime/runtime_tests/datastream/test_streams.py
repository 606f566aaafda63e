"""What streams accept and refuse."""

from __future__ import annotations

import pickle

import pytest

from headrace.common import Row, Types
from headrace.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from headrace.datastream.field_selector import FieldSelector
from headrace.datastream.state import ValueStateDescriptor
from headrace.errors import InvalidProgramError


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Plain(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2], Types.LONG())


def test_a_keyed_function_needs_key_by(numbers):
    with pytest.raises(InvalidProgramError, match="call key_by first; function=Keyed"):
        numbers.process(Keyed())


def test_a_keyed_stream_needs_a_keyed_function(numbers):
    with pytest.raises(InvalidProgramError, match="expected a KeyedProcessFunction"):
        numbers.key_by(lambda v: v).process(Plain())


@pytest.mark.parametrize("method", ["map", "filter", "flat_map", "key_by"])
def test_what_is_no_function_is_refused(numbers, method):
    with pytest.raises(InvalidProgramError, match=f"method={method} type=int"):
        getattr(numbers, method)(7)


def test_a_function_of_the_wrong_kind_is_refused(numbers):
    with pytest.raises(InvalidProgramError, match="method=map type=Plain"):
        numbers.map(Plain())


def test_unions_need_one_type(env, numbers):
    with pytest.raises(InvalidProgramError, match="types=LONG,STRING"):
        numbers.union(env.from_collection(["a"], Types.STRING()))


def test_unions_need_one_environment(numbers):
    other = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(InvalidProgramError, match="two environments"):
        numbers.union(other.from_collection([1], Types.LONG()))


@pytest.mark.parametrize("call", ["name", "uid", "set_parallelism"])
def test_a_union_or_partition_is_no_operator(numbers, call):
    argument = 1 if call == "set_parallelism" else "x"
    for stream in (numbers.union(numbers), numbers.rebalance(), numbers.key_by(lambda v: v)):
        with pytest.raises(InvalidProgramError, match=f"not an operator; call={call}"):
            getattr(stream, call)(argument)


def test_names_uids_and_types_are_the_operator_s(numbers):
    mapped = numbers.map(str, Types.STRING()).name("To text").uid("text")

    assert (mapped.get_name(), mapped.get_type()) == ("To text", Types.STRING())
    assert numbers.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_a_field_name_keys_a_stream_of_rows(env):
    rows = env.from_collection(
        [("m1", 5)], Types.ROW_NAMED(["merchant", "paise"], [Types.STRING(), Types.LONG()])
    )
    keyed = rows.key_by("merchant")

    assert keyed.get_key_type() == Types.STRING()
    with pytest.raises(InvalidProgramError, match=r"field='shop' fields=\['merchant', 'paise'\]"):
        rows.key_by("shop")


def test_a_field_name_needs_rows(numbers):
    with pytest.raises(InvalidProgramError, match="field='merchant' fields=None"):
        numbers.key_by("merchant")


def test_a_type_that_cannot_be_a_key_is_refused_where_it_is_declared(numbers):
    with pytest.raises(InvalidProgramError, match="cannot be keys"):
        numbers.key_by(lambda v: {v: v}, Types.MAP(Types.LONG(), Types.LONG()))


@pytest.mark.parametrize("name", ["", "_timers"])
def test_reserved_state_names_are_refused(name):
    with pytest.raises(InvalidProgramError, match="name of a state"):
        ValueStateDescriptor(name, Types.LONG())


def test_a_state_descriptor_has_a_name_and_a_type():
    descriptor = ValueStateDescriptor("count", Types.LONG())

    assert (descriptor.get_name(), descriptor.type_info) == ("count", Types.LONG())


def test_a_field_selector_reads_by_name_whatever_the_order_of_fields():
    selector = pickle.loads(pickle.dumps(FieldSelector("b")))

    assert [selector.get_key(row) for row in (Row(a=1, b=2), Row(b=3, a=4), Row(a=5, b=6))] == [
        2,
        3,
        6,
    ]
    with pytest.raises(KeyError, match="no such field"):
        selector.get_key(Row(a=1))
    for value in (Row(1, 2), (1, 2), {"b": 1}):
        with pytest.raises(TypeError, match="not a row with names"):
            selector.get_key(value)
    assert pickle.loads(pickle.dumps(selector)).get_key(Row(b=1)) == 1
