"""Digests of a spec: one for each field that differs from its default, and one for all of them.

A field at its default has no digest. So a later release may add fields without making every job
look changed, and an operator upgrade restarts nothing (OP24). Fields whose change has no effect on
processes are no part of the total, which a driver pod carries as annotation.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from headrace.api.v1alpha1 import Effect, StreamJobSpec, field_effects

RESTART_FIELD: Final = "metadata.annotations.restartedAt"
"""The restart annotation counts as a field of the spec (OP12)."""
PROGRAM_FIELD: Final = "program.configMap.text"
"""The text in a program's ConfigMap counts as a field of the spec."""

_FIELD_CHARS: Final = 10
_TOTAL_CHARS: Final = 16

EFFECTS: Final = {
    **field_effects(),
    PROGRAM_FIELD: Effect.UPGRADE,
    RESTART_FIELD: Effect.UPGRADE,
}


@dataclass(frozen=True, slots=True)
class SpecDigest:
    """Digests of one spec."""

    total: str
    """Of every field whose change touches processes."""
    fields: dict[str, str]
    """Of each field that differs from its default."""


def digest_spec(
    spec: StreamJobSpec, *, restarted_at: str = "", program: str | None = None
) -> SpecDigest:
    """Return the digests of a spec and of what counts as a part of it.

    Args:
        spec: validated.
        restarted_at: value of the restart annotation, empty when there is none.
        program: text of the program when it comes from a ConfigMap.
    """
    values = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if restarted_at:
        values[RESTART_FIELD] = restarted_at
    fields = {name: _digest(value, _FIELD_CHARS) for name, value in sorted(values.items())}
    if program is not None:
        fields[PROGRAM_FIELD] = digest_program(program)
    effective = {name: text for name, text in fields.items() if EFFECTS[name] is not Effect.IGNORE}
    return SpecDigest(total=_digest(effective, _TOTAL_CHARS), fields=fields)


def digest_program(text: str) -> str:
    """Return the digest of a program's text."""
    return _digest(text, _FIELD_CHARS)


def _digest(value: object, chars: int) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:chars]
