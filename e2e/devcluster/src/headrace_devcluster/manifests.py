"""Kafka and S3 for development: the objects that the demo and the end-to-end tests apply.

Pure builders of YAML text. Both servers keep their data in the pod: it goes with the pod, and
with it everything that was written. Names and ports are constants, so that a job's configuration
can be written before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from headrace_devcluster.images import IMAGES
from headrace_devcluster.layout import CLUSTER_DOMAIN

KAFKA_PORT = 9092
"""For pods: ``kafka:9092`` in the same namespace."""

KAFKA_HOST_PORT = 9094
"""For the host, by the address of the pod: names of the cluster are unknown there."""

MINIO_PORT = 9000
"""For pods ``minio:9000``; for the host by the Service's or the pod's address."""

_RESTRICTED = dedent("""\
    allowPrivilegeEscalation: false
    runAsNonRoot: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
    """)


def _indent(text: str, spaces: int) -> str:
    return text.rstrip().replace("\n", "\n" + " " * spaces)


def build_namespace(name: str) -> str:
    """A namespace of its own for one test or demo."""
    return dedent(f"""\
        apiVersion: v1
        kind: Namespace
        metadata: {{name: {name}}}
        """)


def build_kafka(
    namespace: str, memory: str = "1Gi", heap: str = "384m", host_address: str | None = None
) -> str:
    """A single Kafka broker: Deployment and Service ``kafka``.

    Args:
        namespace: An existing one; jobs elsewhere reach the broker by its full name.
        memory: Memory limit of the pod.
        heap: Heap of the broker; the rest is for its page cache and threads.
        host_address: Where the host reaches `KAFKA_HOST_PORT`, e.g. ``127.0.0.1`` with
            ``kubectl port-forward``; None = at the pod's own address.
    """
    host = f"kafka.{namespace}.svc.{CLUSTER_DOMAIN}"
    pod_ip = "valueFrom: {fieldRef: {fieldPath: status.podIP}}"
    if host_address is not None:
        pod_ip = f"value: {host_address}"
    return dedent(f"""\
        apiVersion: v1
        kind: Service
        metadata: {{name: kafka, namespace: {namespace}, labels: {{app: kafka}}}}
        spec:
          selector: {{app: kafka}}
          ports:
          - {{name: kafka, port: {KAFKA_PORT}}}
          - {{name: host, port: {KAFKA_HOST_PORT}}}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: kafka, namespace: {namespace}, labels: {{app: kafka}}}}
        spec:
          replicas: 1
          # Two brokers with one name would be two different brokers.
          strategy: {{type: Recreate}}
          selector: {{matchLabels: {{app: kafka}}}}
          template:
            metadata: {{labels: {{app: kafka}}}}
            spec:
              enableServiceLinks: false
              terminationGracePeriodSeconds: 5
              containers:
              - name: kafka
                image: {IMAGES["kafka"].tag}
                imagePullPolicy: IfNotPresent
                env:
                - {{name: KAFKA_ADVERTISED_HOST, value: {host}}}
                - {{name: KAFKA_HEAP, value: {heap}}}
                - {{name: POD_IP, {pod_ip}}}
                ports:
                - {{name: kafka, containerPort: {KAFKA_PORT}}}
                - {{name: host, containerPort: {KAFKA_HOST_PORT}}}
                readinessProbe:
                  tcpSocket: {{port: kafka}}
                  periodSeconds: 1
                  failureThreshold: 60
                resources:
                  requests: {{cpu: 50m, memory: 256Mi}}
                  limits: {{memory: {memory}}}
                securityContext:
                  {_indent(_RESTRICTED, 18)}
                volumeMounts:
                - {{name: data, mountPath: /var/lib/kafka}}
              volumes:
              - {{name: data, emptyDir: {{}}}}
        """)


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Credentials of the development S3 server; it is reachable from this machine only."""

    access_key: str = "headrace"
    secret_key: str = "headrace-development"  # noqa: S105 - not a secret, see above


def build_minio(
    namespace: str,
    buckets: tuple[str, ...] = ("headrace",),
    credentials: S3Credentials | None = None,
    memory: str = "512Mi",
) -> str:
    """An S3 server: Secret, Deployment and Service ``minio``, with buckets made at its start.

    Args:
        namespace: An existing one.
        buckets: Names by S3's rules, 3 to 63 lower-case letters, digits and hyphens.
        credentials: Also in the Secret ``minio``, under the names that AWS clients look for.
        memory: Memory limit of the pod.
    """
    credentials = credentials or S3Credentials()
    return dedent(f"""\
        apiVersion: v1
        kind: Secret
        metadata: {{name: minio, namespace: {namespace}, labels: {{app: minio}}}}
        stringData:
          MINIO_ROOT_USER: {credentials.access_key}
          MINIO_ROOT_PASSWORD: {credentials.secret_key}
          AWS_ACCESS_KEY_ID: {credentials.access_key}
          AWS_SECRET_ACCESS_KEY: {credentials.secret_key}
        ---
        apiVersion: v1
        kind: Service
        metadata: {{name: minio, namespace: {namespace}, labels: {{app: minio}}}}
        spec:
          selector: {{app: minio}}
          ports:
          - {{name: s3, port: {MINIO_PORT}}}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: minio, namespace: {namespace}, labels: {{app: minio}}}}
        spec:
          replicas: 1
          strategy: {{type: Recreate}}
          selector: {{matchLabels: {{app: minio}}}}
          template:
            metadata: {{labels: {{app: minio}}}}
            spec:
              enableServiceLinks: false
              terminationGracePeriodSeconds: 5
              containers:
              - name: minio
                image: {IMAGES["minio"].tag}
                imagePullPolicy: IfNotPresent
                env:
                - {{name: MINIO_BUCKETS, value: "{" ".join(buckets)}"}}
                envFrom:
                - {{secretRef: {{name: minio}}}}
                ports:
                - {{name: s3, containerPort: {MINIO_PORT}}}
                readinessProbe:
                  httpGet: {{path: /minio/health/ready, port: s3}}
                  periodSeconds: 1
                  failureThreshold: 60
                resources:
                  requests: {{cpu: 50m, memory: 128Mi}}
                  limits: {{memory: {memory}}}
                securityContext:
                  {_indent(_RESTRICTED, 18)}
                volumeMounts:
                - {{name: data, mountPath: /data}}
              volumes:
              - {{name: data, emptyDir: {{}}}}
        """)
