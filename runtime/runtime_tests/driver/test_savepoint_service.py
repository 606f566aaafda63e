"""Savepoints between REST, job master and storage; no Spark, no network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.api.driver import JobState, JobStatus
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.checkpoint.protocol.types import CheckpointMetadata
from headrace.clock import SystemClock
from headrace.driver.rest import build_app
from headrace.driver.savepoints import SavepointOrder, SavepointService, SavepointSettings
from headrace.driver.status import StatusBoard
from headrace.errors import InternalError, InvalidConfigError, SavepointFailedError
from headrace.ids import CheckpointId, OperatorUid, TriggerId
from headrace.testing.asgi import call
from headrace.testing.object_store import MemoryBucket, Outage
from runtime_tests.checkpoint.builders import JOB_ID
from runtime_tests.checkpoint.test_canonical_savepoint import real_checkpoint
from runtime_tests.checkpoint.test_savepoint import put_checkpoint

TRIGGER = TriggerId("b" * 32)
AUTHORIZED = {"Authorization": "Bearer secret"}


class World:
    """A service over storage in memory, and a REST client."""

    def __init__(
        self,
        savepoints_uri: str | None = "s3://test/savepoints",
        form: SavepointFormat = SavepointFormat.NATIVE,
    ) -> None:
        self.bucket = MemoryBucket(uri="s3://test")
        self.outage = Outage()
        self.completed: list[str] = []
        settings = SavepointSettings(
            job_id=JOB_ID,
            checkpoints_uri="s3://test/job",
            savepoints_uri=savepoints_uri,
            scratch_dir=None,
            form=form,
            source_uids=(OperatorUid("in"),),
        )
        self.service = SavepointService(
            settings,
            SystemClock(),
            open_store=lambda uri: self.bucket.open(uri, self.outage),
            completed=self.completed.append,
        )
        self.ended: list[str] = []
        put_checkpoint(self.bucket.open("s3://test/job"))
        status = JobStatus(job_id=JOB_ID, name="job", state=JobState.RUNNING)
        self.running = True
        self.app = build_app(
            StatusBoard(status, SystemClock()), "secret", lambda: self if self.running else None
        )

    @property
    def savepoints(self) -> SavepointService:
        return self.service

    def stop(self, *, cancel: bool) -> None:
        raise AssertionError

    # --- what the service asks of a checkpoint store -----------------------------------------

    def read_checkpoint(self, path: str) -> CheckpointMetadata:
        return read_checkpoint_at(path, lambda uri: self.bucket.open(uri, self.outage))

    # --- what the job master does --------------------------------------------------------------

    def serve(self, n: int = 7) -> None:
        """Copy every order that waits from checkpoint ``n``, and wait for the outcome."""
        orders = tuple(order.trigger_id for order in self.service.take_orders())
        done = threading.Event()

        def ended(trigger_id: TriggerId) -> None:
            self.ended.append(trigger_id)
            if len(self.ended) >= len(orders):
                done.set()

        self.service.hold(CheckpointId(n))
        self.service.copy(CheckpointId(n), orders, self, ended)  # type: ignore[arg-type]
        assert done.wait(10)

    def post(self, path: str, **body: object) -> tuple[int, dict[str, object]]:
        return call(self.app, "POST", f"/jobs/{JOB_ID}{path}", body=body, headers=AUTHORIZED)

    def get(self, trigger_id: str) -> tuple[int, dict[str, object]]:
        return call(self.app, "GET", f"/jobs/{JOB_ID}/savepoints/{trigger_id}")


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.service.close(finish_copies=True)


def test_a_savepoint_is_ordered_made_and_reported(world: World) -> None:
    status, answer = world.post("/savepoints", triggerId=TRIGGER)
    assert (202, {"request-id": TRIGGER}) == (status, answer)
    assert world.get(TRIGGER) == (200, {"status": {"id": "IN_PROGRESS"}, "operation": None})
    world.serve()
    status, answer = world.get(TRIGGER)
    location = f"s3://test/savepoints/savepoint-{JOB_ID[:6]}-{TRIGGER}"
    operation = answer["operation"]
    assert isinstance(operation, dict)
    assert {"id": "COMPLETED"} == answer["status"]
    assert {
        "location": location,
        "failure-cause": None,
        "checkpointId": 7,
        "sizeBytes": 200,
        "keyGroups": 128,
        "parallelism": 2,
        "offsets": {"in": '{"topic":{"0":70}}'},
    }.items() <= operation.items()
    assert 7 == read_checkpoint_at(location, world.bucket.open).checkpoint_id
    assert [location] == world.completed
    assert set() == world.service.held.numbers()


@pytest.mark.parametrize("key", ["target-directory", "targetDirectory"])
def test_the_directory_of_the_request_wins(world: World, key: str) -> None:
    world.post("/savepoints", **{key: "s3://test/mine/", "triggerId": TRIGGER})
    world.serve()
    assert [f"s3://test/mine/savepoint-{JOB_ID[:6]}-{TRIGGER}"] == world.completed


def test_without_any_directory_the_option_is_named() -> None:
    world = World(savepoints_uri=None)
    status, answer = world.post("/savepoints")
    assert 400 == status
    assert "execution.checkpointing.savepoint-dir" in str(answer["detail"])


@pytest.mark.parametrize("directory", ["s3://test/job", "s3://test/job/savepoints"])
def test_a_savepoint_among_the_jobs_checkpoints_is_refused(world: World, directory: str) -> None:
    status, answer = world.post("/savepoints", targetDirectory=directory)
    assert 400 == status
    assert "must not lie among" in str(answer["detail"])


@pytest.mark.parametrize("directory", ["ftp://x/y", "relative", ""])
def test_a_directory_that_is_none_is_refused(tmp_path: Path, directory: str) -> None:
    status, answer = World().post("/savepoints", targetDirectory=directory)
    assert 400 == status
    assert "directory" in str(answer["detail"])


def test_a_target_that_does_not_answer_costs_no_checkpoint_and_no_epoch(world: World) -> None:
    world.outage.active = True
    status, _ = world.post("/stop", drain=True)
    assert 503 == status
    assert [] == world.service.take_orders()


@pytest.mark.parametrize("path", ["/savepoints", "/stop"])
def test_without_the_token_nothing_is_ordered(world: World, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        status, _ = call(world.app, "POST", f"/jobs/{JOB_ID}{path}", body={}, headers=headers)
        assert 401 == status
    assert [] == world.service.take_orders()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/savepoints", {"formatType": "OTHER"}, 422),
        ("/savepoints", {"cancel-job": True}, 422),
        ("/savepoints", {"targetDir": "s3://test/x"}, 422),
        ("/savepoints", {"triggerId": "../../etc"}, 422),
        ("/stop", {"Drain": True}, 422),
    ],
)
def test_what_is_not_understood_is_refused_and_not_skipped(
    world: World, path: str, body: dict[str, object], status: int
) -> None:
    assert status == world.post(path, **body)[0]
    assert [] == world.service.take_orders()


@pytest.mark.parametrize("path", ["/savepoints", "/stop"])
@pytest.mark.parametrize("configured", SavepointFormat)
@pytest.mark.parametrize("named", ["NATIVE", "CANONICAL", None])
def test_the_format_of_the_request_wins_over_the_configured_one(
    path: str, configured: SavepointFormat, named: str | None
) -> None:
    world = World(form=configured)
    assert 202 == world.post(path, **({} if named is None else {"formatType": named}))[0]
    (order,) = world.service.take_orders()
    assert (named or configured.value) == order.form.value
    world.service.close(finish_copies=True)


def test_a_canonical_savepoint_is_made_and_reported_as_every_other(world: World) -> None:
    real_checkpoint(world.bucket, "rocksdb", "s3://test/job")
    world.post("/savepoints", triggerId=TRIGGER, formatType="CANONICAL")
    world.serve(2)
    operation = world.get(TRIGGER)[1]["operation"]
    assert isinstance(operation, dict)
    assert (None, 2) == (operation["failure-cause"], operation["checkpointId"])
    made = read_checkpoint_at(str(operation["location"]), world.bucket.open)
    assert {"canonical"} == {keyed.backend for slot in made.slots for keyed in slot.keyed}
    assert sum(slot.state_size_bytes for slot in made.slots) == operation["sizeBytes"]


def test_a_checkpoint_that_cannot_be_converted_fails_the_savepoint_alone(world: World) -> None:
    """Its files are no database."""
    world.post("/savepoints", triggerId=TRIGGER, formatType="CANONICAL")
    world.serve()
    operation = world.get(TRIGGER)[1]["operation"]
    assert isinstance(operation, dict)
    assert "CorruptState" == operation["failure-cause"]["class"]
    assert [TRIGGER] == world.ended
    assert set() == world.service.held.numbers()


def test_another_job_and_an_unknown_trigger_are_not_found(world: World) -> None:
    path = f"/jobs/{'f' * 32}/savepoints"
    other, _ = call(world.app, "POST", path, body={}, headers=AUTHORIZED)
    assert (404, 404) == (other, world.get(TRIGGER)[0])


def test_a_job_that_does_not_run_takes_no_order(world: World) -> None:
    world.running = False
    assert 409 == world.post("/savepoints")[0]


def test_a_repeated_request_is_one_order(world: World) -> None:
    for _ in range(3):
        assert 202 == world.post("/savepoints", triggerId=TRIGGER)[0]
    assert [TRIGGER] == [order.trigger_id for order in world.service.take_orders()]


def test_the_next_driver_finds_what_the_last_one_made(world: World) -> None:
    world.post("/savepoints", triggerId=TRIGGER)
    world.serve()
    successor = World()
    successor.bucket.objects.update(world.bucket.objects)
    assert 202 == successor.post("/savepoints", triggerId=TRIGGER)[0]
    _, answer = successor.get(TRIGGER)
    assert isinstance(answer["operation"], dict)
    assert world.completed == [answer["operation"]["location"]]
    assert [] == successor.service.take_orders()


def test_a_stop_whose_savepoint_the_job_outlived_is_refused(world: World) -> None:
    """The driver died after the savepoint and before the end; its successor went on."""
    world.post("/stop", triggerId=TRIGGER)
    world.serve()
    successor = World()
    successor.bucket.objects.update(world.bucket.objects)
    status, answer = successor.post("/stop", triggerId=TRIGGER)
    assert 409 == status
    assert "went on after it" in str(answer["detail"])
    assert [] == successor.service.take_orders()


def test_a_stop_says_whether_it_drains(world: World) -> None:
    world.post("/stop", drain=True)
    world.post("/stop")
    orders = world.service.take_orders()
    assert [(True, True), (True, False)] == [(order.stop, order.drain) for order in orders]


def test_an_order_that_was_put_back_is_taken_again_as_what_it_is(world: World) -> None:
    """The generation that took an order to stop failed before its last checkpoint began."""
    world.post("/stop", triggerId=TRIGGER, drain=True)
    taken = world.service.take_orders()
    world.service.put_back((TRIGGER,))
    assert taken == world.service.take_orders()
    assert (True, True) == (taken[0].stop, taken[0].drain)
    assert [] == world.service.take_orders()


def test_a_failure_is_reported_with_its_kind(world: World) -> None:
    world.post("/savepoints", triggerId=TRIGGER)
    world.service.take_orders()
    world.service.fail((TRIGGER,), "the job failed over")
    _, answer = world.get(TRIGGER)
    assert isinstance(answer["operation"], dict)
    assert {"class": "SavepointFailed", "stack-trace": "the job failed over"} == answer[
        "operation"
    ]["failure-cause"]


def test_a_failed_copy_is_reported_and_releases_the_checkpoint(world: World) -> None:
    world.post("/savepoints", triggerId=TRIGGER)
    world.outage.active = True
    world.serve()
    _, answer = world.get(TRIGGER)
    assert isinstance(answer["operation"], dict)
    assert "StorageUnavailable" == answer["operation"]["failure-cause"]["class"]
    assert set() == world.service.held.numbers()


def test_a_checkpoint_is_held_from_its_completion_to_the_end_of_its_copies(world: World) -> None:
    world.service.hold(CheckpointId(7))
    assert {7} == world.service.held.numbers()
    world.service.generation_ended()
    assert set() == world.service.held.numbers()
    with pytest.raises(InternalError, match="not held"):
        world.service.copy(CheckpointId(7), (), world, lambda _: None)  # type: ignore[arg-type]


def test_the_end_of_the_job_ends_every_order(world: World) -> None:
    world.post("/savepoints", triggerId=TRIGGER)
    world.service.close(finish_copies=True)
    _, answer = world.get(TRIGGER)
    assert isinstance(answer["operation"], dict)
    assert "SavepointFailed" == answer["operation"]["failure-cause"]["class"]
    with pytest.raises(SavepointFailedError, match="has ended"):
        world.service.order(SavepointOrder())


def test_a_driver_waits_for_the_reader_of_its_last_savepoint(world: World) -> None:
    world.post("/stop", triggerId=TRIGGER)
    world.serve()
    waiting = threading.Thread(target=world.service.await_reader, args=(10,))
    waiting.start()
    assert waiting.is_alive()
    world.get(TRIGGER)
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_driver_does_not_wait_for_other_savepoints(world: World) -> None:
    world.post("/savepoints", triggerId=TRIGGER)
    world.serve()
    world.service.await_reader(60)


def test_an_order_without_a_directory_raises_before_anything_is_opened() -> None:
    with pytest.raises(InvalidConfigError):
        World(savepoints_uri=None).service.order(SavepointOrder())
