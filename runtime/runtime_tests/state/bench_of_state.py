"""A backend on a test bench: keys are selected by value, snapshots become restore sources."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.ids import KeyGroup, OperatorUid
from headrace.keygroups import KeyGroupRange, key_group_of_hash, key_group_range_of_slot
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.serializer import KeySerializer
from headrace.serialization.types import LONG, STRING, TypeDescription
from headrace.state.access import (
    PLAIN,
    FoldingAccess,
    ListStateAccess,
    MapStateAccess,
    StateTraits,
    ValueStateAccess,
)
from headrace.state.canonical import write_canonical_files
from headrace.state.contract import (
    BackendConfig,
    KeyedStateBackend,
    LocalSnapshot,
    RestoreSource,
    TimerQueue,
)
from headrace.state.factory import backend_factory
from headrace.state.memory import SlotMemory
from headrace.state.stored import CANONICAL, open_stored_rows

MAX_PARALLELISM = 16
"""Small, so that walks over all key groups are short."""

SHARED_MEMORY = Path("/dev/shm")
SCRATCH = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
"""Files of a test live for milliseconds; the disk would be most of its time."""

STRING_KEYS = key_serializer(STRING)

_NUMBERS = itertools.count()


class ManualClock:
    """Time that tests move."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_s(self) -> float:
        return self.time_ms / 1000

    def wait(self, event: object, timeout_s: float) -> bool:
        raise AssertionError


def all_key_groups(max_parallelism: int = MAX_PARALLELISM) -> KeyGroupRange:
    return key_group_range_of_slot(0, 1, max_parallelism)


