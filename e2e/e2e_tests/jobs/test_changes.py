"""A job is changed by ``kubectl apply`` while payments flow, and its counts stay exact."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e_tests.jobs.jobs import Job, Jobs
from headrace.clock import SystemClock
from headrace.connectors.kafka.reader import read_committed
from headrace_demo.feed import PaymentFeed
from headrace_demo.manifests import example_directory
from headrace_demo.oracle import compare, compute_expected
from headrace_demo.output import OutputReader
from headrace_demo.payments import PaymentStream
from headrace_devcluster.polling import poll_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

STREAM = PaymentStream(seed=7, events=40_000, merchants=300)
RATE_PER_S = 1000
INPUT, OUTPUT = "changes-in", "changes-out"


@dataclass(frozen=True, slots=True)
class Flowing:
    """A job with payments that flow into it."""

    job: Job
    feed: PaymentFeed
    output: OutputReader
    objects_before: set[str]

    def spec(self, parallelism: int, program: str) -> dict[str, object]:
        return {
            "program": {"inline": program},
            "args": ["--bootstrap-servers=kafka:9092", f"--input={INPUT}", f"--output={OUTPUT}"],
            "parallelism": parallelism,
            "executor": {
                "slots": 2, "memory": "512Mi", "memoryOverhead": "1Gi", "cpu": "200m",
            },
        }  # fmt: skip

    def let_flow(self, events: int) -> None:
        """Releases payments up to a number, and returns when half of the new ones are written."""
        middle = (self.feed.sent + events) // 2
        self.feed.allow(events)
        assert poll_until(lambda: self.feed.sent >= middle, 120)


@pytest.fixture(scope="module")
def flowing(jobs: Jobs) -> Iterator[Flowing]:
    before = jobs.list_objects()
    jobs.create_topics(INPUT, OUTPUT)
    feed = PaymentFeed(STREAM, jobs.world.servers, INPUT, RATE_PER_S, SystemClock())
    output = OutputReader(jobs.world.servers, OUTPUT)
    feed.start()
    output.start()
    job = jobs.job("changes")
    try:
        yield Flowing(job, feed, output, before)
    finally:
        feed.stop()
        output.stop()
        job.delete()


def version_2(program: str) -> str:
    """The example's program with another field in its output."""
    changed = program.replace(
        '["merchant", "payments", "total_paise"], [Types.STRING(), Types.LONG(), Types.LONG()]',
        '["merchant", "payments", "total_paise", "version"],'
        " [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()]",
    ).replace("total_paise=totals.total_paise,", "total_paise=totals.total_paise, version=2,")
    assert changed.count("version") == 2
    return changed


def test_counts_stay_exact_over_changes_of_parallelism_and_of_the_program(
    flowing: Flowing, jobs: Jobs
) -> None:
    """Parallelism 2 -> 4 -> 1 and a new program, each while payments flow (last-state)."""
    program = (example_directory() / "job.py").read_text()
    steps = [(2, program), (4, program), (1, program), (1, version_2(program))]
    generations = set()
    for number, (parallelism, text) in enumerate(steps, 1):
        generation = flowing.job.apply(flowing.spec(parallelism, text))
        seen = flowing.job.wait_in_effect(generation, parallelism)
        assert seen.job is not None
        generations.add(seen.job.generation)
        flowing.let_flow(STREAM.events * number // len(steps))
    assert len(generations) == len(steps)

    flowing.job.wait(
        lambda _: flowing.feed.is_complete and flowing.output.count >= STREAM.events,
        "all of the output is published",
    )
    last = flowing.job.observer.observe().last_checkpoint
    flowing.job.wait(
        lambda seen: seen.last_checkpoint >= last + 2 and flowing.output.is_at_end,
        "two more checkpoints",
    )
    comparison = compare(compute_expected(STREAM), flowing.output.records())
    assert (0, 0, 0) == (comparison.missing, comparison.duplicates, comparison.unexpected), (
        comparison.examples
    )
    client = {"bootstrap.servers": jobs.world.servers}
    versions = Counter(
        json.loads(record.value or b"").get("version") for record in read_committed(client, OUTPUT)
    )
    assert {None, 2} == set(versions)


def test_a_deleted_job_leaves_nothing(flowing: Flowing, jobs: Jobs) -> None:
    flowing.job.delete()
    assert poll_until(lambda: jobs.list_objects() <= flowing.objects_before, 30, 1.0), (
        jobs.list_objects() - flowing.objects_before
    )
