"""The models judge manifests as the API server does; cases are shared with the end-to-end tests."""

import copy

import pytest
from pydantic import ValidationError

from headrace.api.v1alpha1 import (
    Effect,
    LifecycleState,
    StreamJob,
    StreamJobSpec,
    StreamJobStatus,
    field_effects,
)
from headrace.api.v1alpha1.quantities import cpu_millis, memory_mib
from runtime_tests.api.cases import CASES, manifest_of


@pytest.mark.parametrize("case", CASES["accepted"])
def test_a_good_manifest_is_accepted(case):
    StreamJob.model_validate(manifest_of(CASES["accepted"][case]))


@pytest.mark.parametrize("case", CASES["refused"])
def test_a_bad_manifest_is_refused_with_the_field_named(case):
    with pytest.raises(ValidationError) as error:
        StreamJob.model_validate(manifest_of(CASES["refused"][case]))
    problems = [
        ".".join(str(part) for part in problem["loc"]) + ": " + problem["msg"]
        for problem in error.value.errors()
    ]
    assert any(CASES["refused"][case]["names"] in problem for problem in problems), problems


def test_a_stored_manifest_survives_reading_and_writing():
    for case in CASES["accepted"].values():
        job = StreamJob.model_validate(manifest_of(case))
        dumped = job.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert job == StreamJob.model_validate(dumped)


def test_models_are_immutable():
    job = StreamJob.model_validate(manifest_of({}))
    with pytest.raises(ValidationError):
        job.spec.parallelism = 9


def test_every_field_of_the_spec_declares_one_effect():
    effects = field_effects()
    assert {field.alias for field in StreamJobSpec.model_fields.values()} == set(effects)
    assert Effect.SCALE is effects["parallelism"]


def test_a_field_without_an_effect_is_an_error(monkeypatch):
    bare = copy.copy(StreamJobSpec.model_fields["image"])
    bare.metadata = []
    fields = {**StreamJobSpec.model_fields, "image": bare}
    monkeypatch.setattr(StreamJobSpec, "__pydantic_fields__", fields)
    with pytest.raises(TypeError, match="field=image"):
        field_effects()


def test_executors_hold_all_slots():
    def instances(parallelism, slots):
        spec = {**manifest_of({})["spec"], "parallelism": parallelism, "executor": {"slots": slots}}
        return StreamJobSpec.model_validate(spec).executor_instances

    assert [instances(1, 1), instances(2, 2), instances(3, 2), instances(5, 2)] == [1, 1, 2, 3]


def test_a_status_of_a_newer_release_is_readable():
    status = StreamJobStatus.model_validate({"lifecycleState": "Running", "futureField": {"a": 1}})
    assert LifecycleState.RUNNING is status.lifecycle_state


@pytest.mark.parametrize(
    ("text", "mib"),
    [("1Gi", 1024), ("512Mi", 512), ("1500M", 1430), ("0.5G", 476), ("2Ti", 2097152)],
)
def test_memory_is_counted_in_mib(text, mib):
    assert mib == memory_mib(text)


@pytest.mark.parametrize(("text", "millis"), [("2", 2000), ("0.5", 500), ("250m", 250)])
def test_cpu_is_counted_in_thousandths(text, millis):
    assert millis == cpu_millis(text)


@pytest.mark.parametrize("text", ["512m", "", "Gi", "one", "1 Gi"])
def test_what_is_no_memory_is_refused(text):
    with pytest.raises(ValueError, match="unit"):
        memory_mib(text)


def test_what_is_no_cpu_is_refused():
    with pytest.raises(ValueError, match="thousandths"):
        cpu_millis("2Gi")
