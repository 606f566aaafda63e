"""The states that an operator has restored and declared, by name (B12, E4-E6, T20).

What a checkpoint holds stays until it is known what the program makes of it: a restored state that
is not declared is refused by name or dropped, never kept without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import IncompatibleStateError, InvalidProgramError
from headrace.serialization.compatibility import Verdict, of_value
from headrace.state.schemas import build_schema, check_state, refuse_undeclared, undeclared

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.ids import OperatorUid
    from headrace.serialization.compatibility import Compatibility
    from headrace.state.access import StateTraits
    from headrace.state.schemas import StateFormat


@dataclass(frozen=True, slots=True)
class Known:
    """The state was declared before, in the same way."""


@dataclass(frozen=True, slots=True)
class New:
    """The state is new to the program; what is stored of it, if anything, can be read."""


@dataclass(frozen=True, slots=True)
class Migrate:
    """The state is new to the program, and its stored rows must be rewritten.

    Attributes:
        stored: snapshot of the rows' format.
        found: what changed.
    """

    stored: dict[str, object]
    found: Compatibility


Declared = Known | New | Migrate


class Registration:
    """Schemas and traits of one operator's states.

    Args:
        restored: schemas of the restored states by name.
        uid: the operator, for messages.
    """

    def __init__(self, restored: dict[str, StateSchema], uid: OperatorUid) -> None:
        self._restored = restored
        self._uid = uid
        self._declared: dict[str, StateSchema] = {}
        self._traits: dict[str, StateTraits] = {}

    def declare(self, name: str, kind: str, rows: StateFormat, traits: StateTraits) -> Declared:
        """Take note of a declaration; return what is to be done about it.

        Raises:
            InvalidProgramError: it has no name.
            IncompatibleStateError: a restored or declared state of this name is another one.
        """
        if not name:
            msg = f"a state needs a name; operator={self._uid}"
            raise InvalidProgramError(msg)
        schema = build_schema(name, kind, rows, namespaced=traits.namespaced)
        known = self._declared.get(name)
        if known is not None:
            same = known.serializer == schema.serializer
            verdict = Verdict.AS_IS if same else Verdict.INCOMPATIBLE
            check_state(known, schema, of_value(verdict, "", "", "declared twice"), self._uid)
            if traits != self._traits[name]:
                msg = (
                    "a state was declared twice with different expiry, declare it once; "
                    f"operator={self._uid} state={name}"
                )
                raise IncompatibleStateError(msg)
            return Known()
        outcome: Declared = New()
        stored = self._restored.get(name)
        if stored is not None:
            found = rows.compatibility(stored.serializer)
            check_state(stored, schema, found, self._uid)
            if found.verdict is Verdict.AFTER_MIGRATION:
                outcome = Migrate(stored.serializer, found)
        self._declared[name] = schema
        self._traits[name] = traits
        return outcome

    def settle(self, *, allow_non_restored_state: bool) -> list[str]:
        """Return the restored states to drop, because the program does not declare them.

        Raises:
            IncompatibleStateError: there are some, and they may not be dropped; names them.
        """
        names = undeclared(self._restored, self._declared)
        if names and not allow_non_restored_state:
            refuse_undeclared(names, self._declared, self._uid)
        for name in names:
            del self._restored[name]
        return names

    def __contains__(self, name: str) -> bool:
        return name in self._restored or name in self._declared

    def schemas(self) -> tuple[StateSchema, ...]:
        """Return what a checkpoint keeps, by name; restored states that nobody asked for too."""
        known = self._restored | self._declared
        return tuple(known[name] for name in sorted(known))
