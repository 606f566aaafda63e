"""What documents promise is there, and nothing that is tracked belongs to one machine."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from headrace.api.v1alpha1 import StreamJobSpec
from headrace.cli.programs import plan_program

ROOT = Path(__file__).parents[2]
SOURCES = ("runtime/src", "operator/src")

# In two parts each, so that this file does not find itself.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "files.python" + "hosted",
    "repo1.maven" + ".org",
    "repo.maven" + ".apache",
    "proxy.golang" + ".org",
    "registry.npm" + "js",
    "deb.debian" + ".org",
)


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in found if path.is_file()]


def documents() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def code_blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def test_no_tracked_file_names_this_checkout_or_a_registry():
    forbidden = [name.encode() for name in (*REGISTRY_HOSTS, f"{ROOT}/")]

    found = {
        f"{path.relative_to(ROOT)}: {name.decode()}"
        for path in tracked_files()
        for name in forbidden
        if name in path.read_bytes()
    }

    assert set() == found


def test_links_between_documents_lead_to_files_that_exist():
    broken = {
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents()
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    }

    assert set() == broken


def test_anchors_in_documents_are_headings():
    broken = set()
    for document in documents():
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", document.read_text()):
            page = document.parent / target if target else document
            headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
            if anchor not in slugs:
                broken.add(f"{document.relative_to(ROOT)}: {target}#{anchor}")

    assert set() == broken


def architecture_paths() -> set[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.split("\n## Where is what\n")[1].split("\n## ")[0]
    return set(re.findall(r"`([\w./]+)`", table))


def test_every_file_in_the_architecture_table_exists():
    assert {path for path in architecture_paths() if not (ROOT / path).exists()} == set()


def test_every_package_is_found_in_the_architecture_table():
    packages = {
        str(child.relative_to(ROOT))
        for source in SOURCES
        for package in (ROOT / source).iterdir()
        for child in package.iterdir()
        if (child / "__init__.py").exists()
    }

    missing = {
        package
        for package in packages
        if not any(f"{path}/".startswith(f"{package}/") for path in architecture_paths())
    }

    assert set() == missing, "name them in ARCHITECTURE.md, section 'Where is what'"


def test_every_layer_is_named_in_the_architecture_document():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(c for c in contracts if c["name"] == "Layers of the runtime")["layers"]
    text = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Layers\n")[1]

    drawn = text.split("```")[1].split("headrace:\n")[1].splitlines()

    assert layers == [re.split(r"\s{2,}", line.strip())[0] for line in drawn if line.strip()]


def test_every_decision_is_in_the_index():
    directory = ROOT / "docs" / "adr"
    pages = sorted(path.name for path in directory.glob("[0-9]*.md"))
    numbers = [name[:4] for name in pages]

    listed = re.findall(
        r"^\| \[\d{4}\]\(([^)]+)\)", (directory / "README.md").read_text(), re.MULTILINE
    )

    assert pages == listed
    assert sorted(set(numbers)) == numbers, "two decisions have the same number"


def test_the_glossary_is_sorted_and_says_each_word_once():
    lines = (ROOT / "GLOSSARY.md").read_text().splitlines()
    words = [line.split("|")[1].strip(" *\\").lower() for line in lines if line.startswith("| ")]

    assert sorted(set(words[1:]), key=lambda w: w.replace("-", " ")) == words[1:]


def test_the_job_in_the_readme_can_be_planned(tmp_path):
    (program,) = code_blocks(ROOT / "README.md", "python")
    path = tmp_path / "word_count.py"
    path.write_text(program)

    assert 1 == len(plan_program(path, [], {}))


@pytest.mark.parametrize("document", [ROOT / "README.md", *(ROOT / "examples").rglob("*.yaml")])
def test_stream_jobs_in_readme_and_examples_are_valid(document):
    texts = code_blocks(document, "yaml") if document.suffix == ".md" else [document.read_text()]
    jobs = [
        job for text in texts for job in yaml.safe_load_all(text) if job.get("kind") == "StreamJob"
    ]

    for job in jobs:
        StreamJobSpec.model_validate(job["spec"])
    assert jobs or document.suffix == ".yaml"


def locked(name: str) -> set[str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))


def names_of(requirements: list[str | dict[str, str]]) -> set[str]:
    found = (re.match(r"[\w.-]+", text) for text in requirements if isinstance(text, str))
    return {match[0].lower() for match in found if match is not None}


def test_every_dependency_is_locked_with_hashes_and_without_hosts():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = names_of(project["project"]["dependencies"])
    extras = {k: names_of(v) for k, v in project["project"]["optional-dependencies"].items()}
    groups = {k: names_of(v) for k, v in project["dependency-groups"].items()}

    missing = {
        "runtime": (runtime | extras["kafka"] | extras["s3"]) - locked("runtime"),
        "operator": extras["operator"] - locked("operator"),
        "dev": (runtime.union(*extras.values()) | groups["dev"] | groups["bench"]) - locked("dev"),
        "uv": groups["tools"] - locked("uv"),
    }
    texts = [path.read_text() for path in (ROOT / "requirements").glob("*.txt")]

    assert {name: set() for name in missing} == missing, "run: make lock"
    assert not any("://" in text for text in texts)
    assert all(text.count("==") <= text.count("--hash=sha256:") for text in texts)


def test_the_operator_directory_never_hides_the_standard_library():
    assert not (ROOT / "operator" / "__init__.py").exists()
