"""Whether this machine can host an embedded cluster, and what has to be installed for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace_devcluster.errors import MissingToolError, UnsupportedHostError
from headrace_devcluster.progress import Progress

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CNI_PLUGINS = Path("/usr/lib/cni")

NODE_PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
    str(CNI_PLUGINS / "ptp"): "containernetworking-plugins",
}
"""Programs that a node needs, by Debian package."""

IMAGE_PACKAGES: Mapping[str, str] = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
}
"""Programs that image builds need, by Debian package."""

_APT_GET = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
"""Waits up to 300 s for another apt-get instead of failing beside it."""

_ELSEWHERE = (
    "use a cluster that you have instead: set KUBECONFIG (kind, minikube or a real one) "
    "and add --use-kubeconfig"
)


def explain_unsupported(platform: str, user_id: int) -> str | None:
    """Why an embedded cluster cannot run here, with the way out; None if it can.

    Args:
        platform: As in `sys.platform`.
        user_id: The effective user id.
    """
    if platform != "linux":
        return f"the embedded cluster needs Linux: {_ELSEWHERE} platform={platform}"
    if user_id != 0:
        return (
            "the embedded cluster needs root, for namespaces, mounts and network links: run this "
            f"with sudo, or {_ELSEWHERE} uid={user_id}"
        )
    return None


def require_supported() -> None:
    """Raises `UnsupportedHostError` unless this is Linux and the user is root."""
    reason = explain_unsupported(sys.platform, os.geteuid())
    if reason is not None:
        raise UnsupportedHostError(reason)


def list_missing_packages(programs: Mapping[str, str], path: str = SYSTEM_PATH) -> list[str]:
    """The packages whose programs are not there, sorted."""
    return sorted({package for name, package in programs.items() if not _has(name, path)})


def _has(program: str, path: str) -> bool:
    return shutil.which(program, path=path) is not None


def ensure_packages(programs: Mapping[str, str], progress: Progress) -> None:
    """Installs what is missing with apt-get; the caller is root.

    Raises:
        MissingToolError: There is no apt-get, or it failed; the message holds the command.
    """
    missing = list_missing_packages(programs)
    if not missing:
        return
    command = [*_APT_GET, "install", "--yes", "--no-install-recommends", *missing]
    if not _has("apt-get", SYSTEM_PATH):
        raise MissingToolError(
            "programs are missing and this is not Debian: install them with the system's package "
            f"manager, then try again packages={','.join(missing)}"
        )
    with progress.step(f"Installing Debian packages: {' '.join(missing)}"):
        done = _run_apt(command)
        if done.returncode != 0:
            # The usual reason is a package list that is missing or older than the archive.
            _run_apt([*_APT_GET, "update"])
            done = _run_apt(command)
    still_missing = list_missing_packages(programs)
    if done.returncode != 0 or still_missing:
        raise MissingToolError(
            f"packages could not be installed: run '{' '.join(command)}' and correct what it says "
            f"missing={','.join(still_missing)} output={done.stderr.strip()[-500:]!r}"
        )


def _run_apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=False,
    )
