"""How long to wait before the next driver, and when earlier failures are forgotten; pure."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from headrace.api.v1alpha1 import RestartPolicy

JITTER: Final = 0.2
"""Up to a fifth more, so that jobs that failed together do not start together."""


def restart_delay(policy: RestartPolicy, failures: int, seed: str) -> timedelta:
    """Return the pause after the n-th failure in a row.

    The first failure costs no pause: a lost node or an eviction is no sign of a broken job.

    Args:
        policy: of the job.
        failures: failed drivers in a row, >= 1.
        seed: of the jitter; the same failure of the same job gets the same pause.
    """
    if failures <= 1:
        return timedelta(0)
    # 2**20 is far above any bound and keeps the power small.
    doubled = policy.initial_backoff_seconds * 2 ** min(failures - 2, 20)
    base_s = min(doubled, policy.max_backoff_seconds)
    digest = hashlib.sha256(f"{seed}/{failures}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return timedelta(seconds=base_s * (1 + JITTER * share))


def is_budget_spent(policy: RestartPolicy, failures: int) -> bool:
    """Return whether the job has failed too often in a row to be tried again."""
    return policy.max_attempts is not None and failures >= policy.max_attempts
