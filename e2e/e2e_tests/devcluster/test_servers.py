"""Kafka and S3 as pods, reached from the host and from other pods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace_devcluster import Cluster, Settings
from headrace_devcluster.cluster import locate_cluster, take_down
from headrace_devcluster.manifests import (
    KAFKA_HOST_PORT,
    MINIO_PORT,
    S3Credentials,
    build_kafka,
    build_minio,
    build_namespace,
)
from headrace_devcluster.progress import Progress

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NAME = "e2e-servers"
NAMESPACE = "servers"
RECORDS = 500

PRODUCE_FROM_A_POD = f"""
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": "kafka:9092", "transactional.id": "pod"}})
producer.init_transactions(30)
producer.begin_transaction()
for number in range({RECORDS}):
    producer.produce("payments", str(number))
producer.commit_transaction(30)
producer.begin_transaction()
producer.produce("payments", "never committed")
producer.flush(30)
producer.abort_transaction(30)
print("produced")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("clusters")
    settings = Settings.from_environment({**os.environ, "HEADRACE_CLUSTERS": str(root)})
    try:
        up = Cluster.up(NAME, settings, Progress.silent())
        for image in ("kafka", "minio", "runtime"):
            up.load(image)
        up.kubectl.apply(build_namespace(NAMESPACE))
        up.kubectl.apply(f"{build_kafka(NAMESPACE)}---\n{build_minio(NAMESPACE, ('one', 'two'))}")
        for deployment in ("kafka", "minio"):
            up.kubectl.run(
                "wait", "-n", NAMESPACE, "--for=condition=Available", f"deploy/{deployment}",
                "--timeout=120s", timeout_s=130,
            )  # fmt: skip
        yield up
    finally:
        take_down(locate_cluster(NAME, settings))


def address_of(cluster: Cluster, service: str) -> str:
    return cluster.kubectl.run(
        "get", "service", service, "-n", NAMESPACE, "-o", "jsonpath={.spec.clusterIP}"
    )


def values(messages: list[Message]) -> list[str]:
    return [(message.value() or b"no value").decode() for message in messages]


def test_what_a_pod_commits_is_read_on_the_host_and_what_it_aborts_is_not(cluster: Cluster) -> None:
    servers = f"{address_of(cluster, 'kafka')}:{KAFKA_HOST_PORT}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("payments", 2, 1)])["payments"].result(30)
    printed = cluster.kubectl.run(
        "run", "producer", "-n", NAMESPACE, "--image=registry.local/headrace-runtime:dev",
        "--image-pull-policy=Never", "--restart=Never", "--rm", "--attach", "--quiet",
        "--command", "--", "python3", "-c", PRODUCE_FROM_A_POD, timeout_s=120,
    )  # fmt: skip
    assert "produced" in printed
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "host",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe(["payments"])
        seen: list[str] = []
        deadline = time.monotonic() + 60
        while len(seen) < RECORDS and time.monotonic() < deadline:
            seen += values(consumer.consume(RECORDS, 1.0))
        seen += values(consumer.consume(1, 1.0))
    finally:
        consumer.close()
    assert sorted(seen, key=int) == [str(number) for number in range(RECORDS)]


def test_topics_are_not_made_by_mistake(cluster: Cluster) -> None:
    servers = f"{address_of(cluster, 'kafka')}:{KAFKA_HOST_PORT}"
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 5000})
    errors: list[object] = []
    producer.produce("misspelt", b"x", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(20) == 0
    assert len(errors) == 1
    assert errors[0] is not None


def test_buckets_exist_and_an_object_is_created_only_once(cluster: Cluster) -> None:
    credentials = S3Credentials()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{address_of(cluster, 'minio')}:{MINIO_PORT}",
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        region_name="us-east-1",
    )
    assert {bucket["Name"] for bucket in client.list_buckets()["Buckets"]} == {"one", "two"}
    client.put_object(Bucket="one", Key="marker", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket="one", Key="marker", Body=b"second", IfNoneMatch="*")
    assert client.get_object(Bucket="one", Key="marker")["Body"].read() == b"first"
