"""All slots of one keyed operator on both backends, and what they should hold as plain Python.

`JobState` offers the moves; `test_state_model` lets Hypothesis choose them. Every move is made on
both backends and on the model, and both backends must hold the same rows, byte for byte.
"""

import atexit
import copy
import functools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.types import LONG, STRING, ListType
from headrace.state.access import StateTraits, TimeToLive
from headrace.state.contract import RestoreSource
from headrace.state.rows import window_namespace

from .bench_of_state import (
    MAX_PARALLELISM,
    SCRATCH,
    ManualClock,
    StateBench,
    as_canonical,
    as_source,
    one_key_per_group,
)

BACKENDS = ("rocksdb", "hashmap")
KEYS = one_key_per_group()[::4]
WINDOWS = [window_namespace(start, start + 10) for start in (-10, 0, 10)]
TTL_MS = 100

EXPIRING = StateTraits(TimeToLive(TTL_MS))
EXPIRING_ON_READ = StateTraits(TimeToLive(TTL_MS, on_read=True))
NAMESPACED = StateTraits(namespaced=True)
NAMES = (
    "count",
    "pair",
    "items",
    "entries",
    "total",
    "seen",
    "flags",
    "recent",
    "panes",
    "_event_timers",
)


@dataclass
class Model:
    """What every state holds, by key; expiring entries with the time of their last access."""

    count: dict[str, int] = field(default_factory=dict)
    pair: dict[str, list[int]] = field(default_factory=dict)
    items: dict[str, list[str]] = field(default_factory=dict)
    entries: dict[str, dict[int, int | None]] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    flags: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    recent: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    panes: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    timers: set[tuple[int, str]] = field(default_factory=set)


class Slot:
    """One slot on both backends."""

    def __init__(self, benches: list[StateBench]) -> None:
        self.benches = benches
        self.states = [
            {
                "count": bench.values("count", LONG),
                "pair": bench.values("pair", ListType(LONG)),
                "items": bench.lists("items", STRING),
                "entries": bench.maps("entries", (LONG, LONG)),
                "total": bench.reducing(lambda one, other: one + other, "total"),
                "seen": bench.values("seen", LONG, EXPIRING_ON_READ),
                "flags": bench.maps("flags", (LONG, LONG), EXPIRING),
                "recent": bench.lists("recent", LONG, EXPIRING),
                "panes": bench.lists("panes", LONG, NAMESPACED),
                "timers": bench.timers(),
            }
            for bench in benches
        ]
        for bench in benches:
            bench.backend.finish_registration()

    def call(self, name: str, key: str, do: Callable, window: bytes = b"") -> object:
        """Do something with a state of a key on both backends, with the same result."""
        results = []
        for bench, states in zip(self.benches, self.states, strict=True):
            bench.enter(key, window)
            results.append(do(states[name]))
        assert results[0] == results[1]
        return results[0]


@functools.cache
def nothing_stored(backend: str) -> RestoreSource:
    """A snapshot without rows: states that exist open three times as fast as new ones."""
    directory = Path(tempfile.mkdtemp(dir=SCRATCH))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    bench = StateBench.open(backend, directory)
    Slot([bench])
    return bench.freeze()


