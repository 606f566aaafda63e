"""Restore of keyed state whose type has changed: as it is, and after rewriting every value.

One backend with one value a key is frozen and restored three ways: as declared before, with a type
whose bytes are the same (a wider integer, an optional field), and with one that needs a migration.
Prints one JSON line last: seconds of the restore until the state is declared, rows a second of the
migration, and bytes that the next incremental checkpoint uploads.

``python bench/state_migration.py [--keys N] [--backend rocksdb|hashmap]``
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.ids import KeyGroup, OperatorUid
from headrace.keygroups import key_group_of_hash, key_group_range_of_slot
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.row import Row
from headrace.serialization.types import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    ClassType,
    RowType,
    TypeDescription,
)
from headrace.state.contract import BackendConfig, RestoreSource
from headrace.state.factory import backend_factory

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.state.contract import KeyedStateBackend, LocalSnapshot

MAX_PARALLELISM = 128


@dataclass
class Account:
    """State of the old program."""

    owner: str
    cents: int
    limit: float


@dataclass
class AccountOptional:
    """Bytes of the old one are bytes of this one."""

    owner: str
    cents: int | None
    limit: float


@dataclass
class AccountLater:
    """A field more."""

    owner: str
    cents: int
    limit: float
    currency: str = "EUR"


ROW = RowType(("owner", "cents", "limit"), (STRING, LONG, DOUBLE))
ROW_LATER = RowType((*ROW.field_names, "currency"), (*ROW.field_types, STRING))


@dataclass(frozen=True)
class Case:
    """A type, its values, one with the same bytes and one that needs a migration."""

    name: str
    old: TypeDescription
    value: Callable[[int], object]
    same: TypeDescription
    changed: TypeDescription


CASES = [
    Case("integer", INT, lambda number: number, LONG, DOUBLE),
    Case("row", ROW, lambda n: Row(owner=f"user-{n}", cents=n, limit=0.5), ROW, ROW_LATER),
    Case(
        "dataclass",
        ClassType(Account),
        lambda n: Account(f"user-{n}", n, 0.5),
        ClassType(AccountOptional),
        ClassType(AccountLater),
    ),
]


class Bench:
    """Backends over one case's state."""

    def __init__(self, backend: str, keys: int, root: Path) -> None:
        self._factory = backend_factory(backend)
        self._keys = keys
        self._root = root
        self._serializer = key_serializer(LONG)

    def _open(self, name: str, sources: tuple[RestoreSource, ...]) -> KeyedStateBackend:
        config: BackendConfig[object] = BackendConfig(
            directory=self._root / name,
            operator_uid=OperatorUid("bench"),
            key_serializer=self._serializer,
            key_group_range=key_group_range_of_slot(0, 1, MAX_PARALLELISM),
            managed_memory_bytes=2 << 30,
        )
        return self._factory.open(config, sources)

    def fill(self, case: Case) -> LocalSnapshot:
        """Return a snapshot of one value a key."""
        backend = self._open(f"{case.name}-old", ())
        state: Any = backend.value_state("v", value_serializer(case.old))
        context = backend.context
        for number in range(self._keys):
            context.key = context.cache_key = number
            hashed = self._serializer.hash64(number)
            context.key_group = KeyGroup(key_group_of_hash(hashed, MAX_PARALLELISM))
            state.update(case.value(number))
        snapshot = backend.snapshot(self._root / f"{case.name}-snapshot")
        backend.close()
        return snapshot

    def restore(
        self, name: str, snapshot: LocalSnapshot, declared: TypeDescription
    ) -> tuple[float, int]:
        """Return seconds until the state is declared, and new bytes of the next snapshot."""
        source = RestoreSource(
            snapshot.directory,
            snapshot.key_group_range,
            snapshot.key_serializer,
            snapshot.schemas,
        )
        started = time.perf_counter()
        backend = self._open(name, (source,))
        backend.value_state("v", value_serializer(declared))
        seconds = time.perf_counter() - started
        later = backend.snapshot(self._root / f"{name}-snapshot")
        backend.close()
        known = {file.path.stat().st_ino for file in snapshot.files if file.shareable}
        new = sum(file.size_bytes for file in later.files if file.path.stat().st_ino not in known)
        return seconds, new


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--backend", default="rocksdb")
    arguments = parser.parse_args()
    report: dict[str, object] = {"bench": "state_migration", "keys": arguments.keys}
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(arguments.backend, arguments.keys, Path(directory))
            snapshot = bench.fill(case)
            as_before, _ = bench.restore("before", snapshot, case.old)
            as_is, as_is_bytes = bench.restore("same", snapshot, case.same)
            migrated, migrated_bytes = bench.restore("changed", snapshot, case.changed)
            report[case.name] = {
                "restore_s": round(as_before, 3),
                "as_is_s": round(as_is, 3),
                "as_is_new_bytes": as_is_bytes,
                "migration_s": round(migrated, 3),
                "migrated_rows_per_s": round(arguments.keys / (migrated - as_before)),
                "migrated_new_bytes": migrated_bytes,
            }
            print(case.name, report[case.name])
    print(json.dumps(report))


if __name__ == "__main__":
    main()
