"""From the JSON schema that pydantic emits to a structural schema, or an error.

Structural schemas know no ``$ref``, no ``anyOf`` over types, no ``title`` and no
``additionalProperties: false`` beside ``properties``. So references are inlined, ``X | None``
becomes an optional X, what carries no meaning is dropped, and everything else is refused: a schema
that was quietly weakened would let the API server accept what the operator does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from headrace.errors import InternalError

Schema = dict[str, JsonValue]

_KEPT: Final = frozenset(
    {
        "default",
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
_NESTED: Final = frozenset({"additionalProperties", "const", "items", "properties"})
_DROPPED: Final = frozenset({"$defs", "title", "examples"})
_TYPES: Final = frozenset({"array", "boolean", "integer", "number", "object", "string"})


def structural_schema(json_schema: Mapping[str, JsonValue]) -> Schema:
    """Return the structural schema of one resource.

    Args:
        json_schema: ``Model.model_json_schema(by_alias=True)``.

    Raises:
        InternalError: a construct that a structural schema cannot express; the message names it.
    """
    definitions = json_schema.get("$defs", {})
    if not isinstance(definitions, dict):
        raise _refused("$defs must be an object", "$")
    return _Converter(definitions).convert(json_schema, "$", ())


def _refused(what: str, path: str) -> InternalError:
    return InternalError(
        f"a structural schema cannot express this, change the model; {what} at={path}"
    )


class _Converter:
    def __init__(self, definitions: Mapping[str, JsonValue]) -> None:
        self._definitions = definitions

    def convert(self, schema: Mapping[str, JsonValue], path: str, seen: tuple[str, ...]) -> Schema:
        """Convert one node; ``seen`` holds the references that led here."""
        if "$ref" in schema:
            return self._inline(schema, path, seen)
        for union in ("anyOf", "oneOf", "allOf"):
            if union in schema:
                return self._flatten(schema, union, path, seen)
        unknown = schema.keys() - _KEPT - _DROPPED - _NESTED
        if unknown:
            raise _refused(f"keywords={sorted(unknown)}", path)
        result: Schema = {key: value for key, value in schema.items() if key in _KEPT}
        if "properties" in schema:
            result["properties"] = self._properties(schema["properties"], path, seen)
        if "items" in schema:
            result["items"] = self.convert(_object(schema["items"], path), f"{path}[]", seen)
        if "additionalProperties" in schema:
            values = self._additional(schema, path, seen)
            if values is not None:
                result["additionalProperties"] = values
        if "const" in schema:
            result["enum"] = [schema["const"]]
        return _checked(_tidied(result), path)

    def _inline(self, schema: Mapping[str, JsonValue], path: str, seen: tuple[str, ...]) -> Schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name in seen:
            raise _refused(f"recursion={name}", path)
        target = _object(self._definitions[name], path)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.convert({**target, **beside}, path, (*seen, name))

    def _flatten(
        self, schema: Mapping[str, JsonValue], union: str, path: str, seen: tuple[str, ...]
    ) -> Schema:
        """``X | None`` becomes X; the API server prunes an explicit null of an optional field."""
        variants = schema[union]
        if not isinstance(variants, list):
            raise _refused(f"keyword={union}", path)
        real = [variant for variant in variants if variant != {"type": "null"}]
        if len(real) != 1:
            raise _refused(f"{union} of {len(real)} types", path)
        beside = {key: value for key, value in schema.items() if key != union}
        return self.convert({**_object(real[0], path), **beside}, path, seen)

    def _properties(self, value: JsonValue, path: str, seen: tuple[str, ...]) -> Schema:
        return {
            name: self.convert(_object(child, path), f"{path}.{name}", seen)
            for name, child in _object(value, path).items()
        }

    def _additional(
        self, schema: Mapping[str, JsonValue], path: str, seen: tuple[str, ...]
    ) -> Schema | None:
        """``false`` is what the API server does anyway; a schema speaks of a map's values."""
        value = schema["additionalProperties"]
        if value is False or schema.get("x-kubernetes-preserve-unknown-fields") is True:
            return None
        if value is True or "properties" in schema:
            raise _refused("open object, add x-kubernetes-preserve-unknown-fields", path)
        return self.convert(_object(value, path), f"{path}{{}}", seen)


def _object(value: JsonValue, path: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _refused("expected a schema object", path)
    return value


def _tidied(schema: Schema) -> Schema:
    """Put descriptions on one line and defaults into the form that the API server applies."""
    if isinstance(text := schema.get("description"), str):
        schema["description"] = " ".join(text.split())
    if "default" in schema:
        # Written out in full: rules are checked against a default before children get theirs.
        default = _without_nulls(schema["default"])
        if default is None:
            del schema["default"]
        else:
            schema["default"] = default
    return schema


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return value


def _checked(schema: Schema, path: str) -> Schema:
    if "x-kubernetes-int-or-string" in schema:
        return schema
    if schema.get("type") not in _TYPES:
        raise _refused(f"type={schema.get('type')}", path)
    if schema["type"] == "array" and "items" not in schema:
        raise _refused("array without items", path)
    return schema
