"""Prometheus metrics of the operator itself; those of a job are its driver's."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.api.v1alpha1 import LifecycleState


@dataclass(slots=True)
class Outcome:
    """What came of a request to the API server."""

    status: int = 0
    """HTTP status, 0 while there is no answer."""


class Metrics:
    """All series of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.turns = Counter(
            "headrace_operator_reconcile",
            "Turns of the reconciliation, by what came of them.",
            ["result"],
            registry=self.registry,
        )
        self.turn_seconds = Histogram(
            "headrace_operator_reconcile_seconds",
            "Time of one turn, waiting for the cluster and the driver included.",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.status_writes = Counter(
            "headrace_operator_status_writes", "Writes of a job's status.", registry=self.registry
        )
        self.actions = Counter(
            "headrace_operator_actions",
            "Actions on the cluster.",
            ["action"],
            registry=self.registry,
        )
        self.refusals = Counter(
            "headrace_operator_refusals",
            "Actions that the API server refused.",
            registry=self.registry,
        )
        self.requests = Counter(
            "headrace_operator_api_requests",
            "Requests to the API server; status 0 = no answer.",
            ["method", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "headrace_operator_api_request_seconds",
            "Time of one request to the API server.",
            ["method"],
            registry=self.registry,
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15),
        )
        self.leads = Gauge(
            "headrace_operator_leads",
            "1 while this process acts, 0 while another one does.",
            registry=self.registry,
        )

    @contextmanager
    def request(self, method: str) -> Iterator[Outcome]:
        """Count and time a request to the API server."""
        outcome, started_s = Outcome(), time.perf_counter()
        try:
            yield outcome
        finally:
            self.request_seconds.labels(method).observe(time.perf_counter() - started_s)
            self.requests.labels(method, str(outcome.status)).inc()

    def count_jobs(self, states: Callable[[], Iterable[LifecycleState]]) -> None:
        """Publish how many jobs are in each state.

        Args:
            states: of all jobs; asked when somebody reads the metrics, not with every change.
        """
        self.registry.register(_JobCount(states))


class _JobCount(Collector):
    def __init__(self, states: Callable[[], Iterable[LifecycleState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        name, text = "headrace_operator_jobs", "Jobs by lifecycle state."
        family = GaugeMetricFamily(name, text, labels=["state"])
        # Read in the thread of the HTTP server, while jobs come and go.
        tally = Tally(tuple(self._states()))
        for state in LifecycleState:
            family.add_metric([state.value], tally[state])
        yield family
