"""What a checkpoint or savepoint holds: operators by uid and their states, from metadata alone.

Pure: facts are `CheckpointMetadata` with absolute file URIs (`read_stored_state` gets them), and no
state file is opened. Commands, the Spark data source and `headrace.state_processor.compare` all
choose by `StoredOperator` and `StateTable`, so that they name the same things in the same way.

A slot registers a state when its program first asks for it, so a state may be missing in some
slots' files. State without keys lies in the metadata itself (`OperatorStateList`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import InvalidConfigError
from headrace.serialization.described import format_type
from headrace.serialization.keys import CODEC as KEY
from headrace.serialization.keys import UNDECLARED, UNDECLARED_TYPE
from headrace.serialization.registry import described_type
from headrace.serialization.type_text import type_text
from headrace.state.schemas import (
    LIST,
    LIST_CODEC,
    MAP,
    MAP_CODEC,
    TIMERS,
    TTL_CODEC,
    WINDOWS,
    merge_schemas,
    stored_part,
)

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import (
        CheckpointMetadata,
        KeyedStateHandle,
        OperatorStateHandle,
        StateSchema,
    )
    from headrace.ids import OperatorUid

Snapshot = dict[str, object]
"""A serializer snapshot."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """One keyed state of one operator: what to read it with, and where its rows are.

    Attributes:
        uid: the operator.
        key_serializer: snapshot of the operator's key type.
        schema: name, kind and type.
        handles: of every slot that has the state, by key group.
        max_parallelism: number of key groups.
    """

    uid: OperatorUid
    key_serializer: Snapshot
    schema: StateSchema
    handles: tuple[KeyedStateHandle, ...]
    max_parallelism: int

    @property
    def name(self) -> str:
        """The state's name."""
        return self.schema.name

    @property
    def kind(self) -> str:
        """``value``, ``list``, ``map``, ``reducing``, ``aggregating`` or ``timers``."""
        return self.schema.kind

    @property
    def key_type(self) -> str:
        """The type of the keys as people write it."""
        return _text(self.key_serializer)

    @property
    def value_type(self) -> str:
        """The type of values, elements, entries or accumulators as people write it."""
        values = "" if self.kind == TIMERS else _text(value_snapshot(self.schema))
        if self.kind == MAP:
            return f"{_text(stored_part(self.schema.serializer, 'key'))} -> {values}"
        return values

    @property
    def expires(self) -> bool:
        """Whether entries carry the time of their last access (time to live)."""
        return _values(self.schema).get("codec") == TTL_CODEC

    @property
    def windowed(self) -> bool:
        """Whether the state has one entry for each key and window."""
        return self.schema.serializer.get("namespace") == WINDOWS

    @property
    def pickled(self) -> bool:
        """Whether values are pickled, in whole or in part: only the program can read that."""
        return '"evolvable": false' in format_type(self.schema.serializer)


