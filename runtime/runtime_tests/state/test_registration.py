"""What a program declares against what a checkpoint holds (B12, E4-E6, T20)."""

import logging

import pytest

from headrace.errors import IncompatibleStateError, InvalidConfigError, InvalidProgramError
from headrace.serialization.types import INT, LONG, PICKLED, STRING
from headrace.state.factory import backend_factory

from .bench_of_state import one_key_per_group, renamed

KEYS = one_key_per_group()


def test_the_same_name_with_a_wider_type_reads_the_old_values(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.values("n", INT).update(7)
    restored = make_bench(sources=[bench.freeze()])
    state = restored.values("n", LONG)
    restored.select("a")
    assert state.value() == 7
    state.update(2**40)
    (schema,) = restored.snapshot().schemas
    assert schema.serializer["type"] == {"type": "long"}


def test_another_type_is_refused_with_both_printed(make_bench) -> None:
    bench = make_bench()
    bench.values("n", STRING)
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError) as refused:
        restored.values("n", LONG)
    message = str(refused.value)
    assert 'stored=value {"codec": "msgpack/1", "type": {"type": "string"}}' in message
    assert 'declared=value {"codec": "msgpack/1", "type": {"type": "long"}}' in message
    assert "state=n" in message


def test_a_timer_queue_is_no_value(make_bench) -> None:
    bench = make_bench()
    bench.timers("x")
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError, match="from timers to value"):
        restored.values("x")


def test_declaring_a_state_twice_with_two_types_is_refused(make_bench) -> None:
    bench = make_bench()
    bench.values("n", LONG)
    with pytest.raises(IncompatibleStateError, match="declared twice"):
        bench.values("n", STRING)


def test_another_key_type_is_refused_with_both_printed(make_bench) -> None:
    bench = make_bench(keys=STRING)
    bench.put({"a": 1})
    source = bench.freeze()
    with pytest.raises(IncompatibleStateError, match=r'stored=.*"string".*declared=.*"long"'):
        make_bench(keys=LONG, sources=[source])
    with pytest.raises(IncompatibleStateError, match="undeclared"):
        make_bench(keys=PICKLED, sources=[source])


def test_a_wider_key_type_finds_the_old_keys(make_bench) -> None:
    bench = make_bench(keys=INT)
    bench.put({7: 1, -7: 2})
    restored = make_bench(keys=LONG, sources=[bench.freeze()])
    assert restored.read([7, -7]) == {7: 1, -7: 2}


def test_a_renamed_state_stops_the_job_and_is_named(make_bench) -> None:
    """E5: detected before the first record, never an empty start."""
    bench = make_bench()
    bench.put({"a": 1}, "click_count")
    restored = make_bench(sources=[bench.freeze()])
    restored.values("clicks")
    with pytest.raises(IncompatibleStateError) as refused:
        restored.backend.finish_registration()
    assert "states=['click_count'] declared=['clicks']" in str(refused.value)


def test_allowed_to_an_undeclared_state_is_dropped_with_a_log_line(make_bench, caplog) -> None:
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1), "old")
    bench.put(dict.fromkeys(KEYS, 2), "default")
    bench.put(dict.fromkeys(KEYS, 3), "kept")
    restored = make_bench(sources=[bench.freeze()], allow_non_restored_state=True)
    restored.values("kept")
    with caplog.at_level(logging.WARNING):
        restored.backend.finish_registration()
    assert [record.args for record in caplog.records] == [
        ("counter", "default"),
        ("counter", "old"),
    ]
    assert [schema.name for schema in restored.snapshot().schemas] == ["kept"]
    assert restored.read(KEYS, "old") == {}
    assert restored.read(KEYS, "default") == {}
    assert len(restored.read(KEYS, "kept")) == len(KEYS)


def test_everything_declared_finishes_quietly(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    bench.timers()
    restored = make_bench(sources=[bench.freeze()])
    restored.values()
    restored.timers()
    restored.backend.finish_registration()
    restored.values("new")
    assert [schema.name for schema in restored.snapshot().schemas] == [
        "_event_timers",
        "count",
        "new",
    ]


def test_sources_that_disagree_on_a_type_are_refused(make_bench) -> None:
    bench = make_bench()
    bench.values("n", LONG)
    source = bench.freeze()
    other = make_bench()
    other.values("n", STRING)
    with pytest.raises(IncompatibleStateError, match="state=n"):
        make_bench(sources=[source, renamed(other.freeze())])


def test_a_state_without_a_name_is_refused(make_bench) -> None:
    with pytest.raises(InvalidProgramError, match="needs a name"):
        make_bench().values("")


def test_an_unknown_backend_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfigError, match=r"state\.backend\.type='redis'"):
        backend_factory("redis")
