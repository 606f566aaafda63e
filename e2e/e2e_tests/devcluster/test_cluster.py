"""Embedded clusters, for real: pods, names, Services, two side by side, and what a kill leaves.

These tests use clusters and a directory of their own, beside any that the developer has up.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml

from e2e_tests.devcluster.machine import Inventory
from headrace_devcluster import Cluster, Settings
from headrace_devcluster.cluster import locate_cluster, take_down
from headrace_devcluster.dns import resolve_name
from headrace_devcluster.polling import poll_until
from headrace_devcluster.progress import Progress

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

IMAGE = "registry.local/headrace-operator:dev"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
KILLED_UPS = 6
"""How often ``up`` is killed, at moments spread over all of it."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with an own directory of clusters; the cache is the developer's."""
    root = tmp_path_factory.mktemp("clusters")
    return Settings.from_environment({**os.environ, "HEADRACE_CLUSTERS": str(root)})


@pytest.fixture(scope="module")
def cluster(settings: Settings) -> Iterator[Cluster]:
    try:
        up = Cluster.up("e2e-first", settings, Progress.silent())
        up.load("operator")
        yield up
    finally:
        take_down(locate_cluster("e2e-first", settings))


def pod(name: str, *command: str, **spec: object) -> str:
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "securityContext": RESTRICTED,
        **spec,
    }
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        }
    )


def run_pod(cluster: Cluster, name: str, *command: str, **spec: object) -> str:
    """Runs a pod to its end and returns what it printed."""
    cluster.kubectl.apply(pod(name, *command, **spec))

    def ended() -> bool:
        phase = cluster.kubectl.run("get", "pod", name, "-o", "jsonpath={.status.phase}")
        return phase in {"Succeeded", "Failed"}

    assert poll_until(ended, 60, 0.2), cluster.kubectl.run("describe", "pod", name)
    printed = cluster.kubectl.run("logs", name)
    cluster.kubectl.run("delete", "pod", name, "--now")
    return printed


def wait_ready(cluster: Cluster, name: str) -> None:
    cluster.kubectl.run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


def test_a_pod_of_a_plain_user_runs_and_its_output_is_read(cluster: Cluster) -> None:
    assert run_pod(cluster, "hello", "sh", "-c", "id -u; echo hello") == "10001\nhello\n"


