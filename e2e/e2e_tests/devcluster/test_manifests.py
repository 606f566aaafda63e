"""Objects for Kafka and S3."""

from typing import Any

import pytest
import yaml

from headrace_devcluster.images import IMAGES
from headrace_devcluster.manifests import S3Credentials, build_kafka, build_minio, build_namespace


def load(text: str) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def environment(deployment: dict[str, Any]) -> dict[str, Any]:
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


@pytest.mark.parametrize("text", [build_kafka("ns"), build_minio("ns")])
def test_servers_run_under_the_restricted_pod_security_standard(text: str) -> None:
    [container] = load(text)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.parametrize(
    ("name", "text", "port"),
    [("kafka", build_kafka("ns"), 9092), ("minio", build_minio("ns"), 9000)],
)
def test_a_server_has_a_service_of_its_name_in_the_namespace(
    name: str, text: str, port: int
) -> None:
    documents = load(text)
    assert {"ns"} == {document["metadata"]["namespace"] for document in documents.values()}
    service, deployment = documents["Service"], documents["Deployment"]
    assert name == service["metadata"]["name"]
    assert port == service["spec"]["ports"][0]["port"]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert IMAGES[name].tag == pod["spec"]["containers"][0]["image"]


def test_kafka_is_advertised_to_pods_by_name_and_to_the_host_by_address() -> None:
    variables = environment(load(build_kafka("ns"))["Deployment"])
    assert variables["KAFKA_ADVERTISED_HOST"] == "kafka.ns.svc.cluster.local"
    assert variables["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_there_is_never_a_second_broker_beside_the_first() -> None:
    assert load(build_kafka("ns"))["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_buckets_and_credentials_are_those_asked_for() -> None:
    documents = load(build_minio("ns", ("one", "two"), S3Credentials("key", "secret-of-8")))
    assert environment(documents["Deployment"])["MINIO_BUCKETS"] == "one two"
    assert documents["Secret"]["stringData"] == {
        "MINIO_ROOT_USER": "key",
        "MINIO_ROOT_PASSWORD": "secret-of-8",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret-of-8",
    }


def test_a_namespace_is_plain() -> None:
    assert load(build_namespace("demo"))["Namespace"]["metadata"]["name"] == "demo"
