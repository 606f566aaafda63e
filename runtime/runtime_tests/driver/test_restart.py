"""Restart strategies: pure decisions over the history of failures (I8)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import parse_options
from headrace.driver.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    PastFailure,
    RestartAfter,
    restart_strategy,
)

HOUR_MS = 3_600_000


def exponential(**changes):
    values = {
        "initial_ms": 1_000,
        "max_ms": 60_000,
        "multiplier": 2.0,
        "reset_after_ms": HOUR_MS,
        "jitter": 0.0,
        "attempts": 1_000,
        "random": Random(7),
    }
    return ExponentialDelay(**(values | changes))


def fail_at(strategy, *times_ms):
    """Return the decisions about failures at these times, each after the restart before it."""
    history, decisions = [], []
    for at_ms in times_ms:
        decision = strategy.next_delay(history, at_ms)
        decisions.append(decision)
        if isinstance(decision, RestartAfter):
            history.append(PastFailure(at_ms, decision.delay_ms))
    return decisions


def test_without_a_strategy_the_first_failure_is_final():
    assert NoRestart().next_delay([], 0) == GiveUp("the restart strategy is none")


def test_fixed_delay_restarts_as_often_as_it_has_attempts():
    decisions = fail_at(FixedDelay(attempts=2, delay_ms=500), 0, 10, 10**12)

    assert decisions[:2] == [RestartAfter(500), RestartAfter(500)]
    assert decisions[2] == GiveUp("all restart attempts are used up; attempts=2")


def test_fixed_delay_without_attempts_gives_up_at_once():
    assert isinstance(FixedDelay(attempts=0, delay_ms=1).next_delay([], 0), GiveUp)


def test_failure_rate_gives_up_on_one_failure_too_many_within_an_interval():
    strategy = FailureRate(failures_max=2, interval_ms=1_000, delay_ms=10)

    assert fail_at(strategy, 0, 500) == [RestartAfter(10), RestartAfter(10)]
    assert isinstance(fail_at(strategy, 0, 500, 1_000)[-1], GiveUp)


def test_failure_rate_forgets_what_is_older_than_the_interval():
    strategy = FailureRate(failures_max=2, interval_ms=1_000, delay_ms=10)

    assert fail_at(strategy, 0, 500, 1_001, 2_000) == [RestartAfter(10)] * 4


def test_exponential_delay_grows_to_its_maximum():
    decisions = fail_at(exponential(max_ms=5_000), *range(0, 60_000, 10_000))

    assert decisions == [RestartAfter(ms) for ms in (1_000, 2_000, 4_000, 5_000, 5_000, 5_000)]


def test_exponential_delay_starts_afresh_after_a_run_as_long_as_the_threshold():
    strategy = exponential(reset_after_ms=10_000)

    # The second run lasts from 2,000 + 2,000 on; its failure at 14,000 comes exactly 10 s later.
    assert fail_at(strategy, 0, 2_000, 14_000, 15_500) == [
        RestartAfter(1_000),
        RestartAfter(2_000),
        RestartAfter(1_000),
        RestartAfter(2_000),
    ]


def test_exponential_delay_gives_up_after_its_attempts_unless_it_was_reset():
    strategy = exponential(attempts=2, reset_after_ms=10_000)

    assert isinstance(fail_at(strategy, 0, 2_000, 5_000)[-1], GiveUp)
    assert not any(isinstance(d, GiveUp) for d in fail_at(strategy, 0, 2_000, 20_000, 22_000))


def test_jitter_is_the_same_for_the_same_seed_and_stays_within_its_part():
    delays = [
        exponential(jitter=0.25, multiplier=8.0, random=Random(seed))
        .next_delay([PastFailure(0, 1_000)], 5_000)
        .delay_ms
        for seed in (*range(200), *range(200))
    ]

    assert delays[:200] == delays[200:]
    assert min(delays) >= 6_000
    assert max(delays) <= 10_000
    assert len(set(delays)) > 100


@pytest.mark.property
@given(
    st.lists(st.integers(0, 2 * HOUR_MS), max_size=30),
    st.integers(0, 2**32),
    st.floats(0.0, 1.0),
)
def test_an_exponential_delay_never_leaves_its_bounds(gaps, seed, jitter):
    strategy = exponential(jitter=jitter, random=Random(seed))
    history, now_ms = [], 0
    for gap in gaps:
        now_ms += gap
        decision = strategy.next_delay(history, now_ms)
        assert 1_000 <= decision.delay_ms <= 60_000
        history.append(PastFailure(now_ms, decision.delay_ms))
        now_ms += decision.delay_ms


def test_the_default_is_none_without_checkpoints_and_exponential_with_them():
    checkpointed = {
        "execution.checkpointing.interval": "30 s",
        "execution.checkpointing.dir": "file:///tmp/x",
    }

    assert NoRestart() == restart_strategy(parse_options({}), Random(1))
    strategy = restart_strategy(parse_options(checkpointed), Random(1))
    assert isinstance(strategy, ExponentialDelay)
    assert (strategy.initial_ms, strategy.max_ms, strategy.multiplier) == (1_000, 60_000, 1.5)
    assert (strategy.reset_after_ms, strategy.jitter) == (HOUR_MS, 0.1)


def test_options_reach_the_strategy():
    fixed = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 s",
    }
    rate = {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": "3",
        "restart-strategy.failure-rate.failure-rate-interval": "5 min",
        "restart-strategy.failure-rate.delay": "10 s",
    }

    assert FixedDelay(3, 10_000) == restart_strategy(parse_options(fixed), Random(1))
    assert FailureRate(3, 300_000, 10_000) == restart_strategy(parse_options(rate), Random(1))
