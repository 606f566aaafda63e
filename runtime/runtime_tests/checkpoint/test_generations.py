"""Where a new generation starts from, decided from what storage shows (I11, D15, OP14)."""

from __future__ import annotations

import pytest

from headrace.checkpoint.protocol.generations import (
    ObservedCheckpoint,
    ObservedGeneration,
    StartDecision,
    StartEmpty,
    StartFrom,
    StartImpossible,
    is_fenced,
    next_checkpoint_id,
    next_generation,
    resolve_start,
)
from headrace.ids import CheckpointId, Generation


def last(
    generation: int, origin: int | None, latest: int | None = None, first: int = 1
) -> ObservedGeneration:
    return ObservedGeneration(
        Generation(generation),
        None if origin is None else CheckpointId(origin),
        CheckpointId(first),
        None if latest is None else CheckpointId(latest),
    )


def resolve(
    observed: ObservedGeneration | None, checkpoints: dict[int, int | None]
) -> StartDecision:
    return resolve_start(
        observed,
        [
            ObservedCheckpoint(CheckpointId(n), None if g is None else Generation(g))
            for n, g in checkpoints.items()
        ],
    )


def test_a_job_without_history_starts_empty() -> None:
    assert resolve(None, {}) == StartEmpty()


def test_a_generation_that_never_completed_a_checkpoint_leaves_an_empty_start() -> None:
    assert resolve(last(3, None), {}) == StartEmpty()


def test_the_newest_checkpoint_of_the_last_generation_wins() -> None:
    assert resolve(last(2, 3, latest=5), {3: 1, 4: 2, 5: 2}) == StartFrom(CheckpointId(5))


def test_a_published_checkpoint_counts_before_it_is_recorded_as_latest() -> None:
    assert resolve(last(2, 3, latest=4), {4: 2, 5: 2}) == StartFrom(CheckpointId(5))


def test_without_a_checkpoint_of_its_own_the_last_generation_hands_on_its_origin() -> None:
    assert resolve(last(4, 3), {2: 1, 3: 1}) == StartFrom(CheckpointId(3))


def test_a_newer_checkpoint_of_a_deposed_generation_is_never_a_candidate() -> None:
    assert resolve(last(4, 3), {3: 1, 9: 1, 8: 2}) == StartFrom(CheckpointId(3))


def test_a_lost_origin_makes_a_start_impossible_and_never_empty() -> None:
    decision = resolve(last(4, 3), {2: 1})
    assert isinstance(decision, StartImpossible)
    assert decision.expected == 3


@pytest.mark.parametrize("origin", [None, 3])
def test_a_lost_latest_checkpoint_is_never_replaced_by_an_older_one(origin: int | None) -> None:
    decision = resolve(last(4, origin, latest=6), {3: 1, 5: 4})
    assert isinstance(decision, StartImpossible)
    assert decision.expected == 6


def test_checkpoints_without_any_marker_make_a_start_impossible() -> None:
    decision = resolve(None, {2: 1, 5: 1})
    assert isinstance(decision, StartImpossible)
    assert decision.expected == 5


def test_unreadable_metadata_that_may_be_the_newest_makes_a_start_impossible() -> None:
    decision = resolve(last(2, None, latest=4), {4: 2, 5: None})
    assert isinstance(decision, StartImpossible)
    assert decision.expected == 5


def test_unreadable_metadata_below_the_chosen_checkpoint_does_not_matter() -> None:
    assert resolve(last(2, None, latest=4), {3: None, 4: 2}) == StartFrom(CheckpointId(4))


def test_an_unreadable_origin_makes_a_start_impossible() -> None:
    assert isinstance(resolve(last(2, 3), {3: None}), StartImpossible)


def test_numbers_go_on_above_everything_seen_and_above_the_last_first_number() -> None:
    seen = [CheckpointId(2), CheckpointId(7)]
    assert next_checkpoint_id(None, []) == 1
    assert next_checkpoint_id(None, seen) == 8
    assert next_checkpoint_id(last(1, None, first=12), seen) == 12
    assert next_checkpoint_id(last(1, None, first=3), seen) == 8


def test_the_next_generation_is_one_above_the_highest_claim() -> None:
    assert next_generation([]) == 1
    assert next_generation([Generation(4), Generation(2)]) == 5


def test_only_a_newer_claim_fences() -> None:
    claims = [Generation(1), Generation(2)]
    assert is_fenced(Generation(1), claims)
    assert not is_fenced(Generation(2), claims)
