"""Keyed state alone, without Spark: what one access, one flush, one snapshot and one restore cost.

Prints one JSON line last. Rates are operations a second of one thread, the slot's main thread:

- ``hot_pairs``: ``value()`` + ``update()`` of a cached key, the context set as the record loop does
- ``hot_pairs_one_key``: the same without moving to another key
- ``copy_pairs``: the same for a list, which is copied in and out (T27)
- ``miss``: ``value()`` of a key that only the database holds
- ``flush``: changed entries written
- ``register``, ``fire``: timers

``python bench/state_backend.py [--keys N] [--backend rocksdb|hashmap]``
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import cast

from headrace.ids import KeyGroup, OperatorUid
from headrace.keygroups import key_group_of_hash, key_group_range_of_slot
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.types import LONG, ListType
from headrace.state.access import ValueStateAccess
from headrace.state.contract import (
    BackendConfig,
    KeyedStateBackend,
    LocalSnapshot,
    RestoreSource,
)
from headrace.state.factory import backend_factory

MAX_PARALLELISM = 128


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
    parser.add_argument("--backend", default="rocksdb", choices=["rocksdb", "hashmap"])
    parser.add_argument("--memory-mb", type=int, default=512)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(arguments.backend, arguments.keys, arguments.memory_mb << 20, Path(directory))
        backend = bench.open("work")
        bench.values(backend)
        bench.timers(backend)
        snapshot = bench.snapshots(backend)
        backend.close()
        bench.restores(snapshot)
    print(json.dumps({"backend": arguments.backend, "keys": arguments.keys} | bench.results))


if __name__ == "__main__":
    main()
