"""The decision about one spool, over every combination of ledger and policy (T4)."""

from __future__ import annotations

import pytest

from headrace.connectors.kafka.lost_ledger import Decision, LostLedgerPolicy, decide

FAIL, PUBLISH, DISCARD = LostLedgerPolicy.FAIL, LostLedgerPolicy.PUBLISH, LostLedgerPolicy.DISCARD


@pytest.mark.parametrize("policy", list(LostLedgerPolicy))
@pytest.mark.parametrize(
    ("ledger", "decision"),
    [
        (0, Decision.PUBLISH),
        (4, Decision.PUBLISH),
        (5, Decision.ALREADY_PUBLISHED),
        (6, Decision.ALREADY_PUBLISHED),
    ],
)
def test_a_ledger_decides_alone(ledger, decision, policy):
    assert decide(ledger, 5, policy) is decision


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (FAIL, Decision.STOP),
        (PUBLISH, Decision.PUBLISH),
        (DISCARD, Decision.ALREADY_PUBLISHED),
    ],
)
def test_without_a_ledger_a_person_has_decided_or_the_job_stops(policy, decision):
    assert decide(None, 5, policy) is decision
