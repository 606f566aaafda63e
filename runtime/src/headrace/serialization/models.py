"""Pydantic models as stored types: their fields, and models from fields.

Values are taken and made without running validators again: what was stored comes back as it was,
also when a validator changes its input or has become stricter. pydantic is imported only when a
program's own class already did.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pydantic


@dataclass(frozen=True, slots=True)
class ModelField:
    """One field of a model.

    Attributes:
        name: attribute and stored name; aliases are of JSON, not of stored state.
        hint: its annotation without metadata.
        metadata: what ``Annotated`` gave it.
        required: whether it has no default.
    """

    name: str
    hint: Any
    metadata: tuple[object, ...]
    required: bool


def model_fields(python_class: type) -> list[ModelField] | None:
    """Return the fields of a pydantic model, None when it is none.

    Raises:
        InvalidProgramError: a model with parts that are not declared fields.
    """
    model = _as_model(python_class)
    if model is None:
        return None
    name = f"{model.__module__}:{model.__qualname__}"
    if model.model_config.get("extra") == "allow":
        msg = f"a model that allows undeclared fields cannot be stored; class={name}"
        raise InvalidProgramError(msg)
    private = model.__private_attributes__
    if private:
        msg = (
            "private attributes of a model would be lost, make them fields; "
            f"class={name} attributes={sorted(private)}"
        )
        raise InvalidProgramError(msg)
    return [
        ModelField(name, info.annotation, tuple(info.metadata), info.is_required())
        for name, info in model.model_fields.items()
    ]


def model_maker(python_class: type) -> Callable[[dict[str, object]], object]:
    """Return the function that makes a model of its fields; missing ones get their defaults."""
    model = _as_model(python_class)
    if model is None:
        msg = f"not a pydantic model; class={python_class.__qualname__}"
        raise TypeError(msg)
    construct: Callable[..., object] = model.model_construct
    fields_of_model = set(model.model_fields)
    assign = object.__setattr__

    def make(fields: dict[str, object]) -> object:
        if len(fields) < len(fields_of_model):
            return construct(**fields)
        # As `model_construct` does, without its looks at aliases and defaults, which cost 5 µs.
        made = model.__new__(model)
        assign(made, "__dict__", fields)
        assign(made, "__pydantic_fields_set__", fields_of_model.copy())
        assign(made, "__pydantic_extra__", None)
        assign(made, "__pydantic_private__", None)
        return made

    return make


def _as_model(python_class: type) -> type[pydantic.BaseModel] | None:
    pydantic_module = sys.modules.get("pydantic")
    if pydantic_module is None or not isinstance(python_class, type):
        return None
    base: type[pydantic.BaseModel] = pydantic_module.BaseModel
    return python_class if issubclass(python_class, base) else None
