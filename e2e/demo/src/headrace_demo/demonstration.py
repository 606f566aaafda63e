"""The demo from nothing to nothing: a world, the job, the scenario, clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace_demo.broker import create_topics
from headrace_demo.diagnosis import diagnose
from headrace_demo.feed import PaymentFeed
from headrace_demo.kubernetes import connect
from headrace_demo.manifests import (
    INPUT_TOPIC,
    JOB_NAME,
    OUTPUT_TOPIC,
    PARTITIONS,
    Images,
    build_job,
)
from headrace_demo.observation import Observer
from headrace_demo.output import OutputReader
from headrace_demo.payments import PaymentStream
from headrace_demo.report import Report
from headrace_demo.scenario import Scenario
from headrace_demo.screen import Screen
from headrace_demo.worlds import World, embedded_world, external_world
from headrace_devcluster.progress import Progress
from headrace_devcluster.settings import Settings


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
        self, options: Options, settings: Settings, console: Console, clock: Clock
    ) -> None:
        """Prepares a run; nothing is touched yet."""
        self._options = options
        self._settings = settings
        self._progress = Progress(console)
        self._console = console
        self._clock = clock

    def run(self) -> Report:
        """Runs the demo.

        Raises:
            HeadraceError: It could not be run to its end.
            KeyboardInterrupt: It was interrupted; everything is cleaned up.
        """
        started_s = self._clock.monotonic_s()
        with self._world() as world:
            try:
                return self._play(world, started_s)
            except HeadraceError:
                diagnosis = diagnose(world.kubectl, world.namespace, JOB_NAME)
                self._console.print(diagnosis, markup=False, soft_wrap=True)
                raise
            finally:
                if self._options.keep:
                    self._say_how_to_reach(world)

    @contextmanager
    def _world(self) -> Iterator[World]:
        options = self._options
        made = (
            external_world(
                options.namespace,
                Images(options.registry),
                self._settings,
                self._progress,
                keep=options.keep,
            )
            if options.use_kubeconfig
            else embedded_world(
                options.cluster,
                options.namespace,
                self._settings,
                self._progress,
                keep=options.keep,
            )
        )
        with made as world:
            yield world

    def _play(self, world: World, started_s: float) -> Report:
        options = self._options
        create_topics(world.servers, (INPUT_TOPIC, OUTPUT_TOPIC), PARTITIONS)
        world.kubectl.apply(build_job(world.namespace, world.images))
        self._progress.note("StreamJob applied: examples/upi_per_merchant")
        stream = PaymentStream(options.seed, options.events, options.merchants)
        feed = PaymentFeed(stream, world.servers, INPUT_TOPIC, options.rate_per_s, self._clock)
        output = OutputReader(world.servers, OUTPUT_TOPIC)
        with connect(world.kubectl) as api:
            scenario = Scenario(
                stream=stream,
                feed=feed,
                output=output,
                observer=Observer(api, world.namespace, JOB_NAME, self._clock),
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

    def _say_how_to_reach(self, world: World) -> None:
        lines = [
            "",
            "Everything is left running. To reach it:",
            f"  export KUBECONFIG={world.kubectl.kubeconfig}",
            f"  {' '.join(world.kubectl.command)} -n {world.namespace} get streamjobs,pods",
        ]
        if self._options.use_kubeconfig:
            lines.append(f"To remove the job: kubectl delete namespace {world.namespace}")
        else:
            lines.append(f"To remove it: headrace cluster down --name {self._options.cluster}")
        self._console.print("\n".join(lines), markup=False, soft_wrap=True)
