"""From options to a job's settings: what checkpoints and starting points become."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.checkpoint.settings import ExternalizedRetention
from headrace.config.job_configuration import parse_options
from headrace.driver.deployment import local_deployment
from headrace.driver.execution import build_settings
from headrace.errors import InvalidConfigError
from headrace.graph.job_graph import JobGraph

GRAPH = JobGraph("job", 2, 128, ())
DIRECTORY = {"state.checkpoints.dir": "s3://bucket/checkpoints"}
INTERVAL = {"execution.checkpointing.interval": "60000"}


def settings(options=None, *, durable=False, **deployment):
    deployed = dataclasses.replace(local_deployment(), durable=durable, **deployment)
    return build_settings(GRAPH, parse_options(options or {}), deployed)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "execution.checkpointing.dir"),
        (DIRECTORY, "execution.checkpointing.interval"),
    ],
)
def test_a_job_on_a_cluster_is_refused_without_checkpoints(given, missing):
    """A crash would silently lose its state (D14)."""
    with pytest.raises(InvalidConfigError, match=missing):
        settings(given, durable=True)


def test_the_values_of_production_arrive():
    """D13."""
    built = settings(
        {
            **DIRECTORY,
            **INTERVAL,
            "execution.checkpointing.timeout": "300000",
            "execution.checkpointing.min-pause": "30000",
            "execution.checkpointing.tolerable-failed-checkpoints": "3",
            "state.checkpoints.num-retained": "4",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "state.savepoints.dir": "s3://bucket/savepoints",
            "headrace.savepoint.format-type": "canonical",
        },
        durable=True,
    )
    checkpoint = built.checkpoint
    assert (60_000, 300_000, 30_000) == (
        checkpoint.interval_ms,
        checkpoint.timeout_ms,
        checkpoint.min_pause_ms,
    )
    assert (3, 4) == (checkpoint.tolerable_failures, checkpoint.retained)
    assert checkpoint.externalized_retention is ExternalizedRetention.RETAIN_ON_CANCELLATION
    assert built.savepoints_uri == "s3://bucket/savepoints"
    assert built.savepoint_format is SavepointFormat.CANONICAL
    assert built.checkpoints_uri == f"s3://bucket/checkpoints/{built.job_id}"


def test_savepoints_are_native_unless_something_else_is_said():
    assert settings({}).savepoint_format is SavepointFormat.NATIVE


@pytest.mark.parametrize("key", ["execution.savepoint.path", "execution.state-recovery.path"])
def test_the_starting_point_is_taken_by_either_key(key):
    assert settings({key: "s3://bucket/sp"}).restore_path == "s3://bucket/sp"


def test_the_manifests_starting_point_wins_over_the_option():
    built = settings({"execution.savepoint.path": "s3://bucket/a"}, restore_path="s3://bucket/b")
    assert built.restore_path == "s3://bucket/b"


@pytest.mark.parametrize("by_option", [True, False])
def test_leave_to_drop_state_reaches_driver_and_slots(by_option):
    options = {"execution.state-recovery.ignore-unclaimed-state": "true"} if by_option else {}
    built = settings(options, allow_non_restored_state=not by_option)
    assert built.allow_non_restored_state
    assert built.slots.allow_non_restored_state


@pytest.mark.parametrize("mode", ["CLAIM", "LEGACY"])
def test_claim_modes_that_would_take_a_savepoint_over_are_refused(mode):
    with pytest.raises(InvalidConfigError, match="NO_CLAIM"):
        settings({"execution.savepoint-restore-mode": mode})
