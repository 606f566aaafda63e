"""Reducing and aggregating state on every backend: one value kept (B10, B11)."""

import pytest

from headrace.errors import IncompatibleStateError, InternalError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.types import LONG, PICKLED, STRING, ListType, TupleType

TINY_CACHE = {"headrace.state.cache.fraction": "0.001"}


class Mean:
    """Accumulator (sum, count), of an immutable type."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Collect:
    """A mutable accumulator, changed in place."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        acc_a.extend(acc_b)
        return acc_a


MEAN = TupleType((LONG, LONG))


def add_numbers(one, other):
    return one + other


def test_reducing_keeps_one_value_a_key(make_bench) -> None:
    bench = make_bench()
    total = bench.reducing(add_numbers)
    for number in range(10):
        for key in ("a", "b"):
            bench.select(key)
            total.add(number * (1 if key == "a" else 100))
        bench.evict()
    bench.select("a")
    assert total.get() == 45
    bench.select("b")
    assert total.get() == 4500
    bench.select("c")
    assert total.get() is None
    assert len(bench.rows("total")) == 2


def test_aggregating_keeps_the_accumulator_and_shows_the_result(make_bench) -> None:
    bench = make_bench()
    mean = bench.aggregating(Mean(), type_=MEAN)
    bench.select("a")
    assert mean.get() is None
    mean.add(1)
    mean.add(2)
    assert mean.get() == 1.5
    bench.evict()
    mean.add(9)
    assert mean.get() == 4.0
    assert len(bench.rows("mean")) == 1


@pytest.mark.parametrize("end", [lambda state: state.clear(), lambda state: state.add(None)])
def test_clearing_starts_anew(make_bench, end) -> None:
    """Adding None clears, as in Flink."""
    bench = make_bench()
    total, mean = bench.reducing(add_numbers), bench.aggregating(Mean(), type_=MEAN)
    bench.select("a")
    for state in (total, mean):
        state.add(5)
        bench.evict()
        end(state)
        assert state.get() is None
        bench.backend.flush()
        state.add(7)
        assert state.get() == 7
        state.clear()
    assert bench.rows("total") == bench.rows("mean") == []


@pytest.mark.parametrize("declared", [ListType(LONG), PICKLED], ids=str)
@pytest.mark.parametrize("options", [TINY_CACHE, {}], ids=["tiny", "roomy"])
def test_a_mutable_accumulator_is_its_keys_own(make_bench, declared, options) -> None:
    bench = make_bench(options=options)
    all_of = bench.aggregating(Collect(), "all", declared)
    for number in range(20):
        for key in range(60):
            bench.select(f"key-{key}")
            all_of.add(number * key)
    for key in range(60):
        bench.select(f"key-{key}")
        assert all_of.get() == [number * key for number in range(20)]


def test_changing_a_result_changes_no_accumulator(make_bench) -> None:
    """T27: although `get_result` hands the accumulator itself out."""
    bench = make_bench()
    all_of = bench.aggregating(Collect(), "all", ListType(LONG))
    bench.select("a")
    all_of.add(1)
    for _ in range(2):
        all_of.get().append(99)
        assert all_of.get() == [1]
        bench.backend.flush()
        assert all_of.get() == [1]
        bench.evict()


def test_changing_a_value_after_it_was_added_changes_no_state(make_bench) -> None:
    bench = make_bench()
    all_of = bench.aggregating(Collect(), "all", PICKLED)
    longest = bench.reducing(lambda one, other: max(one, other, key=len), "max", PICKLED)
    bench.select("a")
    value = [1]
    for state in (all_of, longest):
        state.add(value)
    value.append(2)
    for _ in range(2):
        assert all_of.get() == [[1]]
        assert longest.get() == [1]
        bench.evict()


def test_a_result_of_another_type_is_refused(make_bench) -> None:
    bench = make_bench()
    joined = bench.reducing(lambda one, other: f"{one}{other}", "joined", LONG)
    bench.select("a")
    joined.add(1)
    with pytest.raises(TypeError, match="declared"):
        joined.add(2)
    assert joined.get() == 1
    counted = bench.aggregating(Mean(), "counted", LONG)
    with pytest.raises(TypeError, match="declared"):
        counted.add(2)


def test_what_was_folded_survives_a_restore(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.reducing(add_numbers).add(5)
    bench.aggregating(Mean(), type_=MEAN).add(4)
    restored = make_bench(sources=[bench.freeze()])
    restored.select("a")
    total, mean = restored.reducing(add_numbers), restored.aggregating(Mean(), type_=MEAN)
    total.add(1)
    mean.add(8)
    assert (total.get(), mean.get()) == (6, 6.0)


def test_a_reducing_state_is_no_value_state(make_bench) -> None:
    bench = make_bench()
    bench.reducing(add_numbers, "x")
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError, match="from reducing to value"):
        restored.values("x")
    with pytest.raises(IncompatibleStateError, match="from reducing to aggregating"):
        restored.aggregating(Mean(), "x", LONG)


@pytest.mark.parametrize("call", ["get", "clear", "add"])
def test_a_key_of_another_slots_key_group_is_refused(make_bench, call: str) -> None:
    bench = make_bench(key_groups=KeyGroupRange(0, 7))
    states = [bench.reducing(add_numbers), bench.aggregating(Mean(), type_=MEAN)]
    bench.select("a", key_group=8)
    for state in states:
        with pytest.raises(InternalError, match=r"key_group=8 owned=0\.\.7"):
            state.add(1) if call == "add" else getattr(state, call)()


def test_the_type_of_keys_does_not_matter(make_bench) -> None:
    bench = make_bench(keys=TupleType((STRING, LONG)))
    total = bench.reducing(add_numbers)
    for key in [("a", 1), ("a", 2), ("a", 1)]:
        bench.select(key)
        total.add(1)
    bench.select(("a", 1))
    assert total.get() == 2
