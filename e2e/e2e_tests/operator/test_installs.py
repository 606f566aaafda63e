"""The operator for the whole cluster, and confined to namespaces by Roles alone (OP58)."""

import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

from e2e_tests.operator.conftest import OperatorProcess, eventually
from e2e_tests.operator.control_plane import free_port

pytestmark = pytest.mark.e2e


@pytest.fixture
def run_operator(job_server, tmp_path):
    made = []

    def run(kubeconfig, *options):
        process = OperatorProcess(kubeconfig, job_server.port, tmp_path / "operator.log", *options)
        made.append(process)
        process.start()
        return process

    yield run
    for process in made:
        process.kill()
        sys.stdout.write(process.log.read_text()[-20_000:])


def printed_manifests(*options):
    command = [sys.executable, "-m", "headrace_operator", "manifests", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def test_one_operator_serves_the_whole_cluster(operator_kubeconfig, run_operator, job, node):
    run_operator(operator_kubeconfig, "--all-namespaces")
    job.apply()
    job.wait_for_condition("Ready")
    job.kubectl("delete", "sj", "payments", "--timeout=40s")
    assert job.left_over() == []


def test_a_canary_is_reconciled_and_the_probe_and_the_metrics_say_so(
    operator_kubeconfig, run_operator, job
):
    health, metrics = free_port(), free_port()
    manifest = job.manifest(state="suspended")
    manifest["metadata"]["labels"] = {"headrace.dev/canary": "true"}
    job.plane.apply(manifest)
    options = (f"--health-port={health}", f"--metrics-port={metrics}")
    run_operator(operator_kubeconfig, f"--namespace={job.namespace}", *options)
    job.wait_for_state("Suspended")
    annotation = "headrace.dev/canary-asked-at"
    eventually(lambda: annotation in job.get()["metadata"].get("annotations", {}), 30)
    eventually(lambda: '"work": "ok"' in read(health, "healthz"), 15)
    series = read(metrics, "metrics")
    assert 'headrace_operator_jobs{state="Suspended"} 1.0' in series
    assert 'headrace_operator_api_requests_total{method="PATCH",status="200"}' in series
    assert "headrace_operator_leads 1.0" in series


def read(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.URLError:
        return ""


def test_roles_alone_are_enough_for_namespaces(plane, run_operator, job, node):
    install = f"{job.namespace}-operator"
    options = (f"--namespace={job.namespace}", f"--install-namespace={install}")
    plane.apply(*printed_manifests(*options))
    token = plane.kubectl("create", "token", "headrace-operator", "-n", install).stdout.strip()
    run_operator(plane.kubeconfig_for(token, install), f"--namespace={job.namespace}")
    job.apply()
    job.wait_for_condition("Ready")
    job.kubectl("delete", "pod", "payments-driver", "--wait=false")
    eventually(lambda: len(node.drivers_seen) == 2)
    job.wait_for_state("Running")
    job.kubectl("delete", "sj", "payments", "--timeout=40s")
    assert job.left_over() == []


def test_a_job_that_was_there_before_the_operator_is_found(
    operator_kubeconfig, run_operator, job, node
):

    job.apply()
    run_operator(operator_kubeconfig, f"--namespace={job.namespace}")
    job.wait_for_condition("Ready")
