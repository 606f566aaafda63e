"""Pinned sets of jars."""

import hashlib
import os
from pathlib import Path

import pytest

from headrace.cli import jars
from headrace.cli.jars import (
    JarSet,
    Resolution,
    parse_java_version,
    read_lock,
    require_java,
    resolve_jars,
    verify_jars,
)
from headrace.errors import InternalError, InvalidConfigError, StorageUnavailableError

CONTENT = b"a jar"
SUM = hashlib.sha256(CONTENT).hexdigest()
PINNED = JarSet((Resolution(("g:a:1",)),), {"g_a-1.jar": SUM})


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "read_lock", lambda: {"some": PINNED})
    monkeypatch.setattr(jars, "require_java", lambda: None)


def answer_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Puts a script in the place of Spark's resolver."""
    program = tmp_path / "pyspark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(jars, "find_pyspark", lambda: tmp_path / "pyspark")


FETCHES = (
    'ivy=${2#spark.jars.ivy=}; mkdir -p "$ivy/jars"; printf "%s" "a jar" >"$ivy/jars/g_a-1.jar"'
)


@pytest.mark.usefixtures("pinned")
def test_a_set_is_fetched_once_and_then_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer_with(monkeypatch, tmp_path, FETCHES)
    said: list[str] = []
    [first] = resolve_jars("some", tmp_path / "cache", said.append)
    [second] = resolve_jars("some", tmp_path / "cache", said.append)
    assert first == second
    assert first.read_bytes() == CONTENT
    assert len(said) == 1


@pytest.mark.usefixtures("pinned")
def test_a_jar_with_another_checksum_is_refused_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer_with(monkeypatch, tmp_path, FETCHES.replace("a jar", "a forged jar"))
    with pytest.raises(InternalError, match="not the pinned one"):
        resolve_jars("some", tmp_path / "cache")
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


@pytest.mark.usefixtures("pinned")
def test_a_resolver_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer_with(monkeypatch, tmp_path, "echo 'noise' >&2; echo 'g#a;1: not found' >&2; exit 1")
    with pytest.raises(StorageUnavailableError, match="g#a;1: not found") as raised:
        resolve_jars("some", tmp_path / "cache")
    assert "noise" not in str(raised.value)


def test_an_unknown_set_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="kafka-broker, spark-kafka"):
        resolve_jars("nonsense", tmp_path)


def test_a_missing_jar_counts_as_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="actual=missing"):
        verify_jars(tmp_path, {"absent.jar": SUM})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('openjdk version "17.0.19" 2026-04-21', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_202"', 8),
        ("command not found", None),
    ],
)
def test_the_major_version_of_java_is_read(output: str, expected: int | None) -> None:
    assert expected == parse_java_version(output)


@pytest.mark.parametrize("script", ["echo 'openjdk version \"11.0.2\"' >&2", "exit 1"])
def test_an_old_or_broken_java_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfigError, match="Java 17 or later is needed"):
        require_java()


def test_without_any_java_the_same_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(os.environ, "PATH", "/none")
    with pytest.raises(InvalidConfigError, match="Java 17 or later is needed"):
        require_java()


def test_every_pin_is_a_sha256_sum_and_no_host_is_named() -> None:
    lock = read_lock()
    assert {"spark-kafka", "kafka-broker"} == set(lock)
    for jar_set in lock.values():
        assert all(len(sha256) == 64 for sha256 in jar_set.sha256.values())
        assert all(name.endswith(".jar") for name in jar_set.sha256)
        for resolution in jar_set.resolutions:
            assert all(package.count(":") == 2 for package in resolution.packages)


def test_the_key_of_a_set_changes_with_its_pins() -> None:
    other = JarSet(PINNED.resolutions, {"g_a-1.jar": "0" * 64})
    assert PINNED.key != other.key
