"""A real API server judges manifests: by schema and CEL alone, with the field named (OP5, OP38)."""

from pathlib import Path

import pytest
import yaml

from headrace.api.v1alpha1 import StreamJobSpec

pytestmark = pytest.mark.e2e

CASES_FILE = Path(__file__).parents[3] / "runtime" / "runtime_tests" / "api" / "cases.yaml"
CASES = yaml.safe_load(CASES_FILE.read_text(encoding="utf-8"))
DRY_RUN = ("--dry-run=server",)


def manifest_of(case):
    made = {**CASES["base"], "metadata": dict(CASES["base"]["metadata"])}
    made["metadata"] |= case.get("metadata", {})
    spec = {**CASES["base"]["spec"], **case.get("spec", {})}
    made["spec"] = {name: value for name, value in spec.items() if value is not None}
    return made


@pytest.mark.parametrize("case", CASES["accepted"])
def test_a_good_manifest_is_accepted(plane, case):
    plane.apply(manifest_of(CASES["accepted"][case]), options=DRY_RUN)


@pytest.mark.parametrize(
    ("group", "case"),
    [(group, case) for group in ("refused", "server_only") for case in CASES[group]],
)
def test_a_bad_manifest_is_refused_with_the_field_named(plane, group, case):
    done = plane.apply(manifest_of(CASES[group][case]), options=DRY_RUN, check=False)
    assert 1 == done.returncode
    assert CASES[group][case]["names"] in done.stderr


def test_the_servers_defaults_are_the_models(plane):
    done = plane.apply(manifest_of({}), options=(*DRY_RUN, "-o", "yaml"))
    served = yaml.safe_load(done.stdout)["spec"]
    model = StreamJobSpec.model_validate(CASES["base"]["spec"])
    assert model == StreamJobSpec.model_validate(served)
    assert model.model_dump(mode="json", by_alias=True, exclude_none=True) == served


def test_the_number_of_key_groups_cannot_be_changed(job):
    job.apply(maxParallelism=64)
    done = job.plane.apply(job.manifest(maxParallelism=128), check=False)
    assert 1 == done.returncode
    assert "spec.maxParallelism" in done.stderr
    assert "immutable" in done.stderr
    done = job.plane.apply(job.manifest(), check=False)
    assert "spec.maxParallelism" in done.stderr, "leaving it out means the default"


@pytest.mark.parametrize("replicas", [0, 65])
def test_scaling_beyond_the_bounds_is_refused(job, replicas):
    job.apply(maxParallelism=64)
    done = job.kubectl("scale", "sj/payments", f"--replicas={replicas}", check=False)
    assert 1 == done.returncode
    assert "parallelism" in done.stderr
    assert 2 == job.get()["spec"]["parallelism"]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "names"),
    [
        (
            "Savepoint",
            {"jobRef": {"name": "payments"}, "format": "canonical"},
            {"jobRef": {"name": "payments"}, "format": "zip"},
            "spec.format",
        ),
        (
            "Rescale",
            {"jobRef": {"name": "payments"}, "parallelism": 4},
            {"jobRef": {"name": "payments"}, "parallelism": 0},
            "spec.parallelism",
        ),
    ],
)
def test_savepoints_and_rescales_have_their_schemas(plane, namespace, kind, good, bad, names):
    def manifest(spec):
        metadata = {"name": "one", "namespace": namespace}
        return {
            "apiVersion": "headrace.dev/v1alpha1",
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        }

    plane.apply(manifest(good))
    assert names in plane.apply(manifest(bad), check=False).stderr
    changed = plane.apply(manifest({**good, "timeoutSeconds": 9}), check=False)
    assert "is immutable" in changed.stderr


def test_definitions_are_structural_and_reach_kubectl(plane, namespace):
    for crd in plane.get("crds")["items"]:
        types = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
        assert ("True", "True") == (types["Established"], types["NamesAccepted"])
        assert "NonStructuralSchema" not in types
    listed = plane.kubectl("api-resources", "--categories=headrace", "-o", "name").stdout
    assert {"streamjobs", "savepoints", "rescales"} == {
        name.split(".")[0] for name in listed.split()
    }
    explained = plane.kubectl("explain", "sj.spec.parallelism").stdout
    assert "also set by `kubectl scale`" in " ".join(explained.split())
