"""The headless Service that gives the driver a name: REST for people and dashboards."""

from __future__ import annotations

from headrace.api.driver import (
    REST_PORT,
    SLOT_CONTROL_PORT,
    SPARK_BLOCK_MANAGER_PORT,
    SPARK_DRIVER_PORT,
)
from headrace.api.names import ROLE_DRIVER, driver_name, role_selector
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.identity import JobIdentity, head

PORTS: dict[str, int] = {
    "rest": REST_PORT,
    "spark-driver": SPARK_DRIVER_PORT,
    "slot-control": SLOT_CONTROL_PORT,
    "spark-blocks": SPARK_BLOCK_MANAGER_PORT,
}


def build_service(job: JobIdentity) -> Manifest:
    """Return the driver's headless Service."""
    return {
        **head(Kind.SERVICE),
        "metadata": job.metadata(driver_name(job.name)),
        "spec": {
            "clusterIP": "None",
            # Executors register with a driver that is not ready before they have.
            "publishNotReadyAddresses": True,
            "selector": role_selector(job.name, ROLE_DRIVER),
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in PORTS.items()
            ],
        },
    }
