"""Resolves the Java archives that are not part of pyspark, and checks that they are the right ones.

Sets of jars are pinned in ``jars.lock.json``: coordinates, what is left out, and the SHA-256 sum
of every file. They are fetched by Spark's own resolver (``spark-submit --packages``), so a site's
mirrors and credentials, set up for Spark (``spark-defaults.conf``, ``spark.jars.ivySettings``),
apply here too and no download host is written down.

A set is cached under a name derived from its pins and appears there in one step, complete and
verified; what is found there is not fetched again. Used by local runs, tests and image builds;
must not import pyspark, only find where it is installed.

Run as a program: ``python -m headrace.cli.jars resolve spark-kafka --cache DIR`` prints the
paths; ``... lock spark-kafka`` fetches what the coordinates mean today and prints a set's new pins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace.errors import InternalError, InvalidConfigError, StorageUnavailableError

JAVA_VERSION_MIN = 17
RESOLVE_TIMEOUT_S = 600.0

Say = Callable[[str], None]


class Resolution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of the resolver; a set takes several when their versions would conflict."""

    packages: tuple[str, ...]
    """Coordinates, ``group:name:version``."""

    exclude: tuple[str, ...] = ()
    """Dependencies to leave out, ``group:name``."""


class JarSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of jars that belong together."""

    resolutions: tuple[Resolution, ...]
    sha256: dict[str, str]
    """File name, as the resolver gives it, to checksum. Fetched files not named here are ignored:
    they come with Spark already."""

    from_spark: tuple[str, ...] = ()
    """Patterns of jars to take from pyspark itself, which the resolver never fetches; pyspark is
    pinned by its own lock."""

    @property
    def key(self) -> str:
        """A name that changes whenever the set does."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


