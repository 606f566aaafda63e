"""Which states a program declares against which states its checkpoint holds (E4-E6).

Pure decisions; `headrace.state.backend` executes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headrace.checkpoint.protocol.types import StateSchema
from headrace.errors import IncompatibleStateError
from headrace.serialization.compatibility import format_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.ids import OperatorUid
    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.contract import RestoreSource

VALUE: Final = "value"
LIST: Final = "list"
MAP: Final = "map"
REDUCING: Final = "reducing"
AGGREGATING: Final = "aggregating"
TIMERS: Final = "timers"

LIST_CODEC: Final = "list/1"
MAP_CODEC: Final = "map/1"
WINDOWS: Final = "window/1"
"""Names of byte formats in stored snapshots."""

TIMERS_CODEC: Final = "timers/1"


class StateFormat(Protocol):
    """What a state's rows hold; every `TypeSerializer` is one."""

    def snapshot(self) -> dict[str, object]:
        """Return a JSON-able description."""
        ...

    def incompatibility(self, stored: dict[str, object]) -> str | None:
        """Return why rows of snapshot ``stored`` cannot be read, or None."""
        ...


@dataclass(frozen=True, slots=True)
class ListFormat:
    """Rows of a list state: `headrace.state.list_rows`."""

    element: StateFormat

    def snapshot(self) -> dict[str, object]:
        """Return codec and the elements' snapshot."""
        return {"codec": LIST_CODEC, "element": self.element.snapshot()}

    def incompatibility(self, stored: dict[str, object]) -> str | None:
        """Return why stored lists cannot be read, or None."""
        if stored.get("codec") != LIST_CODEC:
            return f"the codecs differ; stored={stored.get('codec')} declared={LIST_CODEC}"
        return _part("element", self.element, stored)


@dataclass(frozen=True, slots=True)
class MapFormat:
    """Rows of a map state: `headrace.state.map_state`."""

    key: StateFormat
    value: StateFormat

    def snapshot(self) -> dict[str, object]:
        """Return codec and the snapshots of keys and values."""
        return {"codec": MAP_CODEC, "key": self.key.snapshot(), "value": self.value.snapshot()}

    def incompatibility(self, stored: dict[str, object]) -> str | None:
        """Return why stored maps cannot be read, or None."""
        if stored.get("codec") != MAP_CODEC:
            return f"the codecs differ; stored={stored.get('codec')} declared={MAP_CODEC}"
        return _part("key", self.key, stored) or _part("value", self.value, stored)


class TimerFormat:
    """Rows of timers: `headrace.state.rows`."""

    def snapshot(self) -> dict[str, object]:
        """Return the codec."""
        return {"codec": TIMERS_CODEC}

    def incompatibility(self, stored: dict[str, object]) -> str | None:
        """Return why stored timers cannot be read, or None."""
        codec = stored.get("codec")
        return None if codec == TIMERS_CODEC else f"the codecs differ; stored={codec}"


def _part(name: str, declared: StateFormat, stored: dict[str, object]) -> str | None:
    part = stored.get(name)
    if not isinstance(part, dict):
        return f"the stored type of each {name} is not understood; stored={part!r}"
    reason = declared.incompatibility(part)
    return None if reason is None else f"{name}: {reason}"


def build_schema(name: str, kind: str, rows: StateFormat, *, namespaced: bool) -> StateSchema:
    """Return what a checkpoint keeps of a declared state."""
    snapshot = rows.snapshot()
    return StateSchema(name, kind, snapshot | {"namespace": WINDOWS} if namespaced else snapshot)


def merge_schemas(sources: Iterable[RestoreSource], uid: OperatorUid) -> dict[str, StateSchema]:
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
    sources: Iterable[RestoreSource], keys: TypeSerializer[object], uid: OperatorUid
) -> None:
    """Assert that keys of the sources are found under the program's key type.

    Raises:
        IncompatibleStateError: they are not.
    """
    for source in sources:
        reason = keys.incompatibility(source.key_serializer)
        if reason is not None:
            msg = (
                f"the key type changed, restore with the old one or start without state: {reason}; "
                f"operator={uid} stored={format_type(source.key_serializer)} "
                f"declared={format_type(keys.snapshot())}"
            )
            raise IncompatibleStateError(msg)


def check_state(stored: StateSchema, declared: StateSchema, reason: str | None, uid: str) -> None:
    """Assert that a restored state can be read as it is now declared.

    Args:
        stored: from the checkpoint.
        declared: from the program.
        reason: what the declared serializer says against the stored one.
        uid: the operator's uid.

    Raises:
        IncompatibleStateError: it cannot.
    """
    if stored.serializer.get("namespace") != declared.serializer.get("namespace"):
        reason = "the state of keys became one of windows, or the other way round"
    if stored.kind != declared.kind:
        reason = f"the kind changed from {stored.kind} to {declared.kind}"
    if reason is not None:
        msg = (
            "stored state cannot be read as the program declares it, restore the old declaration "
            f"or give the new one another name: {reason}; operator={uid} state={stored.name} "
            f"stored={_text(stored)} declared={_text(declared)}"
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
