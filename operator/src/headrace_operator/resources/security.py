"""Security contexts of all pods: accepted by Kubernetes' ``restricted`` Pod Security profile."""

from __future__ import annotations

from typing import Final

USER_ID: Final = 10001
"""Of the runtime image; above 10000, so that it is nobody on the node."""


def pod_security_context() -> dict[str, object]:
    """Return the security context of a pod: not root, volumes writable for the group."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security_context() -> dict[str, object]:
    """Return the security context of a container: no capability, no way to gain one."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