class JobState:
    """A job's state on both backends, its model, and its last checkpoint."""

    def __init__(self, parallelism: int, cache_fraction: float) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=SCRATCH))
        self.options = {"headrace.state.cache.fraction": str(cache_fraction)}
        self.clock = ManualClock()
        self.model = Model()
        self.sources = {name: [nothing_stored(name)] for name in BACKENDS}
        self.saved = Model()
        self.slots: list[Slot] = []
        self.open(parallelism)

    def open(self, parallelism: int) -> None:
        self.slots = [
            Slot(
                [
                    StateBench.open(
                        name,
                        self.directory,
                        key_groups=key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM),
                        sources=self.sources[name],
                        options=self.options,
                        clock=self.clock,
                    )
                    for name in BACKENDS
                ]
            )
            for slot in range(parallelism)
        ]

    def call(self, name: str, key: str, do: Callable, window: bytes = b"") -> object:
        (slot,) = [slot for slot in self.slots if slot.benches[0].owns(key)]
        return slot.call(name, key, do, window)

    def every_backend(self, do: Callable[[StateBench], object]) -> None:
        for slot in self.slots:
            for bench in slot.benches:
                do(bench)

    def checkpoint(self) -> None:
        """Both backends freeze the same rows."""
        for slot in self.slots:
            for name in NAMES:
                rocksdb, hashmap = (bench.rows(name) for bench in slot.benches)
                assert rocksdb == hashmap
        for index, name in enumerate(BACKENDS):
            self.sources[name] = [
                as_source(slot.benches[index].snapshot(), name) for slot in self.slots
            ]
        self.saved = copy.deepcopy(self.model)

    def restore(self, parallelism: int, form: str = "native") -> None:
        """Fail over: back to the last checkpoint, perhaps with another number of slots.

        Args:
            parallelism: number of slots.
            form: what the backends restore: ``native`` files of their own, those of the ``other``
                backend, or ``canonical`` ones.
        """
        self.every_backend(lambda bench: bench.backend.close())
        self.model = copy.deepcopy(self.saved)
        if form == "other":
            self.sources = dict(zip(BACKENDS, reversed(self.sources.values()), strict=True))
        elif form == "canonical":
            # Of one backend's files, for both of them: they hold the same rows.
            native = self.sources[BACKENDS[parallelism % len(BACKENDS)]]
            canonical = [as_canonical(source, self.directory) for source in native]
            self.sources = dict.fromkeys(BACKENDS, canonical)
        self.open(parallelism)

    def fire(self, time: int) -> None:
        """Fire timers in every slot, in the same order on both backends."""
        fired = []
        for slot in self.slots:
            of_slot = [
                [(timer.timestamp_ms, timer.key) for timer in states["timers"].due(time)]
                for states in slot.states
            ]
            assert of_slot[0] == of_slot[1]
            fired += of_slot[0]
        due = {timer for timer in self.model.timers if timer[0] <= time}
        assert sorted(fired) == sorted(due)
        self.model.timers -= due

    def alive(self, stamp_ms: int) -> bool:
        return stamp_ms + TTL_MS > self.clock.time_ms

    def check(self, key: str) -> None:
        """Compare everything a key has with the model; reading prolongs `seen`."""
        model, now = self.model, self.clock.time_ms
        assert self.call("count", key, lambda s: s.value()) == model.count.get(key)
        assert self.call("pair", key, lambda s: s.value()) == model.pair.get(key)
        assert self.call("items", key, lambda s: s.get()) == model.items.get(key, [])
        entries = sorted(model.entries.get(key, {}).items())
        assert self.call("entries", key, lambda s: list(s.items())) == entries
        assert self.call("total", key, lambda s: s.get()) == model.total.get(key)
        stamp, number = model.seen.get(key, (-TTL_MS, None))
        expected = number if self.alive(stamp) else None
        assert self.call("seen", key, lambda s: s.value()) == expected
        if expected is not None:
            model.seen[key] = (now, number)
        flags = sorted(model.flags.get(key, {}).items())
        expected = [(flag, number) for flag, (stamp, number) in flags if self.alive(stamp)]
        assert self.call("flags", key, lambda s: list(s.items())) == expected
        recent = [number for stamp, number in model.recent.get(key, []) if self.alive(stamp)]
        assert self.call("recent", key, lambda s: s.get()) == recent
        for window in WINDOWS:
            expected = model.panes.get((key, window), [])
            assert self.call("panes", key, lambda s: s.get(), window) == expected

    def close(self) -> None:
        self.every_backend(lambda bench: bench.backend.close())
        shutil.rmtree(self.directory, ignore_errors=True)
