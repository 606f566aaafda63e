"""A job that has completed a checkpoint never begins anew with empty state (OP14)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.api.driver import (
    ENV_COMPLETED_CHECKPOINT,
    ENV_POD_IP,
    ENV_TOKEN,
    DriverConfig,
)
from headrace.driver.main import build_deployment
from headrace.driver.restoring import check_continuity
from headrace.errors import NoRestorableStateError

JOB_ID = "0123456789abcdef" * 2


def settings(completed):
    return SimpleNamespace(
        completed_checkpoint=completed, checkpoints_uri="s3://bucket/checkpoints/job"
    )


def found(number):
    return None if number is None else SimpleNamespace(checkpoint_id=number)


@pytest.mark.parametrize(
    ("completed", "newest"), [(None, None), (None, 7), (7, 7), (7, 8)], ids=str
)
def test_a_job_goes_on_from_what_it_had_completed_or_later(completed, newest):
    check_continuity(found(newest), settings(completed))


@pytest.mark.parametrize("newest", [None, 6])
def test_a_job_whose_checkpoints_are_gone_does_not_start(newest):
    with pytest.raises(NoRestorableStateError) as refused:
        check_continuity(found(newest), settings(7))
    text = str(refused.value)
    assert "s3://bucket/checkpoints/job" in text
    assert f"completed=7 newest_found={'none' if newest is None else newest}" in text
    assert "spec.restoreFrom" in text
    assert not refused.value.restartable


@pytest.mark.parametrize(("given", "expected"), [({}, None), ({ENV_COMPLETED_CHECKPOINT: "7"}, 7)])
def test_the_operator_says_what_was_completed(given, expected):
    config = DriverConfig(
        job_id=JOB_ID,
        job_name="job",
        namespace="bank",
        program="/job.py",
        parallelism=1,
        max_parallelism=128,
        config={},
    )
    environment = {ENV_TOKEN: "secret", ENV_POD_IP: "10.0.0.1", **given}
    assert expected == build_deployment(config, environment).completed_checkpoint