def test_the_node_is_the_kubernetes_release_that_is_pinned(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl.run("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith("v1.34.")
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]


def test_pods_resolve_services_and_call_the_api_with_their_own_account(cluster: Cluster) -> None:
    program = """
import socket, ssl, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
print(socket.gethostbyname("kubernetes.default.svc.cluster.local"))
request = urllib.request.Request("https://kubernetes.default.svc/api/v1/namespaces")
request.add_header("Authorization", "Bearer " + open(account + "token").read())
trust = ssl.create_default_context(cafile=account + "ca.crt")
try:
    urllib.request.urlopen(request, context=trust)
except urllib.error.HTTPError as refused:
    print(refused.code)
"""
    printed = run_pod(cluster, "caller", "python3", "-c", program)
    # 403, not 401: the account is known, the certificate is trusted, and RBAC is on.
    assert printed == f"{cluster.addresses.api_service}\n403\n"


def test_a_pod_that_exceeds_its_memory_limit_is_killed(cluster: Cluster) -> None:
    cluster.kubectl.apply(
        pod(
            "greedy",
            "python3",
            "-c",
            "x = b'1' * (256 << 20)",
            resources={"limits": {"memory": "64Mi"}},
        )
    )
    query = "jsonpath={.status.containerStatuses[0].state.terminated.reason}"

    def reason() -> str:
        return cluster.kubectl.run("get", "pod", "greedy", "-o", query)

    assert poll_until(lambda: reason() != "", 60, 0.2)
    assert reason() == "OOMKilled"


def test_the_host_reaches_pods_and_services_and_pods_reach_each_other_through_services(
    cluster: Cluster,
) -> None:
    cluster.kubectl.apply(pod("server", "python3", "-m", "http.server", "8000", "-d", "/etc/apt"))
    cluster.kubectl.run("expose", "pod", "server", "--port=80", "--target-port=8000")
    wait_ready(cluster, "server")
    address = cluster.kubectl.run("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
    service = cluster.kubectl.run("get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")
    name = "server.default.svc.cluster.local"

    def answers(url: str) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2) as response:
                return b"sources.list" in response.read()
        except OSError:
            return False

    assert poll_until(lambda: answers(f"http://{address}:8000/"), 30)
    assert poll_until(lambda: answers(f"http://{service}/"), 30)
    assert poll_until(
        lambda: resolve_name(cluster.addresses.dns_service, name) == [IPv4Address(service)], 30
    )
    call = f"import urllib.request; print(urllib.request.urlopen('http://{name}/').status)"
    assert run_pod(cluster, "client", "python3", "-c", call) == "200\n"
    # To itself, through its own Service: the way back must pass address translation, too.
    assert cluster.kubectl.run("exec", "server", "--", "python3", "-c", call) == "200\n"


def test_no_packet_leaves_the_machine(cluster: Cluster) -> None:
    program = """
import errno, socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert run_pod(cluster, "escape", "python3", "-c", program) in {
        "ENETUNREACH\n",
        "EHOSTUNREACH\n",
    }


def test_a_pod_that_changes_files_of_its_image_changes_nothing_for_others(cluster: Cluster) -> None:
    """Layers are hard links of the build's own files: nothing may write through them."""
    change = "echo spoilt >>/etc/debian_version; chmod 0777 /etc/passwd; cat /etc/debian_version"
    root = {"securityContext": {"runAsUser": 0}}
    assert "spoilt" in run_pod(cluster, "vandal", "sh", "-c", change, **root)
    look = "cat /etc/debian_version; stat -c %a /etc/passwd"
    assert run_pod(cluster, "witness", "sh", "-c", look).endswith("\n644\n")
    assert "spoilt" not in run_pod(cluster, "witness", "sh", "-c", look)
    store = Settings.from_environment(os.environ).cache / "buildah" / "store" / "overlay"
    files = list(store.glob("*/diff/etc/debian_version"))
    assert files
    assert not any("spoilt" in file.read_text() for file in files)


def test_up_is_idempotent_and_finds_what_it_made(cluster: Cluster, settings: Settings) -> None:
    again = Cluster.up("e2e-first", settings, Progress.silent())
    assert again.record == cluster.record
    assert Cluster.find("e2e-first", settings).record == cluster.record


def test_a_second_cluster_runs_beside_the_first_and_goes_without_touching_it(
    cluster: Cluster, settings: Settings
) -> None:
    before = Inventory.take(settings.root, "e2e-second")
    with Cluster.up("e2e-second", settings, Progress.silent()) as second:
        assert second.addresses.index != cluster.addresses.index
        for one in (cluster, second):
            one.kubectl.run("create", "configmap", f"only-in-{one.name}")
        assert "only-in-e2e-second" not in cluster.kubectl.run("get", "configmaps", "-o", "name")
        assert "only-in-e2e-second" in second.kubectl.run("get", "configmaps", "-o", "name")
    assert Inventory.take(settings.root, "e2e-second").added_since(before) == {}
    assert run_pod(cluster, "still-here", "echo", "yes") == "yes\n"


def test_a_component_that_died_is_noticed_and_up_starts_the_cluster_anew(
    settings: Settings,
) -> None:
    before = Inventory.take(settings.root, "e2e-broken")
    first = Cluster.up("e2e-broken", settings, Progress.silent())
    os.kill(first.record.components["scheduler"].pid, signal.SIGKILL)
    second = Cluster.up("e2e-broken", settings, Progress.silent())
    assert second.record.holder != first.record.holder
    assert second.kubectl.run("get", "nodes", "--no-headers").split()[1] == "Ready"
    second.down()
    second.down()
    assert Inventory.take(settings.root, "e2e-broken").added_since(before) == {}


def test_down_leaves_nothing_wherever_up_was_killed(
    settings: Settings, request: pytest.FixtureRequest
) -> None:
    """Kills ``up`` with SIGKILL at moments spread over all of it, then takes stock."""
    seed = random.SystemRandom().randrange(1 << 32)
    request.node.user_properties.append(("seed", seed))
    print(f"seed={seed}")  # noqa: T201 - shown when the test fails
    moments = random.Random(seed)
    layout = locate_cluster("e2e-killed", settings)
    before = Inventory.take(settings.root, "e2e-killed")
    for number in range(KILLED_UPS):
        with subprocess.Popen(
            [sys.executable, "-m", "headrace_devcluster", "up", "--name", "e2e-killed"],
            env={**settings.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as up:
            # From the first trace of the cluster on; the steps before it change nothing.
            assert poll_until(layout.directory.exists, 60, 0.005)
            delay_s = moments.uniform(0.0, 1.0) ** 2 * 8.0
            poll_until(lambda: up.poll() is not None, delay_s, 0.005)
            up.kill()
        assert take_down(layout), (number, delay_s)
        assert Inventory.take(settings.root, "e2e-killed").added_since(before) == {}, (
            number,
            delay_s,
        )
        assert not take_down(layout)


def test_after_a_killed_up_the_next_up_succeeds(settings: Settings) -> None:
    layout = locate_cluster("e2e-killed", settings)
    before = Inventory.take(settings.root, "e2e-killed")
    with subprocess.Popen(
        [sys.executable, "-m", "headrace_devcluster", "up", "--name", "e2e-killed"],
        env={**settings.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as up:
        assert poll_until((layout.logs / "etcd.log").exists, 60, 0.005)
        up.kill()
    with Cluster.up("e2e-killed", settings, Progress.silent()) as cluster:
        assert cluster.images() == ["registry.local/pause:1"]
    assert Inventory.take(settings.root, "e2e-killed").added_since(before) == {}


def test_no_file_of_a_cluster_can_be_read_by_others(cluster: Cluster) -> None:
    config = cluster.layout.config
    assert config.stat().st_mode & 0o077 == 0
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
    assert [path for path in Path(config).rglob("*.key") if path.stat().st_mode & 0o077] == []