def read_lock() -> dict[str, JarSet]:
    """Reads the pinned sets, by name."""
    content = (files("headrace.cli") / "jars.lock.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, JarSet])


def resolve_jars(set_name: str, cache_dir: Path, say: Say = lambda _text: None) -> list[Path]:
    """Returns the jars of a set, fetching them first if the cache does not have them.

    Args:
        set_name: A set of the lock, such as ``spark-kafka`` or ``kafka-broker``.
        cache_dir: Directory of the cache; made if missing.
        say: Told in one sentence before a step that takes seconds.

    Returns:
        Absolute paths.

    Raises:
        InvalidConfigError: There is no such set, or Java is missing or too old.
        StorageUnavailableError: The resolver could not fetch them.
        InternalError: A file does not have its pinned checksum.
    """
    pins = read_lock()
    jar_set = pins.get(set_name)
    if jar_set is None:
        raise InvalidConfigError(
            f"no such set of jars: choose one of {', '.join(sorted(pins))} set={set_name}"
        )
    home = (cache_dir / "jars" / f"{set_name}-{jar_set.key}").absolute()
    if not home.is_dir():
        require_java()
        say(f"Fetching {len(jar_set.sha256)} jars ({set_name}), once")
        _fetch_set(set_name, jar_set, home)
    return [*(home / name for name in sorted(jar_set.sha256)), *_find_bundled(jar_set.from_spark)]


def _find_bundled(patterns: Iterable[str]) -> list[Path]:
    """Jars of pyspark itself, exactly one for each pattern."""
    found: list[Path] = []
    for pattern in patterns:
        matches = sorted((find_pyspark() / "jars").glob(pattern))
        if len(matches) != 1:
            raise InternalError(
                "pyspark does not hold exactly one such jar: correct from_spark in jars.lock.json "
                f"pattern={pattern} found={len(matches)}"
            )
        found += matches
    return found


def parse_java_version(output: str) -> int | None:
    """Reads the major version from ``java -version``; version 8 calls itself 1.8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def require_java() -> None:
    """Checks for a Java that Spark can use.

    Raises:
        InvalidConfigError: It is missing or too old; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = None
    if program is not None and Path(program).exists():
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
        version = parse_java_version(done.stderr)
    if version is None or version < JAVA_VERSION_MIN:
        raise InvalidConfigError(
            f"Java {JAVA_VERSION_MIN} or later is needed: install it (on Debian 'apt-get install "
            "openjdk-17-jre-headless') or set JAVA_HOME to it "
            f"java={program} version={version}"
        )


def compute_sha256(path: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def verify_jars(directory: Path, sha256: dict[str, str]) -> None:
    """Checks that a directory holds every pinned file, unaltered.

    Raises:
        InternalError: One is missing or different; nothing of the set may be used.
    """
    for name, expected in sorted(sha256.items()):
        path = directory / name
        actual = compute_sha256(path) if path.exists() else "missing"
        if actual != expected:
            raise InternalError(
                "a fetched jar is not the pinned one: do not use it, and check the mirror that it "
                f"came from jar={name} expected={expected} actual={actual}"
            )


def _fetch_set(set_name: str, jar_set: JarSet, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f".{set_name}-") as scratch:
        fetched = Path(scratch) / "fetched"
        _run_resolver(jar_set.resolutions, Path(scratch), fetched)
        verify_jars(fetched, jar_set.sha256)
        complete = Path(scratch) / "complete"
        complete.mkdir()
        for name in jar_set.sha256:
            (fetched / name).rename(complete / name)
        try:
            complete.rename(home)
        except OSError:
            # Another process fetched the same set meanwhile; its copy is as good.
            if not home.is_dir():
                raise


def _run_resolver(resolutions: Iterable[Resolution], scratch: Path, fetched: Path) -> None:
    """Fetches with Spark's resolver; every resolution has its own Ivy directory."""
    program = scratch / "noop.py"
    program.write_text("")
    fetched.mkdir()
    for number, resolution in enumerate(resolutions):
        ivy = scratch / f"ivy-{number}"
        command = [
            str(find_pyspark() / "bin" / "spark-submit"),
            "--conf", f"spark.jars.ivy={ivy}",
            "--packages", ",".join(resolution.packages),
        ]  # fmt: skip
        if resolution.exclude:
            command += ["--exclude-packages", ",".join(resolution.exclude)]
        done = subprocess.run(
            [*command, str(program)],
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            reasons = [line for line in done.stderr.splitlines() if _tells_reason(line)]
            raise StorageUnavailableError(
                "jars could not be fetched: check the network, or the mirror in Spark's "
                f"spark.jars.ivySettings packages={','.join(resolution.packages)}\n"
                + "\n".join(reasons[-10:])
            )
        for jar in (ivy / "jars").iterdir():
            jar.rename(fetched / jar.name)


def _tells_reason(line: str) -> bool:
    return any(word in line for word in ("not found", "Exception", "ERROR", "UNRESOLVED"))


def find_pyspark() -> Path:
    """Where pyspark is installed, without importing it.

    Raises:
        InvalidConfigError: It is not.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise InvalidConfigError("pyspark is not installed: install headrace with its dependencies")
    return Path(found.submodule_search_locations[0])


def main(
    action: Annotated[str, typer.Argument(help="resolve or lock")],
    set_name: Annotated[str, typer.Argument(help="a set of jars.lock.json")],
    cache: Annotated[Path, typer.Option(help="directory of the cache")] = Path(".cache"),
) -> None:
    """Fetches a set of jars, or prints its pins anew."""
    if action == "resolve":
        for path in resolve_jars(set_name, cache, lambda text: typer.echo(text, err=True)):
            typer.echo(path)
    elif action == "lock":
        jar_set = read_lock()[set_name]
        with tempfile.TemporaryDirectory() as scratch:
            fetched = Path(scratch) / "fetched"
            _run_resolver(jar_set.resolutions, Path(scratch), fetched)
            sums = {jar.name: compute_sha256(jar) for jar in sorted(fetched.iterdir())}
        typer.echo(json.dumps({"sha256": sums}, indent=2))
    else:
        raise InvalidConfigError(f"no such action: say resolve or lock action={action}")


if __name__ == "__main__":
    typer.run(main)
