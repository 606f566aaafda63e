"""Fencing by generations: who may publish, and where a new coordinator starts from.

A generation is claimed in two conditional creates, ``claim`` first and ``start`` second, and a
coordinator that has published a checkpoint reads the claims once more **before** it commits:

    coordinator g                                   coordinator g+1
    publish chk-n/_metadata                         create generations/g+1/claim
    list claims; a newer one? -> stop, no commit    list checkpoints, choose the start
    commit sinks, delete superseded files           create generations/g+1/start

Of the two orders in which publish and claim can happen, either g+1 lists chk-n (and continues from
it), or g sees the claim (and commits nothing). So output is never committed for a checkpoint that
the next generation does not continue from, and files are never deleted below it (T18, T30).
Needs only what `ObjectStore` promises. See docs/adr/0006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.ids import CheckpointId, Generation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ClaimRecord(msgspec.Struct, frozen=True):
    """Content of ``generations/<g>/claim``; ``claimant`` is unique to one coordinator life."""

    generation: Generation
    claimant: str
    claimed_ms: int


class StartRecord(msgspec.Struct, frozen=True):
    """Content of ``generations/<g>/start``: the checkpoint continued from, None for empty state."""

    generation: Generation
    claimant: str
    checkpoint_id: CheckpointId | None


@dataclass(frozen=True, slots=True)
class ObservedCheckpoint:
    """A complete checkpoint found in storage: its id and the generation that published it."""

    checkpoint_id: CheckpointId
    generation: Generation


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Continue from this checkpoint."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class StartEmpty:
    """No generation ever completed a checkpoint nor started from one: empty state is right."""


@dataclass(frozen=True, slots=True)
class StartImpossible:
    """A checkpoint must exist and does not; never start empty (I11, OP14)."""

    expected: CheckpointId
    reason: str


StartDecision = StartFrom | StartEmpty | StartImpossible


def next_generation(claims: Sequence[Generation]) -> Generation:
    """Return the generation to claim next."""
    return Generation(max(claims, default=0) + 1)


def is_fenced(own: Generation, claims: Sequence[Generation]) -> bool:
    """Return whether a newer generation than ``own`` has been claimed."""
    return any(claim > own for claim in claims)


def next_checkpoint_id(seen: Sequence[CheckpointId]) -> CheckpointId:
    """Return a number above every ``chk-<n>`` seen, complete, partial or orphaned (D15)."""
    return CheckpointId(max(seen, default=0) + 1)


def resolve_start(
    starts: Mapping[Generation, CheckpointId | None],
    checkpoints: Sequence[ObservedCheckpoint],
) -> StartDecision:
    """Choose the checkpoint that a newly claimed generation continues from.

    The last generation that recorded a start is the one whose line counts: its newest own
    checkpoint, else the one it started from. Checkpoints of older generations above that line are
    orphans of deposed coordinators and never candidates.

    Args:
        starts: ``start`` records of all earlier generations.
        checkpoints: complete checkpoints listed **after** the new claim was created.
    """
    if not starts:
        return _start_without_history(checkpoints)
    last = max(starts)
    own = [c.checkpoint_id for c in checkpoints if c.generation == last]
    if own:
        return StartFrom(max(own))
    origin = starts[last]
    if origin is None:
        return StartEmpty()
    if any(c.checkpoint_id == origin for c in checkpoints):
        return StartFrom(origin)
    return StartImpossible(origin, f"generation {last} started from it and it is gone")


def _start_without_history(checkpoints: Sequence[ObservedCheckpoint]) -> StartDecision:
    if not checkpoints:
        return StartEmpty()
    newest = max(c.checkpoint_id for c in checkpoints)
    return StartImpossible(newest, "checkpoints exist but every generation marker is gone")
