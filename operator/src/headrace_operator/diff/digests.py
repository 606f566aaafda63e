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

_FIELD_CHARS: Final = 10
_TOTAL_CHARS: Final = 16

EFFECTS: Final = {**field_effects(), RESTART_FIELD: Effect.UPGRADE}


@dataclass(frozen=True, slots=True)
class SpecDigest:
    """Digests of one spec."""

    total: str
    """Of every field whose change touches processes."""
    fields: dict[str, str]
    """Of each field that differs from its default."""


def digest_spec(spec: StreamJobSpec, *, restarted_at: str = "") -> SpecDigest:
    """Return the digests of a spec and of the restart annotation beside it."""
    values = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if restarted_at:
        values[RESTART_FIELD] = restarted_at
    fields = {name: _digest(value, _FIELD_CHARS) for name, value in sorted(values.items())}
    effective = {name: text for name, text in fields.items() if EFFECTS[name] is not Effect.IGNORE}
    return SpecDigest(total=_digest(effective, _TOTAL_CHARS), fields=fields)


def _digest(value: object, chars: int) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:chars]
