"""Java Flink and PyFlink for the comparison: one virtual environment, one compiled program.

The Python package holds Flink's jars, RocksDB among them. Its dependencies contradict ours, so it
lives in the cache, under the name of its locked requirements; it is installed by the uv of this
checkout and appears complete or not at all.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.cache import cache_dir

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements" / "peers.txt"
SOURCE = Path(__file__).with_name("FlinkCount.java")
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


@dataclass(frozen=True)
class Flink:
    """Where an installation is."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def package(self) -> Path:
        return next(self.home.glob("lib/python3.*/site-packages/pyflink"))

    @property
    def class_path(self) -> str:
        return f"{self.home}/classes:{self.package}/lib/*"

    @property
    def java_options(self) -> list[str]:
        """What Flink's own configuration says a JVM needs."""
        config = (self.package / "conf" / "config.yaml").read_text()
        found = re.search(r"^\s+all: (--add-.*)$", config, re.MULTILINE)
        if found is None:
            raise SystemExit("Flink's config.yaml names no Java options: adapt the expression")
        logging = self.package / "conf" / "log4j-console.properties"
        return [*found[1].split(), f"-Dlog4j.configurationFile={logging}"]


def install() -> Flink:
    """Return Flink, installing and compiling what is missing."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    flink = Flink(cache_dir() / f"flink-{key}")
    if not (flink.home / "complete").exists():
        print("Installing Flink into the cache (once, 700 MB)", file=sys.stderr, flush=True)
        shutil.rmtree(flink.home, ignore_errors=True)
        flink.home.parent.mkdir(parents=True, exist_ok=True)
        run(UV, "venv", "--quiet", "--python", sys.executable, flink.home)
        run(
            *(UV, "pip", "sync", "--quiet", "--require-hashes"),
            *("--python", flink.python, REQUIREMENTS),
        )
        (flink.home / "complete").touch()
    classes = flink.home / "classes"
    compiled = classes / "FlinkCount.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        run("javac", "-cp", flink.class_path, "-d", classes, SOURCE)
    return flink


def run(*command: str | Path) -> None:
    """Run a step of the installation, its output on standard error."""
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)
