"""What the output must be, and how far the real one is from it.

The oracle adds up the payments one after the other, as a single process without failures would.
Payments of one merchant travel in order (one partition), so each running total is known exactly:
a lost update, a state rolled back too far and an output published twice all show, also when they
cancel out in the final sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from headrace_demo.payments import Payment


class MerchantTotals(msgspec.Struct, frozen=True):
    """One record of the output: a merchant's totals after one of its payments."""

    merchant: str
    payments: int
    total_paise: int


class Comparison(msgspec.Struct, frozen=True):
    """The output against the oracle; all three differences are 0 when it is exact."""

    expected: int
    actual: int
    keys: int
    missing: int
    """Records that must be there and are not."""
    duplicates: int
    """Further copies of records that must be there once."""
    unexpected: int
    """Records that no correct run writes."""
    examples: tuple[str, ...] = ()
    """A few of the differences."""

    @property
    def is_exact(self) -> bool:
        """Whether the output is what it must be, each record once."""
        return self.missing == self.duplicates == self.unexpected == 0


EXAMPLES_MAX = 5


def compute_expected(payments: Iterable[Payment]) -> set[MerchantTotals]:
    """Returns every record that must be written; no two are equal, for counts only grow."""
    counts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    expected = set()
    for payment in payments:
        counts[payment.merchant] += 1
        totals[payment.merchant] += payment.amount_paise
        expected.add(
            MerchantTotals(payment.merchant, counts[payment.merchant], totals[payment.merchant])
        )
    return expected


def compare(expected: set[MerchantTotals], actual: Counter[MerchantTotals]) -> Comparison:
    """Compares the output, as a multiset, with what it must be."""
    missing = expected - actual.keys()
    unexpected = {record: count for record, count in actual.items() if record not in expected}
    repeated = {
        record: count - 1 for record, count in actual.items() if count > 1 and record in expected
    }
    examples = [
        *(f"missing: {record}" for record in sorted(missing, key=_order)),
        *(f"{count} more of: {record}" for record, count in repeated.items()),
        *(f"unexpected: {record}" for record in sorted(unexpected, key=_order)),
    ]
    return Comparison(
        expected=len(expected),
        actual=actual.total(),
        keys=len({record.merchant for record in expected}),
        missing=len(missing),
        duplicates=sum(repeated.values()),
        unexpected=sum(unexpected.values()),
        examples=tuple(examples[:EXAMPLES_MAX]),
    )


def _order(record: MerchantTotals) -> tuple[str, int]:
    return record.merchant, record.payments
