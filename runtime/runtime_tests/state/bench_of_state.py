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
from headrace.state.contract import (
    BackendConfig,
    KeyedStateBackend,
    LocalSnapshot,
    RestoreSource,
    TimerQueue,
    ValueStateAccess,
)
from headrace.state.factory import backend_factory

MAX_PARALLELISM = 16
"""Small, so that walks over all key groups are short."""

STRING_KEYS = key_serializer(STRING)

_NUMBERS = itertools.count()


def all_key_groups(max_parallelism: int = MAX_PARALLELISM) -> KeyGroupRange:
    return key_group_range_of_slot(0, 1, max_parallelism)


@dataclass
class StateBench:
    """One open backend with its key type and directory."""

    backend: KeyedStateBackend
    config: BackendConfig
    root: Path

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
        allow_non_restored_state: bool = False,
    ) -> "StateBench":
        config = BackendConfig(
            directory=root / f"work-{next(_NUMBERS)}",
            operator_uid=OperatorUid("counter"),
            key_serializer=key_serializer(keys),
            key_group_range=key_groups or all_key_groups(),
            managed_memory_bytes=memory_bytes,
            options=options or {},
            allow_non_restored_state=allow_non_restored_state,
        )
        return cls(backend_factory(name).open(config, sources), config, root)

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

    def values(self, name: str = "count", type_: TypeDescription = LONG) -> ValueStateAccess:
        return self.backend.value_state(name, value_serializer(type_))

    def timers(self, name: str = "_event_timers") -> TimerQueue:
        return self.backend.timers(name)

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

    def snapshot(self) -> LocalSnapshot:
        return self.backend.snapshot(self.root / f"snapshot-{next(_NUMBERS)}")

    def freeze(self) -> RestoreSource:
        """Take a snapshot and close the backend, as at the end of an attempt."""
        source = as_source(self.snapshot())
        self.backend.close()
        return source


def key_group_of(
    key: object,
    serializer: KeySerializer = STRING_KEYS,
    max_parallelism: int = MAX_PARALLELISM,
) -> KeyGroup:
    return key_group_of_hash(serializer.hash64(serializer.coerce(key)), max_parallelism)


def as_source(snapshot: LocalSnapshot) -> RestoreSource:
    return RestoreSource(
        snapshot.directory,
        snapshot.key_group_range,
        snapshot.key_serializer,
        snapshot.schemas,
    )


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