@dataclass(frozen=True, slots=True)
class OperatorStateList:
    """State without keys of one operator: items of all slots under one name.

    Attributes:
        uid: the operator.
        name: of the state.
        mode: ``split``, ``union`` or ``broadcast``.
        serializer: snapshot of the elements' type, of broadcast state those of ``key`` and
            ``value``; empty for state of Headrace's own.
        items: (slot, item) in slot order.
    """

    uid: OperatorUid
    name: str
    mode: str
    serializer: Snapshot
    items: tuple[tuple[int, bytes], ...]

    @property
    def value_type(self) -> str:
        """The type of elements or entries as people write it; empty for state of Headrace's own."""
        if not self.serializer:
            return ""
        if "codec" in self.serializer:
            return _text(self.serializer)
        key, value = (stored_part(self.serializer, part) for part in ("key", "value"))
        return f"{_text(key)} -> {_text(value)}"

    @property
    def pickled(self) -> bool:
        """Whether items are pickled, in whole or in part."""
        return '"evolvable": false' in format_type(self.serializer)

    @property
    def size_bytes(self) -> int:
        """Total length of the items."""
        return sum(len(item) for _, item in self.items)


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """One operator of the program that took the checkpoint.

    Attributes:
        uid: its identity.
        name: as the program named it; empty when only state is known.
        uid_is_generated: whether the program gave none.
        handles: of its keyed state, by key group; none when it has no keyed state.
        tables: its keyed states by name.
        lists: its state without keys by name.
    """

    uid: OperatorUid
    name: str
    uid_is_generated: bool
    handles: tuple[KeyedStateHandle, ...]
    tables: tuple[StateTable, ...]
    lists: tuple[OperatorStateList, ...]

    @property
    def size_bytes(self) -> int:
        """Total size of the files of its keyed state."""
        return sum(file.size_bytes for handle in self.handles for file in handle.files)

    @property
    def backends(self) -> tuple[str, ...]:
        """What wrote its keyed state."""
        return tuple(sorted({handle.backend for handle in self.handles}))

    @property
    def has_state(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.tables or self.lists)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A checkpoint or savepoint as data.

    Attributes:
        path: URI of its directory.
        metadata: with absolute file URIs.
        operators: in the program's order.
    """

    path: str
    metadata: CheckpointMetadata
    operators: tuple[StoredOperator, ...]

    def operator(self, uid: str) -> StoredOperator:
        """Return the operator of a uid.

        Raises:
            InvalidConfigError: there is none; names those that there are.
        """
        found = next((one for one in self.operators if one.uid == uid), None)
        if found is None:
            stateful = [one.uid for one in self.operators if one.has_state]
            msg = (
                "no operator has this uid, choose one that is stored; "
                f"path={self.path} operator={uid!r} operators_with_state={stateful}"
            )
            raise InvalidConfigError(msg)
        return found

    def state(self, uid: str, state: str) -> StateTable | OperatorStateList:
        """Return a state with or without keys by the operator's uid and its name.

        Raises:
            InvalidConfigError: there is none; names the states that there are.
        """
        found = next((one for one in self.operator(uid).lists if one.name == state), None)
        return self.table(uid, state) if found is None else found

    def table(self, uid: str, state: str) -> StateTable:
        """Return a keyed state by the operator's uid and its name.

        Raises:
            InvalidConfigError: there is none; names the states that there are.
        """
        operator = self.operator(uid)
        found = next((table for table in operator.tables if table.name == state), None)
        if found is None:
            msg = (
                "the operator has no keyed state of this name, choose one that is stored; "
                f"path={self.path} operator={uid!r} state={state!r} "
                f"states={[table.name for table in operator.tables]} "
                f"without_keys={[one.name for one in operator.lists]}"
            )
            raise InvalidConfigError(msg)
        return found


def catalog_of(path: str, metadata: CheckpointMetadata) -> StoredState:
    """Return what a checkpoint holds.

    Args:
        path: URI of its directory, for messages.
        metadata: as `headrace.checkpoint.explicit.read_checkpoint_at` returns it.

    Raises:
        IncompatibleStateError: slots disagree on a state's type.
    """
    records = {record.uid: record for record in metadata.operators}
    keyed = [handle for slot in metadata.slots for handle in slot.keyed]
    lists = [handle for slot in metadata.slots for handle in slot.operator]
    # State may belong to nobody whom the metadata lists: event time is kept under a uid of its own.
    uids = dict.fromkeys(
        (*records, *(h.operator_uid for h in keyed), *(h.operator_uid for h in lists))
    )
    operators = []
    for uid in uids:
        record = records.get(uid)
        handles = sorted(
            (handle for handle in keyed if handle.operator_uid == uid),
            key=lambda handle: handle.key_group_start,
        )
        operators.append(
            StoredOperator(
                uid=uid,
                name=record.name if record else "",
                uid_is_generated=record is not None and record.uid_is_generated,
                handles=tuple(handles),
                tables=_tables(uid, handles, metadata.max_parallelism),
                lists=_lists(uid, metadata),
            )
        )
    return StoredState(path, metadata, tuple(operators))


def value_snapshot(schema: StateSchema) -> Snapshot:
    """Return the snapshot of the values, elements or accumulators of a state, without expiry.

    Raises:
        IncompatibleStateError: a newer release wrote it.
    """
    values = _values(schema)
    return stored_part(values, "value") if values.get("codec") == TTL_CODEC else values


def _values(schema: StateSchema) -> Snapshot:
    """Return the snapshot of what rows hold as values, expiry included."""
    part = {(LIST, LIST_CODEC): "element", (MAP, MAP_CODEC): "value"}.get(
        (schema.kind, str(schema.serializer.get("codec")))
    )
    return schema.serializer if part is None else stored_part(schema.serializer, part)


def _text(snapshot: Snapshot) -> str:
    return UNDECLARED if is_undeclared_key(snapshot) else type_text(described_type(snapshot))


def is_undeclared_key(snapshot: Snapshot) -> bool:
    """Return whether a snapshot is of keys whose type no program declared: any canonical value."""
    return snapshot.get("codec") == KEY and snapshot.get("type") == UNDECLARED_TYPE


def _tables(
    uid: OperatorUid, handles: list[KeyedStateHandle], max_parallelism: int
) -> tuple[StateTable, ...]:
    schemas = merge_schemas(handles, uid)
    return tuple(
        StateTable(
            uid=uid,
            key_serializer=handles[0].key_serializer,
            schema=schema,
            handles=tuple(h for h in handles if any(s.name == name for s in h.schemas)),
            max_parallelism=max_parallelism,
        )
        for name, schema in sorted(schemas.items())
    )


def _lists(uid: OperatorUid, metadata: CheckpointMetadata) -> tuple[OperatorStateList, ...]:
    found: dict[tuple[str, str], list[OperatorStateHandle]] = {}
    for slot in metadata.slots:
        for handle in slot.operator:
            if handle.operator_uid == uid:
                found.setdefault((handle.name, handle.mode), []).append(handle)
    return tuple(
        OperatorStateList(
            uid=uid,
            name=name,
            mode=mode,
            serializer=handles[0].serializer,
            items=tuple((handle.slot, item) for handle in handles for item in handle.items),
        )
        for (name, mode), handles in sorted(found.items())
    )
