"""Installs servers, definitions and operator on a cluster, and removes what it installed.

On an embedded cluster nothing has to be removed, for the whole cluster goes. On a cluster of the
user's, whatever was there before stays: definitions that existed are not deleted, and an operator
that runs there already is a reason not to start.
"""

from __future__ import annotations

from typing import Final

from headrace.api.crd import build_definitions, render_definition
from headrace_demo.errors import DemoFailedError
from headrace_demo.manifests import Images, render
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.manifests import build_kafka, build_minio, build_namespace
from headrace_devcluster.polling import poll_until
from headrace_operator.resources.install import DEFAULT_NAMESPACE, build_install

OPERATOR_NAMESPACE: Final = DEFAULT_NAMESPACE
OPERATOR_SELECTOR: Final = "app.kubernetes.io/name=headrace,app.kubernetes.io/component=operator"
READY_TIMEOUT_S: Final = 180
REMOVAL_TIMEOUT_S: Final = 180


class Installation:
    """What the demo puts into one cluster."""

    def __init__(self, kubectl: Kubectl, namespace: str, images: Images) -> None:
        """Binds to a cluster; nothing is changed yet.

        Args:
            kubectl: For an administrator.
            namespace: Of servers and job; made by `install_servers`.
            images: Where pods take the images from.
        """
        self._kubectl = kubectl
        self._namespace = namespace
        self._images = images
        self._definitions_are_ours = False
        self._started = False

    def check_is_free(self) -> None:
        """Raises `DemoFailedError` if an operator or the namespace are there already."""
        operators = self._kubectl.run(
            "get", "deployments", "-A", "-l", OPERATOR_SELECTOR, "-o", "name"
        )
        if operators.strip():
            raise DemoFailedError(
                "a Headrace operator runs in this cluster already: the demo kills the operator, "
                f"so use a cluster without one found={operators.strip()}"
            )
        for namespace in (self._namespace, OPERATOR_NAMESPACE):
            if self._kubectl.attempt("get", "namespace", namespace).returncode == 0:
                raise DemoFailedError(
                    "the demo would use a namespace that exists: delete it, or choose another "
                    f"with --namespace namespace={namespace}"
                )

    def install_servers(self, kafka_host_address: str | None = None) -> None:
        """Applies the namespace, the broker and the S3 server; does not wait for them.

        Args:
            kafka_host_address: Where the host reaches the broker; None = by the pod's address.
        """
        self._started = True
        documents = (
            build_namespace(self._namespace),
            build_kafka(self._namespace, host_address=kafka_host_address),
            build_minio(self._namespace),
        )
        self._kubectl.apply(self._images.adapt("---\n".join(documents)))

    def install_operator(self) -> None:
        """Applies definitions and operator; does not wait for them."""
        found = self._kubectl.run("get", "crd", "-o", "name")
        self._definitions_are_ours = "streamjobs.headrace.dev" not in found
        self._kubectl.apply(_definitions())
        if not poll_until(self._definitions_are_served, READY_TIMEOUT_S, interval_s=0.5):
            raise DemoFailedError("the definitions are not served: look at 'kubectl get crd'")
        self._kubectl.apply(self._operator())

    def wait_until_ready(self) -> None:
        """Waits for the broker, the S3 server and the operator.

        Raises:
            ClusterFailedError: One of them is not ready in time.
        """
        for namespace, deployment in (
            (self._namespace, "kafka"),
            (self._namespace, "minio"),
            (OPERATOR_NAMESPACE, "headrace-operator"),
        ):
            self._kubectl.run(
                "rollout", "status", f"deployment/{deployment}", "--namespace", namespace,
                f"--timeout={READY_TIMEOUT_S}s",
                timeout_s=READY_TIMEOUT_S + 10,
            )  # fmt: skip

    def find_pod_address(self, app: str) -> str:
        """Returns the address of the pod of ``kafka`` or ``minio``, for a host with a route."""
        return self._kubectl.run(
            "get", "pods", "--namespace", self._namespace, "-l", f"app={app}",
            "--field-selector=status.phase=Running",
            "-o", "jsonpath={.items[0].status.podIP}",
        )  # fmt: skip

    def remove(self) -> None:
        """Removes what was installed; harmless when nothing was.

        The jobs go first, while the operator can still see to their end.
        """
        if not self._started:
            return
        if "streamjobs.headrace.dev" in self._kubectl.run("get", "crd", "-o", "name"):
            self._delete("streamjobs.headrace.dev", "--all", "--namespace", self._namespace)
        self._delete("namespace", self._namespace)
        self._delete("-f", "-", stdin=self._operator())
        if self._definitions_are_ours:
            self._delete("-f", "-", stdin=_definitions())

    def _definitions_are_served(self) -> bool:
        """``kubectl wait`` fails on definitions that are so new that they have no conditions."""
        wait = ("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
        return self._kubectl.attempt(*wait).returncode == 0

    def _operator(self) -> str:
        return render(dict(each) for each in build_install(image=self._images.name("operator")))

    def _delete(self, *arguments: str, stdin: str | None = None) -> None:
        self._kubectl.run(
            "delete", "--ignore-not-found", f"--timeout={REMOVAL_TIMEOUT_S}s", *arguments,
            stdin=stdin,
            timeout_s=REMOVAL_TIMEOUT_S + 10,
        )  # fmt: skip


def _definitions() -> str:
    return "---\n".join(render_definition(each) for each in build_definitions().values())
