"""Fencing by generations: who may publish, and where a new coordinator starts from.

A generation is claimed in two conditional creates, ``claim`` first and ``start`` last. Whoever has
changed something reads the claims once more **before** it acts on the change::

    coordinator g, publishing                     coordinator g+1, starting
    create chk-n/_metadata                        create generations/g+1/claim
    list claims; a newer one? -> stop             list checkpoints, choose the start
    put generations/g/latest = n                  create generations/g+1/start
    commit sinks, delete superseded files         list claims; a newer one? -> stop
                                                  commit pending output, delete orphans, run

Two handshakes of the same kind (Dekker: each side writes, then reads what the other writes):

- publish against claim: either g+1 lists chk-n and continues from it, or g sees the claim and
  commits nothing. So output is only ever committed for checkpoints that every later generation
  continues from.
- start against claim: either g+2 sees the start of g+1 and stays on its line, or g+1 sees the claim
  of g+2 and does nothing at all. So a generation whose start was overlooked never deletes a file.

``latest`` makes loss visible: a generation that completed n can only be continued from n or above.
Without it, deleted checkpoints would look like checkpoints that were never taken, and the job would
silently go back to an older one, or to nothing, after output was committed (I11).

Needs only what `ObjectStore` promises. See docs/adr/0006; a model checker runs the real code
through the interleavings (runtime_tests/checkpoint/test_fencing_model.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.ids import CheckpointId, Generation

if TYPE_CHECKING:
    from collections.abc import Sequence


class ClaimRecord(msgspec.Struct, frozen=True):
    """Content of ``generations/<g>/claim``; ``claimant`` is unique to one coordinator life."""

    generation: Generation
    claimant: str
    claimed_ms: int


class StartRecord(msgspec.Struct, frozen=True):
    """Content of ``generations/<g>/start``.

    Attributes:
        generation, claimant: who starts.
        checkpoint_id: the checkpoint continued from, None for empty state.
        first_checkpoint_id: lowest number that it publishes, above every number used before.
    """

    generation: Generation
    claimant: str
    checkpoint_id: CheckpointId | None
    first_checkpoint_id: CheckpointId


class LatestRecord(msgspec.Struct, frozen=True):
    """Content of ``generations/<g>/latest``: newest checkpoint whose output may be committed."""

    generation: Generation
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class ObservedCheckpoint:
    """A complete checkpoint found in storage.

    Attributes:
        checkpoint_id: its number.
        generation: who published it; None if its metadata cannot be read.
    """

    checkpoint_id: CheckpointId
    generation: Generation | None


@dataclass(frozen=True, slots=True)
class ObservedGeneration:
    """The newest generation that recorded a start.

    Attributes:
        generation: its number.
        origin: the checkpoint that it continued from, None for empty state.
        first: lowest number that it publishes.
        latest: the newest checkpoint that it completed, None when it completed none.
    """

    generation: Generation
    origin: CheckpointId | None
    first: CheckpointId
    latest: CheckpointId | None


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Continue from this checkpoint."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class StartEmpty:
    """No generation ever completed a checkpoint nor started from one: empty state is right."""


@dataclass(frozen=True, slots=True)
class StartImpossible:
    """A checkpoint must exist and cannot be had; never start empty (I11, OP14)."""

    expected: CheckpointId
    reason: str


StartDecision = StartFrom | StartEmpty | StartImpossible


def next_generation(claims: Sequence[Generation]) -> Generation:
    """Return the generation to claim next."""
    return Generation(max(claims, default=0) + 1)


def is_fenced(own: Generation, claims: Sequence[Generation]) -> bool:
    """Return whether a newer generation than ``own`` has been claimed."""
    return any(claim > own for claim in claims)


def next_checkpoint_id(
    last: ObservedGeneration | None, seen: Sequence[CheckpointId]
) -> CheckpointId:
    """Return the first number of a new generation (D15).

    It lies above every ``chk-<n>`` in storage, complete, partial or orphaned, and not below the
    first number of the last generation: numbers that were deleted are not used again (`cleanup`).
    """
    return CheckpointId(max(max(seen, default=0) + 1, last.first if last else 1))


def resolve_start(
    last: ObservedGeneration | None, checkpoints: Sequence[ObservedCheckpoint]
) -> StartDecision:
    """Choose the checkpoint that a newly claimed generation continues from.

    The last generation that recorded a start is the one whose line counts: its newest own
    checkpoint, else the one it started from. Checkpoints of other generations above that line are
    orphans of deposed coordinators and never candidates.

    Args:
        last: the newest generation with a ``start`` record, None when there is none.
        checkpoints: complete checkpoints, listed **after** the new claim was created.
    """
    if last is None:
        return _start_without_history(checkpoints)
    generations = {c.checkpoint_id: c.generation for c in checkpoints}
    own = [n for n, generation in generations.items() if generation == last.generation]
    chosen = max(own) if own else last.origin
    unreadable = [n for n, generation in generations.items() if generation is None]
    if unreadable and max(unreadable) >= (chosen or 0):
        return StartImpossible(
            max(unreadable), "its metadata cannot be read, so it may be the one to continue from"
        )
    if last.latest is not None and last.latest > (max(own) if own else 0):
        return StartImpossible(last.latest, f"generation {last.generation} completed it")
    if chosen is None:
        return StartEmpty()
    if chosen not in generations:
        return StartImpossible(chosen, f"generation {last.generation} started from it")
    return StartFrom(chosen)


def _start_without_history(checkpoints: Sequence[ObservedCheckpoint]) -> StartDecision:
    if not checkpoints:
        return StartEmpty()
    newest = max(c.checkpoint_id for c in checkpoints)
    return StartImpossible(newest, "checkpoints exist but every generation marker is gone")
