"""Which Spark a job runs on, by deployment, manifest and program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.driver.deployment import local_deployment
from headrace.driver.job_session import session_settings
from headrace.errors import InvalidConfigError

POD = replace(
    local_deployment(), master="k8s://https://api:443", spark_conf={"spark.a": "manifest"}
)


def test_a_local_job_has_a_core_for_each_slot_and_takes_any_other_local_master():
    settings = session_settings(local_deployment(), {}, "job", 3, [])
    assert ("local[3]", True) == (settings.master, settings.master_is_default)


def test_a_program_may_choose_the_master_of_a_local_run():
    chosen = {"spark.master": "local-cluster[2,1,1024]"}
    settings = session_settings(local_deployment(), chosen, "job", 3, [])
    assert ("local-cluster[2,1,1024]", False) == (settings.master, settings.master_is_default)
    assert {} == settings.conf


@pytest.mark.parametrize("where", ["program", "manifest"])
def test_the_master_of_a_pod_cannot_be_changed(where):
    other = {"spark.master": "local[2]"}
    deployment = POD if where == "program" else replace(POD, spark_conf=other)
    with pytest.raises(InvalidConfigError, match=r"required=k8s://https://api:443 got=local\[2\]"):
        session_settings(deployment, other if where == "program" else {}, "job", 3, [])


def test_the_manifest_wins_over_the_program():
    settings = session_settings(POD, {"spark.a": "program", "spark.b": "program"}, "job", 1, [])
    assert {"spark.a": "manifest", "spark.b": "program"} == settings.conf
