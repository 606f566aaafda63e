"""UPI payments with known totals: payment i is a pure function of (seed, i).

Nothing is remembered and nothing random is asked for, so producer and oracle compute the same
stream independently, whatever happens to either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import xxhash

AMOUNT_PAISE_MIN = 100
AMOUNT_PAISE_MAX = 500_000
"""1 to 5,000 rupees, both inclusive."""

_U32 = 1 << 32


class Payment(msgspec.Struct, frozen=True):
    """One payment, as it is written to the topic in JSON."""

    payment_id: str
    merchant: str
    payer: str
    amount_paise: int


@dataclass(frozen=True, slots=True)
class PaymentStream:
    """A finite stream of payments; a few merchants get most of them, as in life."""

    seed: int
    events: int
    merchants: int

    def payment(self, index: int) -> Payment:
        """Returns payment ``index``, 0 <= index < events."""
        digest = xxhash.xxh64_intdigest(index.to_bytes(8, "little"), self.seed)
        place = (digest % _U32) / _U32
        # Squared: merchant 0 is paid most often, the last one about 1 / (2 * merchants) of all.
        merchant = int(place * place * self.merchants)
        span = AMOUNT_PAISE_MAX - AMOUNT_PAISE_MIN + 1
        return Payment(
            payment_id=f"{digest:016x}",
            merchant=f"merchant-{merchant:05d}",
            payer=f"payer{digest % 1_000_003:07d}@upi",
            amount_paise=AMOUNT_PAISE_MIN + (digest >> 32) % span,
        )

    def __iter__(self) -> Iterator[Payment]:
        return (self.payment(index) for index in range(self.events))
