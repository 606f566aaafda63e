"""Many StreamJobs at once on one operator (OP55), against a real kube-apiserver and etcd.

The benchmark plays the users, the node and the drivers; operator, API server and etcd share the
machine with it, so latencies are upper bounds. CPU seconds are the operator's own and do not
depend on other load. Prints one JSON line last:

- ``create_to_pod_s``: from the answer to a job's creation until its driver pod exists
- ``create_s``, ``all_pods_s``, ``all_ready_s``: first creation to last one, last pod, last Ready
- ``change_to_stop_s``: all images change at once; until each old driver is asked to stop
- ``idle_cores``, ``idle_status_writes``: the operator while nothing changes
- ``cpu_s``: the operator's CPU seconds in each phase; ``rss_mib``: its peak memory
- ``requests``: of the operator to the API server in each phase, a job
- ``delete_s``: until the last of all jobs is gone

    python bench/operator_scale.py --jobs 500
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "e2e"))

from e2e_tests.operator.control_plane import (  # noqa: E402 - found by the line above
    ControlPlane,
    find_kube,
    free_port,
    run_control_plane,
)

from headrace.api.driver import CheckpointSummary, JobState, JobStatus  # noqa: E402

JOBS = "/apis/headrace.dev/v1alpha1"
NAMESPACE = "bench"
DRIVER_IP = "127.0.0.1"
PHASES = ("create", "start", "idle", "change", "delete")
PHASE_TIMEOUT_S = 240.0
SETTLE_S = 10.0
MERGE_PATCH = "application/merge-patch+json"


class Api:
    """The Kubernetes API as administrator, on few connections."""

    def __init__(self, plane: ControlPlane, connections: int) -> None:
        config = yaml.safe_load(plane.kubeconfig.read_text())
        tls = ssl.create_default_context(cafile=str(plane.authority))
        token = config["users"][0]["user"]["token"]
        self._session = aiohttp.ClientSession(
            plane.url,
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._slots = asyncio.Semaphore(connections)

    async def close(self) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """One request; 404 and 409 are answers, everything else that is not 2xx an error."""
        async with (
            self._slots,
            self._session.request(
                method,
                path,
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type},
            ) as answer,
        ):
            content = await answer.json()
            if answer.status >= 400 and answer.status not in {404, 409}:
                raise RuntimeError(f"{method} {path}: {content}")
            return content

    async def watch(self, path: str, query: str = "") -> AsyncIterator[dict[str, Any]]:
        """Yield the watch events of a list, from its beginning."""
        # A fresh definition is refused at first: its storage is being made.
        for _ in range(50):
            if (await self._session.get(path)).status == 200:
                break
            await asyncio.sleep(0.2)
        version = "0"
        while True:  # the API server drops watchers that fall behind
            url = f"{path}?watch=true&resourceVersion={version}&{query}"
            async with self._session.get(url, raise_for_status=True) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = json.loads(line)
                        version = event["object"]["metadata"]["resourceVersion"]
                        yield event


@dataclass
class Books:
    """When what was seen, by name of the job; seconds of the monotonic clock."""

    created: dict[str, float] = field(default_factory=dict)
    pod: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    stopped: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    job_writes: int = 0

    def see_job(self, event: dict[str, Any]) -> None:
        name, now = event["object"]["metadata"]["name"], time.monotonic()
        if event["type"] == "DELETED":
            self.gone[name] = now
            return
        self.job_writes += event["type"] == "MODIFIED"
        conditions = event["object"].get("status", {}).get("conditions", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            self.ready.setdefault(name, now)

    def see_driver(self, event: dict[str, Any]) -> None:
        metadata, now = event["object"]["metadata"], time.monotonic()
        name = metadata["labels"]["headrace.dev/job"]
        self.pod.setdefault(name, now)
        is_stopped = event["type"] == "DELETED" or "deletionTimestamp" in metadata
        if is_stopped and name in self.changed:
            self.stopped.setdefault(name, now)


class Node:
    """Runs driver pods as soon as it may, and ends those that are deleted."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.may_run = asyncio.Event()
        self._bound: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def see_driver(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        uid, metadata = pod["metadata"]["uid"], pod["metadata"]
        if event["type"] == "DELETED":
            return
        if "deletionTimestamp" in metadata:
            self._start(self._end(metadata["name"], uid))
        elif uid not in self._bound:
            self._bound.add(uid)
            self._start(self._run(metadata["name"]))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, name: str) -> None:
        await self.may_run.wait()
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        target = {"apiVersion": "v1", "kind": "Node", "name": "node1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        await self._api.call("POST", f"{path}/binding", {**binding, "target": target})
        container = {"name": "driver", "image": "i", "imageID": "i", "restartCount": 0}
        state = {"running": {"startedAt": "2026-05-01T12:00:00Z"}}
        status = {
            "phase": "Running",
            "podIP": DRIVER_IP,
            "podIPs": [{"ip": DRIVER_IP}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{**container, "ready": True, "state": state}],
        }
        await self._api.call("PATCH", f"{path}/status", {"status": status}, MERGE_PATCH)

    async def _end(self, name: str, uid: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.call("DELETE", path, options)


def answer_of_driver(job_id: str) -> str:
    """What every driver says: a job that is stable, and of which nothing changes."""
    checkpoint = CheckpointSummary(
        id=9,
        status="COMPLETED",
        generation=1,
        epoch=90,
        path=f"s3://ckpt/{job_id}/chk-9",
        trigger_ms=1,
        completed_ms=1_750_000_000_000,
    )
    job = JobStatus(
        job_id=job_id,
        name="job",
        state=JobState.RUNNING,
        generation=1,
        parallelism=2,
        epoch=90,
        epochs_committed=90,
        last_checkpoint=checkpoint,
    )
    return job.model_dump_json(by_alias=True)


@asynccontextmanager
async def drivers() -> AsyncIterator[int]:
    """Serve the REST API of all drivers on one port."""

    async def answer(request: web.Request) -> web.Response:
        text = answer_of_driver(request.match_info["id"])
        return web.Response(text=text, content_type="application/json")

    app = web.Application()
    app.router.add_get("/jobs/{id}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, DRIVER_IP, port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


class Operator:
    """The operator's process, with its own account, and what it costs."""

    def __init__(self, kubeconfig: Path, driver_port: int, log: Path, profile: str) -> None:
        self._metrics_port = free_port()
        profiler = ["-m", "cProfile", "-o", profile] if profile else []
        command = [
            sys.executable,
            *profiler,
            "-m",
            "headrace_operator",
            "run",
            "--all-namespaces",
            f"--driver-port={driver_port}",
            "--health-port=0",
            f"--metrics-port={self._metrics_port}",
        ]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_mib(self) -> int:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        return int(found.group(1)) // 1024 if found else 0

    async def requests(self) -> int:
        """Requests to the API server so far, as the operator counts them."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()
        found = re.findall(
            r"^headrace_operator_api_requests_total\{.*\} (\S+)$", text, re.MULTILINE
        )
        return int(sum(float(value) for value in found))


def install(plane: ControlPlane) -> Path:
    """Install definitions and the operator's account; return the account's kubeconfig."""
    plane.kubectl("apply", "-f", str(ROOT / "crds"))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    printed = subprocess.run(
        [sys.executable, "-m", "headrace_operator", "manifests"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    plane.apply(*yaml.safe_load_all(printed))
    plane.kubectl("create", "namespace", NAMESPACE)
    token = plane.kubectl("create", "token", "headrace-operator", "-n", "headrace-system")
    return plane.kubeconfig_for(token.stdout.strip(), "operator")


def job_manifest(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "image": "registry.local/job:1",
            "program": {"file": "/opt/job.py"},
            "parallelism": 2,
            "config": {
                "execution.checkpointing.interval": "30 s",
                "execution.checkpointing.dir": "s3://checkpoints/bench",
            },
        },
    }


async def until(what: str, check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PHASE_TIMEOUT_S
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.02)


async def each(names: Iterable[str], do: Callable[[str], Awaitable[None]]) -> None:
    await asyncio.gather(*(do(name) for name in names))


def quantiles(ends: dict[str, float], starts: dict[str, float]) -> dict[str, float]:
    waits = sorted(ends[name] - starts[name] for name in starts)
    last = len(waits) - 1
    picked = {"p50": waits[last // 2], "p99": waits[round(last * 0.99)], "max": waits[last]}
    return {name: round(max(value, 0.0), 2) for name, value in picked.items()}


class Bench:
    """The phases, one after the other, over one operator."""

    def __init__(self, api: Api, operator: Operator, jobs: int) -> None:
        self._api = api
        self._operator = operator
        self._names = [f"job-{number}" for number in range(jobs)]
        self.books = Books()
        self.node = Node(api)
        self._cpu_s: dict[str, float] = {}
        self._requests: dict[str, float] = {}

    async def watch_jobs(self) -> None:
        async for event in self._api.watch(f"{JOBS}/streamjobs"):
            self.books.see_job(event)

    async def watch_drivers(self) -> None:
        query = "labelSelector=headrace.dev/role%3Ddriver"
        async for event in self._api.watch("/api/v1/pods", query):
            self.books.see_driver(event)
            self.node.see_driver(event)

    async def warm_up(self) -> None:
        """The operator is up when it has made a driver."""
        await self._api.call("POST", self._path(), job_manifest("warm-up"))
        await until("the operator starts", lambda: "warm-up" in self.books.pod)
        await self._api.call("DELETE", self._path("warm-up"))
        await until("warm-up is gone", lambda: "warm-up" in self.books.gone)
        self.books.gone.clear()

    async def run(self, phases: tuple[str, ...], idle_s: float) -> dict[str, Any]:
        """Run the phases in their order; return what was measured."""
        steps: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
            "create": self._create_all,
            "start": self._start_all,
            "idle": functools.partial(self._idle, idle_s),
            "change": self._change_all,
            "delete": self._delete_all,
        }
        result: dict[str, Any] = {"jobs": len(self._names)}
        for phase in phases:
            cpu_s, requests = self._operator.cpu_s(), await self._operator.requests()
            result |= await steps[phase]()
            self._cpu_s[phase] = round(self._operator.cpu_s() - cpu_s, 2)
            done = await self._operator.requests() - requests
            self._requests[phase] = round(done / len(self._names), 1)
            print(f"{phase}: cpu_s={self._cpu_s[phase]} {result}", file=sys.stderr, flush=True)
        result |= {"cpu_s": self._cpu_s, "requests": self._requests}
        return result | {"rss_mib": self._operator.peak_rss_mib()}

    async def _create_all(self) -> dict[str, Any]:
        books, started = self.books, time.monotonic()
        await each(self._names, self._create)
        await until("all pods", lambda: books.created.keys() <= books.pod.keys())
        return {
            "create_to_pod_s": quantiles(books.pod, books.created),
            "create_s": round(max(books.created.values()) - started, 1),
            "all_pods_s": round(max(books.pod[n] for n in self._names) - started, 1),
        }

    async def _start_all(self) -> dict[str, Any]:
        started = time.monotonic()
        self.node.may_run.set()
        await until("all ready", lambda: len(self._names) == len(self.books.ready))
        await asyncio.sleep(SETTLE_S)
        return {"all_ready_s": round(max(self.books.ready.values()) - started, 1)}

    async def _idle(self, idle_s: float) -> dict[str, Any]:
        writes, cpu_s = self.books.job_writes, self._operator.cpu_s()
        await asyncio.sleep(idle_s)
        cores = (self._operator.cpu_s() - cpu_s) / idle_s
        return {
            "idle_cores": round(cores, 3),
            "idle_status_writes": self.books.job_writes - writes,
        }

    async def _change_all(self) -> dict[str, Any]:
        books = self.books
        await each(self._names, self._change)
        await until("all stopped", lambda: len(self._names) == len(books.stopped))
        return {"change_to_stop_s": quantiles(books.stopped, books.changed)}

    async def _delete_all(self) -> dict[str, Any]:
        await asyncio.sleep(SETTLE_S)
        deleting = time.monotonic()
        await each(self._names, self._delete)
        await until("all gone", lambda: len(self._names) == len(self.books.gone))
        return {"delete_s": round(max(self.books.gone.values()) - deleting, 1)}

    def _path(self, name: str = "") -> str:
        path = f"{JOBS}/namespaces/{NAMESPACE}/streamjobs"
        return f"{path}/{name}" if name else path

    async def _create(self, name: str) -> None:
        await self._api.call("POST", self._path(), job_manifest(name))
        self.books.created[name] = time.monotonic()

    async def _change(self, name: str) -> None:
        self.books.changed[name] = time.monotonic()
        patch = {"spec": {"image": "registry.local/job:2"}}
        await self._api.call("PATCH", self._path(name), patch, MERGE_PATCH)
        self.books.changed[name] = time.monotonic()

    async def _delete(self, name: str) -> None:
        await self._api.call("DELETE", self._path(name))


async def measure(plane: ControlPlane, options: argparse.Namespace) -> dict[str, Any]:
    """Run all phases; return the numbers."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(drivers())
        api = Api(plane, options.connections)
        stack.push_async_callback(api.close)
        operator = Operator(install(plane), port, Path(options.log), options.profile)
        stack.callback(operator.stop)
        bench = Bench(api, operator, options.jobs)
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(bench.watch_jobs())]
            watches.append(group.create_task(bench.watch_drivers()))
            await bench.warm_up()
            phases = PHASES[: PHASES.index(options.until) + 1]
            result = await bench.run(phases, options.idle_s)
            for watch in watches:
                watch.cancel()
        return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--idle-s", type=float, default=60)
    parser.add_argument("--connections", type=int, default=16, help="of users and node")
    parser.add_argument("--profile", default="", help="write a cProfile of the operator here")
    parser.add_argument("--log", default=os.devnull, help="write the operator's log here")
    parser.add_argument("--until", choices=PHASES, default=PHASES[-1], help="the last phase")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with (
        tempfile.TemporaryDirectory() as directory,
        run_control_plane(find_kube(), Path(directory)) as plane,
    ):
        result = asyncio.run(measure(plane, options))
    print(json.dumps({"name": "operator_scale", **result}))


if __name__ == "__main__":
    main()
