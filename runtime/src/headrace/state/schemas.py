"""Which states a program declares against which states its checkpoint holds (E4-E6).

Pure decisions; `headrace.state.backend` executes them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headrace.checkpoint.protocol.types import StateSchema
from headrace.errors import IncompatibleStateError
from headrace.serialization.compatibility import (
    Compatibility,
    Verdict,
    of_parts,
    of_value,
)
from headrace.serialization.described import format_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.ids import OperatorUid
    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.contract import StoredTypes

log = logging.getLogger(__name__)

VALUE: Final = "value"
LIST: Final = "list"
MAP: Final = "map"
REDUCING: Final = "reducing"
AGGREGATING: Final = "aggregating"
TIMERS: Final = "timers"

LIST_CODEC: Final = "list/1"
MAP_CODEC: Final = "map/1"
TTL_CODEC: Final = "ttl/1"
WINDOWS: Final = "window/1"
"""Names of byte formats in stored snapshots."""

TIMERS_CODEC: Final = "timers/1"


class StateFormat(Protocol):
    """What the values of a state's rows hold; every `TypeSerializer` is one."""

    def snapshot(self) -> dict[str, object]:
        """Return a JSON-able description."""
        ...

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of rows of snapshot ``stored``."""
        ...

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function a stored value -> a value of this format.

        Of lists an element's bytes (`headrace.state.migration`).
        """
        ...


@dataclass(frozen=True, slots=True)
class ListFormat:
    """Rows of a list state: `headrace.state.list_rows`."""

    element: StateFormat

    def snapshot(self) -> dict[str, object]:
        """Return codec and the elements' snapshot."""
        return {"codec": LIST_CODEC, "element": self.element.snapshot()}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of stored lists."""
        if stored.get("codec") != LIST_CODEC:
            return other_codec(stored, LIST_CODEC)
        return of_parts([_part("element", self.element, stored)])

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function of an element's bytes."""
        return self.element.migration(stored_part(stored, "element"))


@dataclass(frozen=True, slots=True)
class MapFormat:
    """Rows of a map state: `headrace.state.map_state`."""

    key: StateFormat
    value: StateFormat

    def snapshot(self) -> dict[str, object]:
        """Return codec and the snapshots of keys and values."""
        return {"codec": MAP_CODEC, "key": self.key.snapshot(), "value": self.value.snapshot()}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of stored maps; their keys never migrate."""
        if stored.get("codec") != MAP_CODEC:
            return other_codec(stored, MAP_CODEC)
        return of_parts([_part("key", self.key, stored), _part("value", self.value, stored)])

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function of an entry's value."""
        part = stored_part(stored, "value")
        convert = self.value.migration(part)
        if TTL_CODEC in (part.get("codec"), self.value.snapshot().get("codec")):
            return convert
        # No bytes are the value None, in every type.
        return lambda value: convert(value) if value else value


class TimerFormat:
    """Rows of timers: `headrace.state.rows`."""

    def snapshot(self) -> dict[str, object]:
        """Return the codec."""
        return {"codec": TIMERS_CODEC}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return that timers stay timers."""
        if stored.get("codec") != TIMERS_CODEC:
            return other_codec(stored, TIMERS_CODEC)
        return of_value(Verdict.AS_IS, TIMERS_CODEC, TIMERS_CODEC)

    def migration(self, _stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Timers have no values."""
        return lambda value: value


def other_codec(stored: dict[str, object], declared: str) -> Compatibility:
    """Return that rows of another codec cannot be read."""
    codec = stored.get("codec")
    note = f"the codecs differ; stored={codec} declared={declared}"
    return of_value(Verdict.INCOMPATIBLE, str(codec), declared, note)


def stored_part(stored: dict[str, object], name: str) -> dict[str, object]:
    """Return the snapshot of a part of a stored format.

    Raises:
        IncompatibleStateError: there is none; a newer release wrote it.
    """
    part = stored.get(name)
    if isinstance(part, dict):
        return part
    msg = f"the stored type of each {name} is not understood; stored={part!r}"
    raise IncompatibleStateError(msg)


