"""Calls the Kubernetes API through kubectl, which is part of the ``kube`` program."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.processes import DIES_WITH_PARENT
from headrace_devcluster.errors import ClusterFailedError

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl bound to one kubeconfig."""

    command: tuple[str, ...]
    """``kube kubectl`` of the embedded cluster, or a ``kubectl`` from PATH."""

    kubeconfig: Path

    def run(self, *arguments: str, stdin: str | None = None, timeout_s: float = TIMEOUT_S) -> str:
        """Runs a command and returns its standard output.

        Raises:
            ClusterFailedError: It failed or took too long; the message holds its error output.
        """
        try:
            done = self.attempt(*arguments, stdin=stdin, timeout_s=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ClusterFailedError(
                "kubectl got no answer in time: check 'headrace cluster status' "
                f"arguments={' '.join(arguments)!r} timeout_s={timeout_s}"
            ) from error
        if done.returncode != 0:
            raise ClusterFailedError(
                "kubectl failed: correct what its output names "
                f"arguments={' '.join(arguments)!r} output={done.stderr.strip()!r}"
            )
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command whose failure is an answer, too."""
        return subprocess.run(
            [
                *DIES_WITH_PARENT,
                *self.command,
                f"--kubeconfig={self.kubeconfig}",
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def apply(self, manifests: str) -> None:
        """Applies YAML documents, server side, as the one owner of their fields."""
        self.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
