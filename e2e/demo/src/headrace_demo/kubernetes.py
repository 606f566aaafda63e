"""The Kubernetes API over ``kubectl proxy``: any kubeconfig works, and a request costs no process.

`Forward` is the other child process of kubectl's: a way to a Service of a cluster whose network
the host is not part of. Both run in sessions of their own, because Ctrl-C must not end them before
the clean-up that needs them, and end with this process even when it is killed.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

from headrace.testing.processes import DIES_WITH_PARENT
from headrace_demo.errors import ClusterAnswerError, ObjectAbsentError
from headrace_devcluster.kubectl import Kubectl

START_TIMEOUT_S: Final = 15.0
REQUEST_TIMEOUT_S: Final = 10.0
BODY_CHARS_MAX: Final = 300

_HTTP_NOT_FOUND: Final = 404

Object = Mapping[str, object]
"""A Kubernetes object in the form of its API."""


class KubernetesApi:
    """Requests to one API server through a running ``kubectl proxy``."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
        """Returns the body of an object or of what a pod answers through the API server.

        Raises:
            ObjectAbsentError: It does not exist.
            ClusterAnswerError: Any other refusal, or no answer within ``timeout_s`` seconds.
        """
        return self._request("GET", path, None, timeout_s)

    def get_object(self, path: str) -> Object:
        """Returns an object; errors as `get`."""
        return cast("Object", json.loads(self.get(path)))

    def list_objects(self, path: str) -> list[Object]:
        """Returns the items of a list; errors as `get`."""
        return cast("list[Object]", self.get_object(path).get("items") or [])

    def delete(self, path: str, grace_s: int) -> None:
        """Deletes an object; 0 s of grace kills a pod's processes with SIGKILL. Errors as `get`."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_s}
        self._request("DELETE", path, json.dumps(body).encode(), REQUEST_TIMEOUT_S)

    def _request(self, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterAnswerError(
                f"the Kubernetes API does not answer path={path} cause={error!r}"
            ) from error
        finally:
            connection.close()
        if answer.status == _HTTP_NOT_FOUND:
            raise ObjectAbsentError(f"there is no such object path={path}")
        if answer.status >= http.client.BAD_REQUEST:
            text = content.decode(errors="replace")[:BODY_CHARS_MAX]
            raise ClusterAnswerError(
                f"the Kubernetes API refused a request path={path} status={answer.status} "
                f"answer={text!r}"
            )
        return content


@contextmanager
def connect(kubectl: Kubectl) -> Iterator[KubernetesApi]:
    """Runs ``kubectl proxy`` on a free loopback port for the length of the block.

    Raises:
        ClusterAnswerError: It did not start.
    """
    # "Starting to serve on 127.0.0.1:41567"
    with _child(kubectl, "proxy", "--port=0") as line:
        yield KubernetesApi(int(line.rpartition(":")[2]))


@contextmanager
def forward(kubectl: Kubectl, namespace: str, service: str, port: int) -> Iterator[None]:
    """Makes a Service's port reachable at the same port of 127.0.0.1 for the length of the block.

    Raises:
        ClusterAnswerError: The port is taken, or there is no such Service.
    """
    ports = f"{port}:{port}"
    with _child(kubectl, "port-forward", "--namespace", namespace, f"service/{service}", ports):
        yield


@contextmanager
def _child(kubectl: Kubectl, *arguments: str) -> Iterator[str]:
    """Runs a command of kubectl's that says one line when it is ready."""
    process = subprocess.Popen(  # noqa: S603 - kubectl, with arguments from here
        [
            *DIES_WITH_PARENT,
            *kubectl.command,
            f"--kubeconfig={kubectl.kubeconfig}",
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    # Ends the wait for the line below, and nothing once the line is there.
    overdue = threading.Timer(START_TIMEOUT_S, process.kill)
    overdue.start()
    try:
        line = process.stdout.readline().strip() if process.stdout is not None else ""
        overdue.cancel()
        if not line or process.poll() is not None or "error" in line.lower():
            raise ClusterAnswerError(
                f"kubectl did not start: try the command by hand arguments={' '.join(arguments)!r} "
                f"output={line!r}"
            )
        yield line
    finally:
        overdue.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
