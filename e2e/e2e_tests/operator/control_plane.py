"""A real kube-apiserver and etcd on loopback, without controllers and nodes.

What the operator may rely on is exactly what this API server does: validation, CEL, server-side
apply, conflicts, finalizers, RBAC. Nothing else acts, so every object that appears or goes is the
operator's doing or the test's.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

START_S = 60.0
_ADMIN_TOKEN = "admin-of-this-test"


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class ControlPlane:
    """A running API server."""

    kube: Path
    url: str
    kubeconfig: Path
    authority: Path
    directory: Path

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator."""
        done = subprocess.run(
            [self.kube, "kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done

    def apply(self, *manifests: dict[str, Any], check: bool = True, options: tuple[str, ...] = ()):
        """Run ``kubectl apply -f -``."""
        text = yaml.safe_dump_all(manifests)
        return self.kubectl("apply", *options, "-f", "-", stdin=text, check=check)

    def get(self, *arguments: str) -> Any:
        """Return the answer of ``kubectl get -o json``; None when there is no such object."""
        done = self.kubectl("get", *arguments, "-o", "json", check=False)
        if done.returncode != 0 and "NotFound" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """Return a kubeconfig of whoever holds ``token``."""
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(_kubeconfig(self.url, self.authority, token), encoding="utf-8")
        return path


def _kubeconfig(url: str, authority: Path, token: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": url, "certificate-authority": str(authority)}}
            ],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


@contextmanager
def run_control_plane(kube: Path, directory: Path) -> Iterator[ControlPlane]:
    """Run etcd and an API server for as long as the context lasts."""
    etcd, peer, secure = free_port(), free_port(), free_port()
    key, public = directory / "sa.key", directory / "sa.pub"
    _openssl("genrsa", "-out", str(key), "2048")
    _openssl("rsa", "-in", str(key), "-pubout", "-out", str(public))
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{_ADMIN_TOKEN},admin,admin-uid,system:masters\n", encoding="utf-8")
    kubeconfig = directory / "admin.kubeconfig"
    url = f"https://127.0.0.1:{secure}"
    authority = directory / "certs" / "apiserver.crt"  # self-signed, made at its start
    kubeconfig.write_text(_kubeconfig(url, authority, _ADMIN_TOKEN), encoding="utf-8")
    with ExitStack() as stack:
        stack.enter_context(
            _process(
                directory / "etcd.log",
                [
                    str(kube),
                    "etcd",
                    f"--data-dir={directory / 'etcd'}",
                    f"--client-url=http://127.0.0.1:{etcd}",
                    f"--peer-url=http://127.0.0.1:{peer}",
                ],
            )
        )
        stack.enter_context(
            _process(
                directory / "apiserver.log",
                [
                    str(kube),
                    "apiserver",
                    f"--etcd-servers=http://127.0.0.1:{etcd}",
                    f"--cert-dir={directory / 'certs'}",
                    f"--secure-port={secure}",
                    "--bind-address=127.0.0.1",
                    "--advertise-address=127.0.0.1",
                    "--endpoint-reconciler-type=none",
                    "--service-cluster-ip-range=10.96.0.0/16",
                    f"--token-auth-file={tokens}",
                    "--authorization-mode=RBAC",
                    # Its controller does not run here: pods would wait for accounts for ever.
                    "--disable-admission-plugins=ServiceAccount",
                    "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    f"--service-account-key-file={public}",
                    f"--service-account-signing-key-file={key}",
                ],
            )
        )
        plane = ControlPlane(kube, url, kubeconfig, authority, directory)
        _wait_ready(plane)
        yield plane


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@contextmanager
def _process(log: Path, command: list[str]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(plane: ControlPlane) -> None:
    deadline = time.monotonic() + START_S
    while plane.kubectl("get", "--raw", "/readyz", check=False).returncode != 0:
        if time.monotonic() > deadline:
            log = (plane.directory / "apiserver.log").read_text(encoding="utf-8")[-4000:]
            raise AssertionError(f"the API server did not start: {log}")
        time.sleep(0.2)


def find_kube() -> Path:
    """Return the program that holds all of Kubernetes, building it the first time (minutes)."""
    from headrace_devcluster.cluster import make_toolchain
    from headrace_devcluster.progress import Progress
    from headrace_devcluster.settings import Settings
    from headrace_devcluster.toolchain import KUBE

    settings = Settings.from_environment(os.environ)
    return make_toolchain(settings, Progress.to_stderr()).build_program(KUBE)
