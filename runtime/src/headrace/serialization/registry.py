"""The one place that turns a type description into serializers.

``headrace.common.typeinfo`` and the planner call `value_serializer` and `key_serializer`; nobody
constructs a serializer class directly, so that the same type always has the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import IncompatibleStateError
from headrace.serialization.canonical_keys import build_key_serializer
from headrace.serialization.described import parse
from headrace.serialization.keys import CODEC as KEY
from headrace.serialization.keys import UNDECLARED_TYPE
from headrace.serialization.types import PICKLED
from headrace.serialization.values import (
    MSGPACK,
    PICKLE,
    build_value_serializer,
)

if TYPE_CHECKING:
    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.serialization.types import TypeDescription


def value_serializer(description: TypeDescription) -> TypeSerializer[object]:
    """Return the serializer of values of a described type.

    Raises:
        InvalidProgramError: the type cannot be stored (e.g. a class without known fields).
    """
    return build_value_serializer(description)


def key_serializer(description: TypeDescription) -> KeySerializer[object]:
    """Return the canonical serializer of keys of a described type.

    `PICKLED` (nothing declared) gives the type-tagged canonical codec.

    Raises:
        InvalidProgramError: values of this type have no canonical bytes (list, map, class).
    """
    return build_key_serializer(description)


def described_type(snapshot: dict[str, object]) -> TypeDescription:
    """Return the type of a stored snapshot, of values or keys; classes are records of fields.

    Raises:
        IncompatibleStateError: it is not understood; a newer release wrote it.
    """
    if snapshot.get("codec") not in {MSGPACK, PICKLE, KEY}:
        msg = f"a stored codec is unknown, read it with the release that wrote it; {snapshot=}"
        raise IncompatibleStateError(msg)
    described = snapshot.get("type")
    return PICKLED if described == UNDECLARED_TYPE else parse(described)


def serializer_from_snapshot(snapshot: dict[str, object]) -> TypeSerializer[object]:
    """Return a serializer of what a checkpoint's snapshot describes, without the program's classes.

    Its bytes are those of the declared type; its values are plain: a class is a dict of its fields,
    an enum its value, a pickle its bytes, all else is as in a program. Snapshots of keys give key
    serializers.

    Raises:
        IncompatibleStateError: the snapshot is not understood; a newer release wrote it.
    """
    description = described_type(snapshot)
    if snapshot.get("codec") == KEY:
        return build_key_serializer(description)
    return build_value_serializer(description)
