"""The one place that turns a type description into serializers.

``headrace.common.typeinfo`` and the planner call `value_serializer` and `key_serializer`; nobody
constructs a serializer class directly, so that the same type always has the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.serialization.canonical_keys import build_key_serializer
from headrace.serialization.values import build_value_serializer

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