@dataclass
class StateBench:
    """One open backend with its key type and directory."""

    backend: KeyedStateBackend
    config: BackendConfig
    root: Path
    name: str

    @classmethod
    def open(
        cls,
        name: str,
        root: Path,
        *,
        keys: TypeDescription = STRING,
        key_groups: KeyGroupRange | None = None,
        sources: Sequence[RestoreSource] = (),
        memory_bytes: int = 16 << 20,
        options: dict[str, str] | None = None,
        clock: ManualClock | None = None,
        memory: SlotMemory | None = None,
        allow_non_restored_state: bool = False,
    ) -> "StateBench":
        config = BackendConfig(
            directory=root / f"work-{next(_NUMBERS)}",
            operator_uid=OperatorUid("counter"),
            key_serializer=key_serializer(keys),
            key_group_range=key_groups or all_key_groups(),
            managed_memory_bytes=memory_bytes,
            memory=memory,
            options=options or {},
            clock=clock or ManualClock(),
            allow_non_restored_state=allow_non_restored_state,
        )
        return cls(backend_factory(name).open(config, sources), config, root, name)

    def key_group(self, key: object) -> KeyGroup:
        return key_group_of(key, self.config.key_serializer)

    def select(self, key: object, key_group: int | None = None) -> None:
        """Make ``key`` the current key, as the record loop does."""
        serializer = self.config.key_serializer
        context = self.backend.context
        context.key = serializer.coerce(key)
        context.cache_key = serializer.cache_key(context.key)
        context.key_group = self.key_group(key) if key_group is None else KeyGroup(key_group)

    def owns(self, key: object) -> bool:
        return self.key_group(key) in self.config.key_group_range

    @property
    def clock(self) -> ManualClock:
        return self.config.clock

    def enter(self, key: object, namespace: bytes) -> None:
        """Make ``key`` in ``namespace`` current for namespaced state."""
        self.select(key)
        self.backend.namespace_context.enter(self.backend.context, namespace)

    def values(
        self,
        name: str = "count",
        type_: TypeDescription = LONG,
        traits: StateTraits = PLAIN,
    ) -> ValueStateAccess:
        return self.backend.value_state(name, value_serializer(type_), traits)

    def lists(
        self,
        name: str = "items",
        type_: TypeDescription = LONG,
        traits: StateTraits = PLAIN,
    ) -> ListStateAccess:
        return self.backend.list_state(name, value_serializer(type_), traits)

    def maps(
        self,
        name: str = "entries",
        types: tuple[TypeDescription, TypeDescription] = (STRING, LONG),
        traits: StateTraits = PLAIN,
    ) -> MapStateAccess:
        key, value = types
        return self.backend.map_state(name, key_serializer(key), value_serializer(value), traits)

    def reducing(
        self,
        reduce,
        name: str = "total",
        type_: TypeDescription = LONG,
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess:
        return self.backend.reducing_state(name, value_serializer(type_), reduce, traits)

    def aggregating(
        self,
        function,
        name: str = "mean",
        type_: TypeDescription = LONG,
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess:
        return self.backend.aggregating_state(name, value_serializer(type_), function, traits)

    def timers(self, name: str = "_event_timers", *, namespaced: bool = False) -> TimerQueue:
        return self.backend.timers(name, namespaced=namespaced)

    def rows(self, name: str) -> list[tuple[bytes, bytes]]:
        """All stored rows of a state."""
        return list(self.backend.scan(name, self.config.key_group_range))

    def put(self, entries: dict[object, object], name: str = "count") -> None:
        state = self.values(name)
        for key, value in entries.items():
            self.select(key)
            state.update(value)

    def read(self, keys: Iterable[object], name: str = "count") -> dict[object, object]:
        """Values of those ``keys`` that have one."""
        values = self.read_all(self.values(name), keys)
        return {key: value for key, value in values.items() if value is not None}

    def read_all(self, state: ValueStateAccess, keys: Iterable[object]) -> dict[object, object]:
        values = {}
        for key in keys:
            self.select(key)
            values[key] = state.value()
        return values

    def register(self, timers: Iterable[tuple[int, object]], name: str = "_event_timers") -> None:
        queue = self.timers(name)
        for timestamp_ms, key in timers:
            self.select(key)
            queue.register(timestamp_ms)

    def fire(self, up_to_ms: int, name: str = "_event_timers") -> list[tuple[int, object]]:
        return [(timer.timestamp_ms, timer.key) for timer in self.timers(name).due(up_to_ms)]

    def evict(self) -> None:
        """Write everything and forget what is cached."""
        self.backend.flush()
        for cache in self.backend._caches:
            budget = cache._budget_bytes
            cache.set_budget(0)
            cache.maintain()
            cache.maintain()
            cache.set_budget(budget)

    def snapshot(self) -> LocalSnapshot:
        return self.backend.snapshot(self.root / f"snapshot-{next(_NUMBERS)}")

    def freeze(self) -> RestoreSource:
        """Take a snapshot and close the backend, as at the end of an attempt."""
        source = as_source(self.snapshot(), self.name)
        self.backend.close()
        return source


def key_group_of(
    key: object,
    serializer: KeySerializer = STRING_KEYS,
    max_parallelism: int = MAX_PARALLELISM,
) -> KeyGroup:
    return key_group_of_hash(serializer.hash64(serializer.coerce(key)), max_parallelism)


def as_source(snapshot: LocalSnapshot, backend: str | None = None) -> RestoreSource:
    return RestoreSource(
        snapshot.directory,
        snapshot.key_group_range,
        snapshot.key_serializer,
        snapshot.schemas,
        backend,
    )


def as_canonical(source: RestoreSource, root: Path) -> RestoreSource:
    """The same state in canonical files."""
    directory = root / f"canonical-{next(_NUMBERS)}"
    directory.mkdir()
    stored = open_stored_rows(source, root / f"reading-{next(_NUMBERS)}")
    write_canonical_files(source, stored, directory)
    stored.close()
    return renamed(source, directory=directory, backend=CANONICAL)


def renamed(source: RestoreSource, **changes) -> RestoreSource:
    return replace(source, **changes)


def one_key_per_group(max_parallelism: int = MAX_PARALLELISM) -> list[str]:
    """The first key of each key group, by key group."""
    keys: dict[int, str] = {}
    for number in itertools.count():
        key = f"key-{number}"
        keys.setdefault(key_group_of(key, max_parallelism=max_parallelism), key)
        if len(keys) == max_parallelism:
            return [keys[group] for group in range(max_parallelism)]
    raise AssertionError
