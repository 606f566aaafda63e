"""Prometheus metrics of the operator itself; those of a job are its driver's."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headrace.api.v1alpha1 import LifecycleState


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
        self.jobs = Gauge(
            "headrace_operator_jobs", "Jobs by lifecycle state.", ["state"], registry=self.registry
        )

    def show_jobs(self, states: Iterable[LifecycleState]) -> None:
        """Publish how many jobs are in each state."""
        tally = Tally(states)
        for state in LifecycleState:
            self.jobs.labels(state.value).set(tally[state])
