"""What to show when a run has failed: everything that a person would look at first."""

from __future__ import annotations

from typing import Final

from headrace.api.names import driver_name
from headrace_demo.installation import OPERATOR_NAMESPACE
from headrace_devcluster.kubectl import Kubectl

LOG_LINES: Final = 40


def diagnose(kubectl: Kubectl, namespace: str, job_name: str) -> str:
    """Returns resources, events and ends of logs as text; never fails."""
    driver = driver_name(job_name)
    questions = (
        ("get", "pods", "--all-namespaces", "-o", "wide"),
        ("get", "streamjob", job_name, "-n", namespace, "-o", "yaml"),
        ("get", "events", "-n", namespace, "--sort-by=.lastTimestamp"),
        ("logs", driver, "-n", namespace, f"--tail={LOG_LINES}"),
        ("logs", "deployment/headrace-operator", "-n", OPERATOR_NAMESPACE, f"--tail={LOG_LINES}"),
    )
    parts = []
    for arguments in questions:
        answer = kubectl.attempt(*arguments)
        parts.append(f"--- kubectl {' '.join(arguments)}\n{answer.stdout or answer.stderr}")
    return "\n".join(parts)
