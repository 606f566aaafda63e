"""Plays the node and the job inside: runs driver pods, answers for them, ends deleted pods.

One thread looks at the pods of one namespace several times a second. It also keeps the books that
matter most: every driver pod that ever was, and how many there were at once.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import kubernetes

from headrace.api.driver import CheckpointSummary, JobState, JobStatus

DRIVER_IP = "127.0.0.1"


class JobServer:
    """The REST API of a driver, with a job that tests can change."""

    def __init__(self) -> None:
        self.state = JobState.RUNNING
        self.changes: dict[str, Any] = {}
        self.is_silent = False
        self.generation = 1
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if server.is_silent:
                    self.send_error(503)
                    return
                body = server.status(self.path.rsplit("/", 1)[-1]).model_dump_json(by_alias=True)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer((DRIVER_IP, 0), Handler)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def status(self, job_id: str) -> JobStatus:
        """Return what the driver says: by default a job that is ready."""
        checkpoint = CheckpointSummary(
            id=self.generation,
            status="COMPLETED",
            generation=self.generation,
            epoch=5,
            path=f"s3://ckpt/{job_id}/chk-{self.generation}",
            trigger_ms=1,
            completed_ms=1_750_000_000_000,
        )
        job = JobStatus(
            job_id=job_id,
            name="job",
            state=self.state,
            generation=self.generation,
            parallelism=2,
            epoch=5,
            epochs_committed=5,
            last_checkpoint=checkpoint,
        )
        return job.model_copy(update=self.changes)


class Node:
    """A kubelet for one namespace, as far as the operator can tell."""

    def __init__(self, kubeconfig: str, namespace: str, job: JobServer) -> None:
        client = kubernetes.config.new_client_from_config(kubeconfig)
        self._core = kubernetes.client.CoreV1Api(client)
        self._namespace = namespace
        self._job = job
        self._stop = threading.Event()
        self.drivers_seen: list[str] = []
        self.most_at_once = 0
        self.runs_pods = True
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                self._look()
            except kubernetes.client.ApiException as error:
                if error.status not in {404, 409}:
                    self.errors.append(error)

    def _look(self) -> None:
        pods = self._core.list_namespaced_pod(self._namespace).items
        drivers = [
            p for p in pods if (p.metadata.labels or {}).get("headrace.dev/role") == "driver"
        ]
        self.most_at_once = max(self.most_at_once, len(drivers))
        for pod in drivers:
            if pod.metadata.uid not in self.drivers_seen:
                self.drivers_seen.append(pod.metadata.uid)
        if not self.runs_pods:
            return
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                self._core.delete_namespaced_pod(
                    pod.metadata.name, self._namespace, grace_period_seconds=0
                )
            elif pod.spec.node_name is None:
                self._bind(pod.metadata.name)
            elif pod.status.phase == "Pending":
                self._job.generation = len(self.drivers_seen)
                self.report(pod.metadata.name, running_status(pod.spec.containers[0].name))

    def _bind(self, name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self._core.create_namespaced_pod_binding(
            name, self._namespace, body, _preload_content=False
        )

    def report(self, name: str, status: dict[str, Any]) -> None:
        """Write the status of a pod."""
        self._core.patch_namespaced_pod_status(name, self._namespace, {"status": status})

    def end_driver(self, name: str, exit_code: int, message: str) -> None:
        """The driver's process ends and leaves a termination message."""
        ended = {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "message": message,
            "finishedAt": "2026-05-01T12:00:00Z",
        }
        container = {
            **_container("driver"),
            "ready": False,
            "state": {"terminated": ended},
        }
        phase = "Failed" if exit_code else "Succeeded"
        self.report(name, {"phase": phase, "containerStatuses": [container]})

    def hold_back(self, name: str, reason: str, message: str) -> None:
        """The kubelet cannot start the container."""
        waiting = {"waiting": {"reason": reason, "message": message}}
        container = {**_container("driver"), "ready": False, "state": waiting}
        self.report(name, {"phase": "Pending", "containerStatuses": [container]})


def _container(name: str) -> dict[str, Any]:
    return {"name": name, "image": "i", "imageID": "i", "restartCount": 0}


def running_status(container: str) -> dict[str, Any]:
    """Return the status of a pod that runs and is ready."""
    state = {"running": {"startedAt": "2026-05-01T12:00:00Z"}}
    return {
        "phase": "Running",
        "podIP": DRIVER_IP,
        "podIPs": [{"ip": DRIVER_IP}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{**_container(container), "ready": True, "state": state}],
    }


def parse_events(listing: dict[str, Any]) -> dict[str, str]:
    """Return messages of events by their reason."""
    return {event["reason"]: event["message"] for event in listing["items"]}
