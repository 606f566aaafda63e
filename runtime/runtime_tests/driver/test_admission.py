"""What each source may read next, decided over facts of the last epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.driver.admission import Admission, AdmissionStatus, EpochAdmission, decide
from headrace.driver.epoch_size import EpochSize, SizePolicy, first_size
from headrace.engine.read_limits import ReadUnit, SourceFacts

POLICY = SizePolicy(target_s=1.0, rows_max=2_000_000)
SETTLED = EpochSize(rows=100_000, epochs=10, fixed_s=0.2, work_s=0.8, work_rows=100_000)
"""A controller that is content with 100k rows a second."""


def kafka(admitted: int | None, backlog: int | None, ceiling: int | None = None) -> SourceFacts:
    return SourceFacts(ReadUnit.ROWS, admitted, backlog, ceiling)


def files(admitted: int | None, ceiling: int | None = 1000) -> SourceFacts:
    return SourceFacts(ReadUnit.FILES, admitted, None, ceiling)


def test_a_trickle_and_a_backlog_share_an_epoch_by_what_they_have():
    sources = [kafka(100, 0), kafka(99_900, 10**9)]

    after = decide(POLICY, Admission(SETTLED, (50_000, 50_000)), sources, 100_000, 1.0)

    trickle, backlog = after.units
    assert trickle + backlog == 100_000
    assert trickle >= 1_000
    assert backlog >= 90_000


def test_files_are_admitted_by_the_rows_that_files_had():
    """40 files of 500 rows each: 200 files make 100k rows."""
    after = decide(POLICY, Admission(SETTLED, (40,)), [files(40)], 20_000, 0.36)

    assert 500 == after.file_rows
    assert 0.8 <= after.units[0] * 500 / after.size.rows <= 1


def test_an_unknown_file_is_read_alone():
    after = decide(POLICY, Admission(first_size(POLICY)), [files(None)], 0, 0.2)

    assert (1,) == after.units


def test_the_users_own_limit_is_kept_and_tells_nothing_about_ours():
    """5000 rows an epoch by the user's word: the limit above it is not raised for ever."""
    before = Admission(replace(SETTLED, rows=5_000), (5_000,))

    for _ in range(50):
        before = decide(POLICY, before, [kafka(5_000, 10**9, 5_000)], 5_000, 0.24)

    assert (5_000,) == before.units
    assert before.size.rows == 5_000


def test_rows_that_nobody_limits_are_taken_from_the_others_but_do_not_starve_them():
    """A generator adds 60k rows to every epoch of 100k; one of 500k leaves a tenth."""
    some = decide(POLICY, Admission(SETTLED, (100_000,)), [kafka(40_000, 10**9)], 100_000, 1.0)
    most = decide(POLICY, Admission(SETTLED, (100_000,)), [kafka(1_000, 10**9)], 501_000, 1.0)

    assert 40_000 == some.units[0]
    assert most.units[0] >= most.size.rows // 10


def test_limits_stay_while_nobody_misses_anything():
    before = Admission(SETTLED, (60_000, 40_000))

    after = decide(POLICY, before, [kafka(10, 0), kafka(0, 0)], 10, 0.2)

    assert before.units == after.units


@pytest.mark.property
@given(
    st.lists(
        st.builds(
            SourceFacts,
            st.sampled_from(ReadUnit),
            st.none() | st.integers(0, 10**7),
            st.none() | st.integers(0, 10**9),
            st.none() | st.integers(1, 10**7),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1e4)), max_size=20),
)
def test_whatever_sources_say_each_gets_something_and_all_together_never_too_much(sources, epochs):
    admission = Admission(first_size(POLICY))
    for rows, duration_s in epochs:
        admission = decide(POLICY, admission, sources, rows, duration_s)

        assert len(admission.units) == len(sources)
        assert all(units >= 1 for units in admission.units)
        rows_given = [
            units
            for units, source in zip(admission.units, sources, strict=True)
            if source.unit is ReadUnit.ROWS
        ]
        assert sum(rows_given) <= max(POLICY.rows_max, len(sources))
        for units, source in zip(admission.units, sources, strict=True):
            assert source.ceiling is None or units <= source.ceiling


@dataclass
class Limits:
    """Spark's side, made of paper."""

    facts: list[SourceFacts]
    attached: bool = False
    admitted: list[tuple[int, ...]] = field(default_factory=list)

    def attach(self, query: object) -> None:
        self.attached = True

    def observe(self) -> list[SourceFacts]:
        return self.facts

    def admit(self, units: tuple[int, ...]) -> None:
        self.admitted.append(tuple(units))


def test_spark_is_told_only_what_changes():
    limits = Limits([kafka(1000, 10**6)])
    admission = EpochAdmission(limits, POLICY)
    for seconds in [3.0, 0.3, 0.3, 0.3]:
        admission.begin(object())
        admission.end(1000, seconds)
    changes = len(limits.admitted)
    limits.facts = [kafka(10, 0)]
    for _ in range(20):
        admission.begin(object())
        status = admission.end(10, 0.2)

    assert 1 <= changes <= 4
    assert changes == len(limits.admitted)
    assert status.lag == 0


def test_without_a_target_nothing_is_decided_but_the_lag_is_known():
    limits = Limits([kafka(7, 40), files(3), kafka(None, 2)])
    admission = EpochAdmission(limits, None)

    admission.begin(object())

    assert AdmissionStatus(lag=42, max_rows=None) == admission.end(10, 1.0)
    assert [] == limits.admitted


def test_a_lag_that_no_source_can_tell_is_unknown():
    admission = EpochAdmission(Limits([files(3)]), POLICY)

    admission.begin(object())

    assert admission.end(10, 1.0).lag is None
