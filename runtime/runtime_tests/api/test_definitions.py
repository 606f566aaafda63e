"""The definitions in ``crds/`` are what the models say, and what Kubernetes accepts."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from headrace.api.crd import build_definitions, render_definition
from headrace.api.crd.__main__ import main
from headrace.api.crd.definitions import SIZE_BYTES_MAX
from headrace.api.crd.structural import structural_schema
from headrace.errors import InternalError

CRDS = Path(__file__).parents[3] / "crds"
DEFINITIONS = build_definitions()
NAMES = [
    "headrace.dev_rescales.yaml",
    "headrace.dev_savepoints.yaml",
    "headrace.dev_streamjobs.yaml",
]


def schema_of(name):
    (version,) = DEFINITIONS[name]["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def nodes(schema, path="$"):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


def test_the_files_are_up_to_date():
    assert sorted(path.name for path in CRDS.glob("*.yaml")) == NAMES
    assert main(["--check", str(CRDS)]) == 0


def test_a_stale_or_extra_file_is_found_and_repaired(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    (tmp_path / NAMES[0]).write_text("old")
    (tmp_path / "headrace.dev_ghosts.yaml").write_text("gone")
    assert main(["--check", str(tmp_path)]) == 1
    assert "headrace.dev_ghosts.yaml" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def test_the_module_runs_as_a_command():
    command = [sys.executable, "-m", "headrace.api.crd", "--check", str(CRDS)]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_definition_fits_into_a_plain_apply(name):
    assert len(render_definition(DEFINITIONS[name]).encode()) < SIZE_BYTES_MAX


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_structural(name):
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "title", "const"}
    for path, node in nodes(schema_of(name)):
        assert not forbidden & node.keys(), path
        assert "type" in node or "x-kubernetes-int-or-string" in node, path
        assert node.get("additionalProperties") is not False, path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_spec_and_status_is_described(name):
    properties = schema_of(name)["properties"]
    for part in ("spec", "status"):
        for path, node in nodes(properties[part], f"$.{part}"):
            if not path.endswith("]"):
                assert node.get("description"), path
                assert "\n" not in node["description"], path


@pytest.mark.parametrize("name", NAMES)
def test_resources_have_status_category_short_name_and_columns(name):
    spec = DEFINITIONS[name]["spec"]
    (version,) = spec["versions"]
    assert spec["names"]["categories"] == ["headrace"]
    assert len(spec["names"]["shortNames"]) == 1
    assert version["subresources"]["status"] == {}
    assert "Age" in [column["name"] for column in version["additionalPrinterColumns"]]


def test_stream_jobs_can_be_scaled():
    (version,) = DEFINITIONS["headrace.dev_streamjobs.yaml"]["spec"]["versions"]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.parallelism",
        "statusReplicasPath": ".status.parallelism",
        "labelSelectorPath": ".status.selector",
    }


def test_stream_jobs_show_what_an_operator_of_streams_looks_for():
    (version,) = DEFINITIONS["headrace.dev_streamjobs.yaml"]["spec"]["versions"]
    columns = {c["name"]: c.get("priority", 0) for c in version["additionalPrinterColumns"]}
    narrow = {name for name, priority in columns.items() if priority == 0}
    assert narrow >= {"State", "Parallelism", "Desired", "Lag", "Checkpoint", "Restarts", "Age"}
    assert columns.keys() - narrow >= {"Savepoint", "Image"}


def test_files_are_plain_yaml_without_anchors():
    for name in NAMES:
        text = (CRDS / name).read_text()
        assert "&id" not in text
        assert DEFINITIONS[name] == yaml.safe_load(text)


def test_the_number_of_key_groups_is_immutable():
    spec = schema_of("headrace.dev_streamjobs.yaml")["properties"]["spec"]["properties"]
    (rule,) = spec["maxParallelism"]["x-kubernetes-validations"]
    assert rule["rule"] == "self == oldSelf"


class Inner(BaseModel):
    a: int = 1
    b: str | None = None


class Optional(BaseModel):
    inner: Inner | None = None
    made: Inner = Inner(a=2)


def test_optional_models_are_inlined_and_defaults_written_out():
    made = structural_schema(Optional.model_json_schema())["properties"]
    assert "default" not in made["inner"]
    assert made["made"]["default"] == {"a": 2}
    assert {"a", "b"} == made["inner"]["properties"].keys()


class Union(BaseModel):
    value: int | str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    value: int = 0


class Anything(BaseModel):
    value: dict[str, object] = {}


class Recursive(BaseModel):
    child: "Recursive | None" = None


class Pair(BaseModel):
    value: tuple[int, str] = (1, "a")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Union, "anyOf of 2 types at=$.value"),
        (Open, "open object"),
        (Anything, "open object"),
        (Recursive, "recursion=Recursive at=$.child"),
        (Pair, "prefixItems"),
    ],
)
def test_what_a_structural_schema_cannot_express_is_refused_by_name(model, words):
    with pytest.raises(InternalError) as error:
        structural_schema(model.model_json_schema())
    assert words in str(error.value)


def test_a_definition_that_is_too_large_is_refused():
    big = {"spec": {"text": "x" * SIZE_BYTES_MAX}}
    with pytest.raises(InternalError, match="too large"):
        render_definition(big)
