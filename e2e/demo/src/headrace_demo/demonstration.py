"""The demo from nothing to nothing: cluster, installation, scenario, clean-up.

Clean-up runs whatever happens, also on Ctrl-C and SIGTERM, and is not interrupted by a second one.
After SIGKILL, ``headrace cluster down --name demo`` does the same, and so does the next run.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console

from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace_demo.diagnosis import diagnose
from headrace_demo.errors import DemoFailedError
from headrace_demo.feed import PaymentFeed
from headrace_demo.installation import Installation
from headrace_demo.kubernetes import connect, forward
from headrace_demo.manifests import (
    INPUT_TOPIC,
    JOB_NAME,
    OUTPUT_TOPIC,
    PARTITIONS,
    Images,
    build_job,
)
from headrace_demo.observation import Observer
from headrace_demo.output import OutputReader, create_topics
from headrace_demo.payments import PaymentStream
from headrace_demo.report import Report
from headrace_demo.scenario import Scenario
from headrace_demo.screen import Screen
from headrace_devcluster.cluster import Cluster, locate_cluster, take_down
from headrace_devcluster.external import check_external_cluster, use_external_cluster
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.manifests import KAFKA_HOST_PORT
from headrace_devcluster.progress import Progress
from headrace_devcluster.settings import Settings, find_kubeconfig

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose."""

    live: bool
    keep: bool
    use_kubeconfig: bool
    cluster: str
    namespace: str
    registry: str
    events: int
    rate_per_s: int
    merchants: int
    seed: int


class Demonstration:
    """One run of the demo."""

    def __init__(
        self,
        options: Options,
        settings: Settings,
        progress: Progress,
        console: Console,
        clock: Clock,
    ) -> None:
        """Prepares a run; nothing is touched yet."""
        self._options = options
        self._settings = settings
        self._progress = progress
        self._console = console
        self._clock = clock
        self._images = Images(options.registry)

    def run(self) -> Report:
        """Runs the demo.

        Raises:
            HeadraceError: It could not be run to its end.
            KeyboardInterrupt: It was interrupted; everything is cleaned up.
        """
        started_s = self._clock.monotonic_s()
        with ExitStack() as stack:
            if self._options.use_kubeconfig:
                kubectl, servers = self._install_external(stack)
            else:
                kubectl, servers = self._install_embedded(stack)
            try:
                return self._play(kubectl, servers, started_s)
            except HeadraceError:
                report = diagnose(kubectl, self._options.namespace, JOB_NAME)
                self._console.print(report, markup=False, soft_wrap=True)
                raise

    # --- clusters ---------------------------------------------------------------------------

    def _install_embedded(self, stack: ExitStack) -> tuple[Kubectl, str]:
        """Brings a cluster up with everything in it; returns its kubectl and the broker."""
        options, progress = self._options, self._progress
        layout = locate_cluster(options.cluster, self._settings)
        stack.enter_context(_only_one(options.cluster))
        if not options.keep:
            stack.callback(self._clean_up, "Removing the cluster", lambda: take_down(layout))
        if take_down(layout):
            progress.note(f"Removed an earlier cluster {options.cluster}")
        cluster = Cluster.up(options.cluster, self._settings, progress)
        if options.keep:
            stack.callback(self._say_how_to_reach, cluster)
        installation = Installation(cluster.kubectl, options.namespace, self._images)
        cluster.load("kafka")
        cluster.load("minio")
        installation.install_servers()
        cluster.load("operator")
        installation.install_operator()
        cluster.load("runtime")
        with progress.step("Waiting for Kafka, MinIO and the operator"):
            installation.wait_until_ready()
        return cluster.kubectl, f"{installation.find_pod_address('kafka')}:{KAFKA_HOST_PORT}"

    def _install_external(self, stack: ExitStack) -> tuple[Kubectl, str]:
        """Installs everything on the user's cluster; returns its kubectl and the broker."""
        options, progress = self._options, self._progress
        kubectl = use_external_cluster(find_kubeconfig(self._settings.environment), self._settings)
        version = check_external_cluster(kubectl)
        progress.note(f"Using the cluster of {kubectl.kubeconfig} (Kubernetes {version})")
        installation = Installation(kubectl, options.namespace, self._images)
        installation.check_is_free()
        if not options.keep:
            stack.callback(self._clean_up, "Removing what was installed", installation.remove)
        with progress.step("Installing Kafka, MinIO, definitions and operator"):
            installation.install_servers(LOOPBACK)
            installation.install_operator()
            installation.wait_until_ready()
        # The host is not part of the cluster's network.
        stack.enter_context(forward(kubectl, options.namespace, "kafka", KAFKA_HOST_PORT))
        return kubectl, f"{LOOPBACK}:{KAFKA_HOST_PORT}"

    def _clean_up(self, title: str, remove: object) -> None:
        """Removes, deaf to a second Ctrl-C."""
        if not callable(remove):
            raise TypeError(title)
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
        try:
            with self._progress.step(title):
                remove()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _say_how_to_reach(self, cluster: Cluster) -> None:
        namespace = self._options.namespace
        self._console.print(
            f"\nThe cluster stays:\n"
            f"  headrace cluster kubectl --name {cluster.name} -n {namespace} get streamjobs,pods\n"
            f"  export KUBECONFIG={cluster.kubeconfig}   # for a kubectl of your own\n"
            f"  headrace cluster down --name {cluster.name}   # when you are done",
            markup=False,
            soft_wrap=True,
        )

    # --- the run ----------------------------------------------------------------------------

    def _play(self, kubectl: Kubectl, servers: str, started_s: float) -> Report:
        options = self._options
        create_topics(servers, (INPUT_TOPIC, OUTPUT_TOPIC), PARTITIONS)
        kubectl.apply(build_job(options.namespace, self._images))
        self._progress.note("StreamJob applied: examples/upi_per_merchant")
        stream = PaymentStream(options.seed, options.events, options.merchants)
        feed = PaymentFeed(stream, servers, INPUT_TOPIC, options.rate_per_s, self._clock)
        output = OutputReader(servers, OUTPUT_TOPIC)
        with connect(kubectl) as api:
            scenario = Scenario(
                stream=stream,
                feed=feed,
                output=output,
                observer=Observer(api, options.namespace, JOB_NAME, self._clock),
                screen=Screen(self._console, self._clock, live=options.live),
                clock=self._clock,
            )
            try:
                report, comparison = scenario.run(started_s)
            finally:
                feed.stop()
                output.stop()
        for example in comparison.examples:
            self._console.print(example, style="red", markup=False, soft_wrap=True)
        return report


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Holds the name for this process: a second run would take the first one's cluster down.

    An abstract socket is gone with its process, so there is nothing to clean up.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        try:
            holder.bind(f"\0headrace-demo-{name}")
        except OSError as error:
            raise DemoFailedError(
                f"this demo is running already: wait for it, or give another --name name={name}"
            ) from error
        yield