def _part(name: str, declared: StateFormat, stored: dict[str, object]) -> tuple[str, Compatibility]:
    return name, declared.compatibility(stored_part(stored, name))


def build_schema(name: str, kind: str, rows: StateFormat, *, namespaced: bool) -> StateSchema:
    """Return what a checkpoint keeps of a declared state."""
    snapshot = rows.snapshot()
    return StateSchema(name, kind, snapshot | {"namespace": WINDOWS} if namespaced else snapshot)


def warn_of_pickles(name: str, rows: StateFormat, uid: str) -> None:
    """Say once, when a state is registered, what it costs that its type was not declared (B34)."""
    if '"evolvable": false' in format_type(rows.snapshot()):
        log.warning(
            "state is pickled, in whole or in part: slower, unreadable without the program, and "
            "lost when a class in it moves; declare its type operator=%s state=%s",
            uid,
            name,
        )


def merge_schemas(sources: Iterable[StoredTypes], uid: OperatorUid) -> dict[str, StateSchema]:
    """Return the states of all sources of one operator by name.

    A slot registers a state when its program first asks for it, so a source may lack one.

    Raises:
        IncompatibleStateError: two sources disagree on a state's kind or type.
    """
    merged: dict[str, StateSchema] = {}
    for source in sources:
        for schema in source.schemas:
            known = merged.setdefault(schema.name, schema)
            if known != schema:
                msg = (
                    "slots of one checkpoint stored a state with different types, restore from "
                    f"another checkpoint; operator={uid} state={schema.name} "
                    f"one={_text(known)} other={_text(schema)}"
                )
                raise IncompatibleStateError(msg)
    return merged


def check_key_type(
    sources: Iterable[StoredTypes], keys: TypeSerializer[object], uid: OperatorUid
) -> None:
    """Assert that keys of the sources are found under the program's key type.

    Raises:
        IncompatibleStateError: they are not.
    """
    for source in sources:
        found = keys.compatibility(source.key_serializer)
        if found.verdict is not Verdict.AS_IS:
            msg = (
                "the key type changed, restore with the old one or start without state: "
                f"{found.reason}; operator={uid} stored={format_type(source.key_serializer)} "
                f"declared={format_type(keys.snapshot())}"
            )
            raise IncompatibleStateError(msg)


def check_state(stored: StateSchema, declared: StateSchema, found: Compatibility, uid: str) -> None:
    """Assert that a restored state can be read, or migrated, as it is now declared.

    Args:
        stored: from the checkpoint.
        declared: from the program.
        found: what the declared format says against the stored one.
        uid: the operator's uid.

    Raises:
        IncompatibleStateError: it cannot; prints both types field by field.
    """
    reason = None
    if found.verdict is Verdict.INCOMPATIBLE:
        reason = found.reason
    if stored.serializer.get("namespace") != declared.serializer.get("namespace"):
        reason = "the state of keys became one of windows, or the other way round"
    if stored.kind != declared.kind:
        reason = f"the kind changed from {stored.kind} to {declared.kind}"
    if reason is not None:
        msg = (
            "stored state cannot be read as the program declares it, restore the old declaration "
            "or give the new one another name (docs/types.md says what may change): "
            f"{reason}; operator={uid} state={stored.name} "
            f"stored={_text(stored)} declared={_text(declared)}\n{found.table()}"
        )
        raise IncompatibleStateError(msg)


def undeclared(restored: Iterable[str], declared: Iterable[str]) -> list[str]:
    """Return the restored states that the program did not declare, sorted."""
    return sorted(set(restored) - set(declared))


def refuse_undeclared(names: list[str], declared: Iterable[str], uid: str) -> None:
    """Raise the error that names restored states without a declaration (E5, T20).

    Raises:
        IncompatibleStateError: always.
    """
    msg = (
        "the checkpoint holds states that the program does not declare in open(); was one renamed? "
        "declare them, or set allowNonRestoredState to drop them; "
        f"operator={uid} states={names} declared={sorted(declared)}"
    )
    raise IncompatibleStateError(msg)


def _text(schema: StateSchema) -> str:
    return f"{schema.kind} {format_type(schema.serializer)}"
