"""Differences of two states are those of two dicts, whatever slots and backends hold them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import IncompatibleStateError
from headrace.state_processor.compare import ADDED, CHANGED, REMOVED, changes_of, pair_tables
from headrace.state_processor.reading import StateFiles, read_stored_state
from runtime_tests.state.bench_of_state import SCRATCH

from .stored_job import store_checkpoint

KEYS = st.sampled_from([f"key-{number}" for number in range(12)])
VALUES = st.dictionaries(KEYS, st.integers(0, 2))
LISTS = st.dictionaries(KEYS, st.lists(st.integers(0, 2), min_size=1, max_size=4))
PLACES = st.tuples(st.sampled_from(["rocksdb", "hashmap"]), st.integers(1, 3))


def store(root: Path, values: dict, lists: dict, place: tuple[str, int]) -> str:
    def fill(bench):
        state, items = bench.values(), bench.lists()
        for key, value in values.items():
            if bench.owns(key):
                bench.select(key)
                state.update(value)
        for key, elements in lists.items():
            if bench.owns(key):
                bench.select(key)
                items.update(elements)

    return store_checkpoint(root, *place, fill=fill)


def differences(before: str, after: str) -> dict[str, list[tuple]]:
    found: dict[str, list[tuple]] = {}
    with StateFiles({}) as old, StateFiles({}) as new:
        for pair in pair_tables(read_stored_state(before, {}), read_stored_state(after, {})):
            found[pair.state] = sorted(
                (
                    (change.after or change.before or {})["key"],
                    (change.after or change.before or {}).get("index", 0),
                    change.change,
                    change.before and change.before["value"],
                    change.after and change.after["value"],
                )
                for change in changes_of(pair, old, new)
            )
    return found


def expected(old: dict, new: dict) -> list[tuple]:
    """Differences of two dicts from (key, index) to value."""
    changes = []
    for key, index in sorted({*old, *new}):
        before, after = old.get((key, index)), new.get((key, index))
        if before != after:
            name = ADDED if before is None else REMOVED if after is None else CHANGED
            changes.append((key, index, name, before, after))
    return changes


def flat(lists: dict) -> dict:
    return {(key, i): value for key, values in lists.items() for i, value in enumerate(values)}


@pytest.mark.property
@settings(max_examples=40)
@given(VALUES, VALUES, LISTS, LISTS, PLACES, PLACES)
def test_differences_are_those_of_two_dicts(old, new, old_lists, new_lists, here, there):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        before = store(Path(directory) / "before", old, old_lists, here)
        after = store(Path(directory) / "after", new, new_lists, there)
        found = differences(before, after)
        assert found["count"] == expected(
            {(key, 0): value for key, value in old.items()},
            {(key, 0): value for key, value in new.items()},
        )
        assert found["items"] == expected(flat(old_lists), flat(new_lists))


def test_states_of_another_max_parallelism_are_not_compared(tmp_path):
    paths = [
        store_checkpoint(
            tmp_path / str(groups), "hashmap", max_parallelism=groups, fill=lambda bench: None
        )
        for groups in (16, 128)
    ]
    with pytest.raises(IncompatibleStateError, match="max_parallelism=16 other=128"):
        pair_tables(*(read_stored_state(path, {}) for path in paths))
