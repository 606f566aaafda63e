"""What is wrong with a job is said by its Degraded condition and by an event, within a minute.

All jobs that fail before Spark starts are applied at once; those that need a running job follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from e2e_tests.jobs import programs
from e2e_tests.jobs.jobs import Event, Job, Jobs
from headrace.api.v1alpha1.base import ConditionStatus
from headrace.api.v1alpha1.streamjob_status import ConditionType
from headrace_demo.feed import PaymentFeed
from headrace_demo.observation import Observed
from headrace_demo.payments import PaymentStream
from headrace_devcluster.polling import poll_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

INPUT, OUTPUT = "bad-in", "bad-out"
SHOWN_WITHIN = timedelta(seconds=60)
"""From the creation of the StreamJob."""
WAIT_S = 120.0
"""Longer, so that a failure shows how much too late it is."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake and the words that must name it."""

    name: str
    cause: tuple[str, ...]
    """Words of which the condition's message must have all, and one event's message too."""

    program: str = field(default_factory=programs.example)
    args: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, object] = field(default_factory=dict)

    def build(self, job: Job) -> dict[str, object]:
        options = {"bootstrap-servers": "kafka:9092", "input": INPUT, "output": OUTPUT, **self.args}
        base = job.example_config()
        return {
            "program": {"inline": self.program},
            "args": [f"--{name}={value}" for name, value in options.items()],
            "config": {**base, **self.config},
            # Requested, not limited: all of them shall be scheduled at once.
            "driver": {"memory": "512Mi", "memoryOverhead": "512Mi", "cpu": "20m"},
            **self.spec,
        }


EARLY = (
    Mistake("no-servers", ("bootstrap", "servers"), program=programs.WITHOUT_SERVERS),
    Mistake("wrong-servers", ("nowhere:9092",), args={"bootstrap-servers": "nowhere:9092"}),
    Mistake("no-topic", ("no-such-topic",), args={"input": "no-such-topic"}),
    Mistake("no-program", ("no-such-program",), spec={"program": {"file": "no-such-program.py"}}),
    Mistake(
        "no-configmap",
        ("no-such-map",),
        spec={"program": {"configMap": {"name": "no-such-map", "key": "job.py"}}},
    ),
    Mistake("not-python", ("does not compile",), program=programs.NOT_PYTHON),
    Mistake("no-execute", ("env.execute()",), program=programs.WITHOUT_EXECUTE),
    Mistake(
        "unknown-option",
        ("execution.checkpointing.intervall",),
        config={"execution.checkpointing.intervall": "5 s"},
    ),
    Mistake(
        "no-bucket",
        ("no-such-bucket",),
        config={"execution.checkpointing.dir": "s3://no-such-bucket/checkpoints"},
    ),
    Mistake(
        "read-only-storage",
        ("/proc/checkpoints",),
        config={"execution.checkpointing.dir": "file:///proc/checkpoints"},
    ),
    Mistake(
        "wrong-credentials",
        ("s3.access-key",),
        config={"s3.access-key": "nobody", "s3.secret-key": "wrong-secret"},
    ),
)
LATE = (
    Mistake(
        "exception",
        ("the merchant is on fire",),
        program=programs.WITH_AN_EXCEPTION,
        config={
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "1 s",
        },
    ),
)


@pytest.fixture(scope="module")
def topics(jobs: Jobs) -> None:
    jobs.create_topics(INPUT, OUTPUT)
    stream = PaymentStream(seed=3, events=1000, merchants=10)
    feed = PaymentFeed(stream, jobs.world.servers, INPUT, 1e6, jobs.clock)
    feed.allow(stream.events)
    feed.start()
    assert poll_until(lambda: feed.is_complete, 60)


@pytest.fixture(scope="module")
def early(jobs: Jobs, topics: None) -> Iterator[dict[str, Job]]:
    made = {mistake.name: jobs.job(f"bad-{mistake.name}") for mistake in EARLY}
    for mistake in EARLY:
        made[mistake.name].apply(mistake.build(made[mistake.name]))
    yield made
    for job in made.values():
        job.delete()


def is_degraded_by(cause: tuple[str, ...], seen: Observed) -> bool:
    condition = seen.status.condition(ConditionType.DEGRADED) if seen.status else None
    return (
        condition is not None
        and condition.status is ConditionStatus.TRUE
        and all(word in condition.message for word in cause)
    )


def require_shown(job: Job, cause: tuple[str, ...]) -> None:
    """Both say the cause, the event for the first time within a minute."""
    job.wait(
        lambda seen: is_degraded_by(cause, seen) and bool(warnings_of(job, cause)),
        f"condition and event name {cause}",
        WAIT_S,
    )
    first = min(event.at for event in warnings_of(job, cause))
    assert first - job.created_at() <= SHOWN_WITHIN


def warnings_of(job: Job, cause: tuple[str, ...]) -> list[Event]:
    return [
        event
        for event in job.events()
        if event.kind == "Warning" and all(word in event.message for word in cause)
    ]


@pytest.mark.parametrize("mistake", EARLY, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_before_spark_starts(early: dict[str, Job], mistake: Mistake) -> None:
    require_shown(early[mistake.name], mistake.cause)


@pytest.mark.parametrize("mistake", LATE, ids=lambda mistake: mistake.name)
def test_a_mistake_of_a_running_job_is_named(jobs: Jobs, topics: None, mistake: Mistake) -> None:
    job = jobs.job(f"bad-{mistake.name}")
    job.apply(mistake.build(job))
    try:
        require_shown(job, mistake.cause)
    finally:
        job.delete()
