"""Keyed state alone, without Spark: what one access, one flush, one snapshot and one restore cost.

Runs both backends, one after the other, and prints one JSON line last: the results by backend.
Rates are operations a second of one thread, the slot's main thread:

- ``hot_pairs``: ``value()`` + ``update()`` of a cached key, the context set as the record loop does
- ``hot_pairs_one_key``: the same without moving to another key
- ``copy_pairs``: the same for a list, which is copied in and out (T27)
- ``miss``: ``value()`` of a key that only the database holds
- ``flush``: changed entries written
- ``register``, ``fire``: timers
- ``ttl_pairs``: as ``hot_pairs``, of a value that expires
- ``window_pairs``: as ``hot_pairs``, with a namespace entered before
- ``list_first``, ``list_add``: elements added to new lists, to cached ones; ``list_cycle``: add
  three, get, clear; ``list_elements``: elements of a long stored list, got at once
- ``map_first``: ``put()`` of a new entry, ten a map; ``map_pairs``: ``get()`` + ``put()`` of a
  cached one; ``map_items_first``, ``map_items``: entries of maps that are iterated over for the
  first time, again; ``map_clear``: maps
- ``reduce``, ``aggregate``: ``add()`` with a pair of numbers as accumulator; ``aggregate_copied``:
  with a list as accumulator, which is copied

``python bench/state_backend.py [--keys N] [--backend rocksdb|hashmap]``
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from headrace.ids import KeyGroup, OperatorUid
from headrace.keygroups import key_group_of_hash, key_group_range_of_slot
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.types import LONG, ListType, TupleType
from headrace.state.access import StateTraits, TimeToLive, ValueStateAccess
from headrace.state.contract import (
    BackendConfig,
    KeyedStateBackend,
    LocalSnapshot,
    RestoreSource,
)
from headrace.state.factory import backend_factory
from headrace.state.rows import window_namespace

MAX_PARALLELISM = 128
BACKENDS = ("rocksdb", "hashmap")


class Mean:
    """An aggregate function; its accumulator is a pair, as a tuple or as a list."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        total, count = accumulator
        added = total + value, count + 1
        return added if type(accumulator) is tuple else list(added)

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Bench:
    """One run over one backend."""

    def __init__(self, backend: str, keys: int, memory_bytes: int, directory: Path) -> None:
        self.factory = backend_factory(backend)
        self.keys = list(range(keys))
        self.memory_bytes = memory_bytes
        self.directory = directory
        serializer = key_serializer(LONG)
        self.key_serializer = serializer
        self.groups = [
            key_group_of_hash(serializer.hash64(key), MAX_PARALLELISM) for key in self.keys
        ]
        self.results: dict[str, float] = {}

    def open(
        self,
        name: str,
        sources: tuple[RestoreSource, ...] = (),
        slot: int = 0,
        parallelism: int = 1,
    ) -> KeyedStateBackend:
        """Open a backend in a directory of its own."""
        config: BackendConfig[object] = BackendConfig(
            directory=self.directory / name,
            operator_uid=OperatorUid("bench"),
            key_serializer=self.key_serializer,
            key_group_range=key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM),
            managed_memory_bytes=self.memory_bytes,
        )
        return self.factory.open(config, sources)

    def rate(self, name: str, count: int, started: float) -> None:
        """Record ``count`` operations since ``started``."""
        self.results[f"{name}_per_s"] = round(count / (time.perf_counter() - started))

    def values(self, backend: KeyedStateBackend) -> None:
        """Measure cached values."""
        state = cast("ValueStateAccess[int]", backend.value_state("count", value_serializer(LONG)))
        context, value, update = backend.context, state.value, state.update
        started = time.perf_counter()
        for key, group in zip(self.keys, self.groups, strict=True):
            context.key, context.cache_key, context.key_group = key, key, group
            update((value() or 0) + 1)
        self.rate("first_pairs", len(self.keys), started)
        rounds = max(1, 1_000_000 // len(self.keys))
        started = time.perf_counter()
        for _ in range(rounds):
            for key, group in zip(self.keys, self.groups, strict=True):
                context.key = key
                context.cache_key = key
                context.key_group = group
                update((value() or 0) + 1)
        self.rate("hot_pairs", rounds * len(self.keys), started)
        started = time.perf_counter()
        for _ in range(1_000_000):
            update((value() or 0) + 1)
        self.rate("hot_pairs_one_key", 1_000_000, started)
        started = time.perf_counter()
        backend.flush()
        self.rate("flush", len(self.keys), started)
        items = backend.value_state("items", value_serializer(ListType(LONG)))
        items.update([1, 2, 3])
        started = time.perf_counter()
        for _ in range(200_000):
            items.update(items.value() or [])
        self.rate("copy_pairs", 200_000, started)

    def each_key(self, backend: KeyedStateBackend, rounds: int = 1) -> Iterator[int]:
        """Move over all keys as the record loop does."""
        context = backend.context
        for _ in range(rounds):
            for key, group in zip(self.keys, self.groups, strict=True):
                context.key = key
                context.cache_key = key
                context.key_group = group
                yield key

    def measure(self, name: str, calls: Iterable[object], times: int = 1) -> None:
        """Record how many steps of ``calls`` there are in a second, ``times`` operations each."""
        started = time.perf_counter()
        count = sum(1 for _ in calls)
        self.rate(name, count * times, started)

    def kinds(self, backend: KeyedStateBackend) -> None:
        """Measure the other kinds of state."""
        rounds = max(1, 300_000 // len(self.keys))
        long = value_serializer(LONG)
        seen = backend.value_state("seen", long, StateTraits(TimeToLive(86_400_000)))
        self.measure(
            "ttl_pairs", (seen.update(seen.value() or 0) for _ in self.each_key(backend, rounds))
        )
        panes = backend.value_state("panes", long, StateTraits(namespaced=True))
        window, enter = window_namespace(0, 60_000), backend.namespace_context.enter
        self.measure(
            "window_pairs",
            (
                (enter(backend.context, window), panes.update(panes.value() or 0))
                for _ in self.each_key(backend, rounds)
            ),
        )
        self.lists(backend, rounds)
        self.maps(backend, rounds)
        total = backend.reducing_state("total", long, lambda one, other: one + other)
        self.measure("reduce", (total.add(key) for key in self.each_key(backend, rounds)))
        pair = value_serializer(TupleType((LONG, LONG)))
        mean = backend.aggregating_state("mean", pair, Mean())
        self.measure("aggregate", (mean.add(key) for key in self.each_key(backend, rounds)))
        copied = backend.aggregating_state("copied", value_serializer(ListType(LONG)), Mean())
        self.measure("aggregate_copied", (copied.add(key) for key in self.each_key(backend)))

    def lists(self, backend: KeyedStateBackend, rounds: int) -> None:
        """Measure lists."""
        long = value_serializer(LONG)
        added = backend.list_state("added", long)
        self.measure("list_first", (added.add(1) for _ in self.each_key(backend)))
        self.measure("list_add", (added.add(1) for _ in self.each_key(backend, rounds)))
        cycled = backend.list_state("cycled", long)
        self.measure(
            "list_cycle",
            (
                (cycled.add(1), cycled.add(2), cycled.add(3), cycled.get(), cycled.clear())
                for _ in self.each_key(backend)
            ),
        )
        added.add_all(range(100_000))
        backend.flush()
        started = time.perf_counter()
        self.rate("list_elements", len(added.get()), started)

    def maps(self, backend: KeyedStateBackend, rounds: int) -> None:
        """Measure maps, of ten entries each."""
        keys = key_serializer(LONG)
        entries = backend.map_state("entries", keys, value_serializer(LONG))
        user_keys = range(10)

        def some() -> Iterator[int]:
            return itertools.islice(self.each_key(backend), 5000)

        def put(key: int) -> None:
            for user_key in user_keys:
                entries.put(user_key, key)

        def pair(_key: int) -> None:
            for user_key in user_keys:
                entries.put(user_key, entries.get(user_key) or 0)

        self.measure("map_first", (put(key) for key in some()), times=10)
        self.measure("map_pairs", (pair(key) for key in some()), times=10)
        started = time.perf_counter()
        backend.flush()
        self.rate("map_flush", 50_000, started)
        self.measure("map_items_first", (list(entries.items()) for _ in some()), times=10)
        self.measure("map_items", (list(entries.items()) for _ in some()), times=10)
        self.measure("map_clear", (entries.clear() for _ in some()))

    def timers(self, backend: KeyedStateBackend) -> None:
        """Measure timers; leaves one a key registered."""
        queue, context = backend.timers("_event_timers"), backend.context
        for fire in (True, False):
            started = time.perf_counter()
            for key, group in zip(self.keys, self.groups, strict=True):
                context.key, context.cache_key, context.key_group = key, key, group
                queue.register(key * 10)
            self.rate("register", len(self.keys), started)
            started = time.perf_counter()
            if fire:
                fired = sum(1 for _ in queue.due(len(self.keys) * 10))
                self.rate("fire", fired, started)
        started = time.perf_counter()
        for _ in range(1000):
            list(queue.due(-1))
        self.results["idle_due_us"] = round((time.perf_counter() - started) * 1000, 2)

    def snapshots(self, backend: KeyedStateBackend) -> LocalSnapshot:
        """Measure snapshots with everything, a part and nothing changed."""
        snapshot = self.snapshot(backend, "snapshot_first_ms", "snapshot-1")
        state, context = backend.value_state("count", value_serializer(LONG)), backend.context
        for key, group in zip(self.keys[::100], self.groups[::100], strict=True):
            context.key, context.cache_key, context.key_group = key, key, group
            state.update(0)
        self.snapshot(backend, "snapshot_one_percent_ms", "snapshot-2")
        self.snapshot(backend, "snapshot_unchanged_ms", "snapshot-3")
        size = sum(file.size_bytes for file in snapshot.files)
        self.results["snapshot_bytes_per_key"] = round(size / len(self.keys), 1)
        return snapshot

    def snapshot(self, backend: KeyedStateBackend, result: str, name: str) -> LocalSnapshot:
        """Take one snapshot."""
        started = time.perf_counter()
        snapshot = backend.snapshot(self.directory / name)
        self.results[result] = round((time.perf_counter() - started) * 1000, 1)
        return snapshot

    def restores(self, snapshot: LocalSnapshot) -> None:
        """Measure adoption, split and merge, and reads that miss the cache."""
        whole = RestoreSource(
            snapshot.directory,
            snapshot.key_group_range,
            snapshot.key_serializer,
            snapshot.schemas,
        )
        restored = self.restore("restore_adopt_ms", "adopted", (whole,))
        state, context = restored.value_state("count", value_serializer(LONG)), restored.context
        started = time.perf_counter()
        for key, group in zip(self.keys, self.groups, strict=True):
            context.key, context.cache_key, context.key_group = key, key, KeyGroup(group)
            state.value()
        self.rate("miss", len(self.keys), started)
        restored.close()
        halves = []
        for slot in (0, 1):
            half = self.restore("restore_split_ms", f"half-{slot}", (whole,), slot, 2)
            frozen = half.snapshot(self.directory / f"half-snapshot-{slot}")
            halves.append(
                RestoreSource(
                    frozen.directory,
                    frozen.key_group_range,
                    frozen.key_serializer,
                    frozen.schemas,
                )
            )
            half.close()
        self.restore("restore_merge_ms", "merged", tuple(halves)).close()

    def restore(
        self,
        result: str,
        name: str,
        sources: tuple[RestoreSource, ...],
        slot: int = 0,
        parallelism: int = 1,
    ) -> KeyedStateBackend:
        """Open a backend from sources, with its states declared."""
        started = time.perf_counter()
        backend = self.open(name, sources, slot, parallelism)
        backend.value_state("count", value_serializer(LONG))
        backend.value_state("items", value_serializer(ListType(LONG)))
        backend.timers("_event_timers")
        backend.finish_registration()
        self.results[result] = round((time.perf_counter() - started) * 1000, 1)
        return backend


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--backend", choices=BACKENDS, help="only this one")
    parser.add_argument("--memory-mb", type=int, default=1024)
    arguments = parser.parse_args()
    results: dict[str, object] = {"keys": arguments.keys}
    for name in [arguments.backend] if arguments.backend else BACKENDS:
        results[name] = run(name, arguments.keys, arguments.memory_mb << 20)
    print(json.dumps(results))


def run(name: str, keys: int, memory_bytes: int) -> dict[str, float]:
    """Measure one backend."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(name, keys, memory_bytes, Path(directory))
        backend = bench.open("work")
        bench.values(backend)
        bench.timers(backend)
        snapshot = bench.snapshots(backend)
        backend.close()
        bench.restores(snapshot)
        backend = bench.open("kinds")
        bench.kinds(backend)
        backend.close()
    return bench.results


if __name__ == "__main__":
    main()
