"""The size of an epoch, as a controller over a simulated engine."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.driver.epoch_size import (
    FIRST_EPOCH_ROWS,
    STEP_MAX,
    EpochObserved,
    EpochSize,
    SizePolicy,
    first_size,
    next_size,
    share_rows,
)

POLICY = SizePolicy(target_s=1.0, rows_max=2_000_000)


@dataclass
class Engine:
    """An engine whose epochs cost a fixed time and a time for each row."""

    fixed_s: float
    row_s: float
    noise: float = 0.0
    warm_up_s: float = 0.0
    seed: int = 0
    epochs: int = 0
    sizes: list[int] = field(default_factory=list)
    durations_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def duration_s(self, rows: int) -> float:
        self.epochs += 1
        exact = self.fixed_s + self.row_s * rows
        factor = 1 + self.noise * self._random.uniform(-1, 1)
        return exact * factor + self.warm_up_s / self.epochs**2

    def run(
        self, epochs: int, policy: SizePolicy = POLICY, size: EpochSize | None = None
    ) -> EpochSize:
        """Run epochs of a source that always has more."""
        size = size or first_size(policy)
        for _ in range(epochs):
            duration_s = self.duration_s(size.rows)
            self.sizes.append(size.rows)
            self.durations_s.append(duration_s)
            size = next_size(policy, size, EpochObserved(size.rows, duration_s, limited=True))
        return size

    def forget(self) -> None:
        """Start to note sizes and durations anew."""
        self.sizes.clear()
        self.durations_s.clear()

    def ideal_s(self, policy: SizePolicy) -> float:
        """Duration of an epoch as the policy wants it."""
        wanted = max(policy.target_s, 2 * self.fixed_s)
        largest = self.fixed_s + self.row_s * policy.rows_max
        smallest = self.fixed_s + self.row_s
        return max(min(wanted, largest), smallest)


engines = st.builds(
    Engine,
    fixed_s=st.floats(0.01, 4.0),
    row_s=st.floats(1e-8, 0.2),
    warm_up_s=st.floats(0, 5),
    seed=st.integers(0, 2**32),
)
policies = st.builds(SizePolicy, target_s=st.floats(0.1, 10.0), rows_max=st.integers(1, 10_000_000))


def assume_target_can_be_met(engine: Engine, policy: SizePolicy) -> None:
    """Assume a target well above the fixed cost, and rows that can be dosed."""
    assume(policy.target_s > 2.5 * engine.fixed_s)
    assume(policy.target_s > 20 * engine.row_s)


@pytest.mark.property
@given(engines, policies)
def test_epochs_come_to_last_as_long_as_the_target_and_stay_there(engine, policy):
    assume_target_can_be_met(engine, policy)
    size = engine.run(60, policy)
    engine.forget()

    engine.run(30, policy, size)

    assert abs(engine.durations_s[-1] - engine.ideal_s(policy)) <= 0.3 * engine.ideal_s(policy)
    by_size = sorted(engine.sizes)  # one may be small, to see whether the fixed cost is as before
    assert by_size[-1] <= 1.3 * by_size[1] + 1


@pytest.mark.property
@given(engines, policies, st.floats(0.05, 0.25))
def test_noise_does_not_make_sizes_swing(engine, policy, noise):
    assume_target_can_be_met(engine, policy)
    size = engine.run(60, policy)
    engine.noise = noise
    engine.forget()

    engine.run(100, policy, size)

    mean_s = statistics.mean(engine.durations_s)
    assert abs(mean_s - engine.ideal_s(policy)) <= 0.4 * engine.ideal_s(policy)
    by_size = sorted(engine.sizes)
    assert by_size[-10] <= 3 * by_size[10] + 2


@pytest.mark.property
@given(engines, policies, st.floats(0, 0.25))
def test_whatever_the_target_most_of_the_throughput_is_reached(engine, policy, noise):
    """Also with a target below the fixed cost, as long as rows can be dosed."""
    assume(engine.ideal_s(policy) > 20 * engine.row_s)
    size = engine.run(60, policy)
    engine.noise = noise
    engine.forget()

    engine.run(130, policy, size)

    ideal_s = engine.ideal_s(policy)
    ideal_rows_per_s = (ideal_s - engine.fixed_s) / engine.row_s / ideal_s
    assert sum(engine.sizes) / sum(engine.durations_s) >= 0.4 * ideal_rows_per_s


@pytest.mark.property
@given(
    policies,
    st.lists(
        st.tuples(st.integers(0, 20_000_000), st.floats(0, 1e5, allow_nan=False), st.booleans()),
        max_size=60,
    ),
)
def test_whatever_is_observed_a_size_is_at_least_one_row_and_never_above_the_ceiling(
    policy, observations
):
    size = first_size(policy)
    for rows, duration_s, limited in observations:
        before = size.rows
        size = next_size(policy, size, EpochObserved(rows, duration_s, limited))
        assert 1 <= size.rows <= policy.rows_max
        assert before / STEP_MAX - 1 <= size.rows <= before * STEP_MAX + 1
        if not limited:
            assert size.rows <= before


@pytest.mark.property
@given(st.floats(0.05, 0.4), st.floats(1e-6, 1e-3), st.sampled_from([0.05, 0.1, 0.2, 5, 10, 20]))
def test_it_follows_when_rows_become_dearer_or_cheaper(fixed_s, row_s, factor):
    engine = Engine(fixed_s, row_s)
    size = engine.run(40)
    engine.row_s *= factor

    engine.run(25, POLICY, size)

    assert abs(engine.durations_s[-1] - engine.ideal_s(POLICY)) <= 0.4 * engine.ideal_s(POLICY)


def test_it_reaches_its_size_within_eight_epochs_of_a_cold_start():
    engine = Engine(fixed_s=0.2, row_s=1e-6, warm_up_s=1.0)

    engine.run(12)

    assert engine.sizes[0] == FIRST_EPOCH_ROWS
    assert abs(engine.durations_s[8] - 1.0) <= 0.2


def test_very_dear_rows_never_cost_more_than_the_first_epochs():
    """100 ms a row: 1000 rows take 100 s, which must not grow on the way to 8 rows."""
    engine = Engine(fixed_s=0.2, row_s=0.1)

    size = engine.run(20)

    assert 8 == size.rows
    assert max(engine.durations_s) == engine.durations_s[0]
    assert sum(engine.durations_s[2:]) < 60


def test_a_target_below_the_fixed_cost_leaves_half_of_an_epoch_to_rows():
    engine = Engine(fixed_s=1.5, row_s=1e-5)

    size = engine.run(100)

    assert 100_000 <= size.rows <= 200_000


def test_one_pause_costs_little_throughput_after_it():
    engine = Engine(fixed_s=0.2, row_s=1e-6)
    size = engine.run(20)

    size = next_size(POLICY, size, EpochObserved(size.rows, 40.0, limited=True))
    engine.sizes.clear()
    engine.run(6, POLICY, size)

    assert engine.sizes[0] >= 800_000 / STEP_MAX
    assert engine.sizes[-1] >= 600_000


def test_a_quiet_night_leaves_the_size_as_it_was():
    engine = Engine(fixed_s=0.2, row_s=1e-6)
    size = before = engine.run(20)
    for _ in range(1000):
        size = next_size(POLICY, size, EpochObserved(40, engine.duration_s(40), limited=False))

    assert before.rows == size.rows
    assert len(size.past) <= 24


@pytest.mark.property
@given(
    st.integers(1, 10_000_000),
    st.lists(st.none() | st.integers(0, 50_000_000), min_size=1, max_size=20),
)
def test_shares_use_everything_and_starve_nobody(rows, expected):
    shares = share_rows(rows, expected)

    assert all(share >= 1 for share in shares)
    assert sum(shares) == max(rows, len(expected))


@pytest.mark.property
@given(
    st.integers(1000, 10_000_000),
    st.lists(st.none() | st.integers(0, 50_000_000), min_size=2, max_size=10),
)
def test_a_source_that_wants_more_gets_no_less(rows, expected):
    shares = share_rows(rows, expected)

    wants = [rows if e is None else e for e in expected]
    for want, share in zip(wants, shares, strict=True):
        for other_want, other_share in zip(wants, shares, strict=True):
            if want >= other_want:
                assert share >= other_share - len(expected)


def test_a_trickle_leaves_nearly_everything_to_a_backlog():
    trickle, backlog = share_rows(1_000_000, [100, 10**9])

    assert trickle >= 10_000
    assert backlog >= 900_000
