"""One world for all tests of jobs: a cluster with broker, S3 server and operator.

By default an embedded one that comes and goes with the session. ``HEADRACE_E2E_CLUSTER`` names an
embedded one that is up (``headrace demo --keep``) and is left as it is, for a quick inner loop;
``HEADRACE_E2E_USE_KUBECONFIG`` takes the cluster that ``KUBECONFIG`` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from e2e_tests.jobs.jobs import Jobs
from headrace.clock import SystemClock
from headrace_demo.installation import Installation
from headrace_demo.kubernetes import connect
from headrace_demo.manifests import Images
from headrace_demo.worlds import World, embedded_world, external_world
from headrace_devcluster.cluster import Cluster
from headrace_devcluster.manifests import KAFKA_HOST_PORT
from headrace_devcluster.progress import Progress
from headrace_devcluster.settings import Settings

NAMESPACE = "demo"
CLUSTER = "e2e-jobs"


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    settings = Settings.from_environment(os.environ)
    progress = Progress.to_stderr()
    kept = os.environ.get("HEADRACE_E2E_CLUSTER")
    if kept:
        kubectl = Cluster.find(kept, settings, progress).kubectl
        installation = Installation(kubectl, NAMESPACE, Images())
        servers = f"{installation.find_pod_address('kafka')}:{KAFKA_HOST_PORT}"
        yield World(kubectl, NAMESPACE, Images(), servers)
    elif os.environ.get("HEADRACE_E2E_USE_KUBECONFIG"):
        registry = Images(os.environ.get("HEADRACE_E2E_REGISTRY", Images().registry))
        with external_world(NAMESPACE, registry, settings, progress, keep=False) as made:
            yield made
    else:
        with embedded_world(CLUSTER, NAMESPACE, settings, progress, keep=False) as made:
            yield made


@pytest.fixture(scope="session")
def jobs(world: World) -> Iterator[Jobs]:
    with connect(world.kubectl) as api:
        yield Jobs(world, api, SystemClock())
