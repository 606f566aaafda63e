"""The control channel over real gRPC: who is admitted, what is delivered, when a slot is lost."""

from __future__ import annotations

import queue

import pytest

from headrace.clock import SystemClock
from headrace.driver.slot_service import SlotService
from headrace.ids import AttemptId, Generation, JobId, SlotIndex
from headrace.slot.control import ControlChannel
from headrace.slot.messages import Heartbeat, NotifyComplete, Register, Shutdown

JOB = JobId("0" * 32)
WAIT_S = 10


class Listener:
    def __init__(self):
        self.said = queue.Queue()
        self.lost = queue.Queue()

    def slot_message(self, slot, attempt, message):
        self.said.put((slot, attempt, message))

    def slot_lost(self, slot, attempt):
        self.lost.put((slot, attempt))


class Slot:
    def __init__(self, service, token, attempt, job=JOB):
        self.orders = queue.Queue()
        self.ended = queue.Queue()
        self.channel = ControlChannel(
            f"127.0.0.1:{service.port}", token, self.orders.put, self.ended.put
        )
        self.channel.open(
            Register(job, SlotIndex(0), 0, AttemptId(attempt), 1, "1", "127.0.0.1:1", "name")
        )


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def service(listener):
    service = SlotService(JOB, "secret", listener, SystemClock())
    service.start("127.0.0.1", 0)
    yield service
    service.stop()


def wait_until(condition):
    import time

    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_slot_registers_hears_orders_and_is_heard(service, listener):
    slot = Slot(service, "secret", "a")
    wait_until(lambda: 0 in service.live())
    order = NotifyComplete(Generation(1), 7)
    assert service.send(0, order)
    assert order == slot.orders.get(timeout=WAIT_S)
    beat = Heartbeat(Generation(1), {"x": 1.0})
    slot.channel.send(beat)
    assert (0, "a", beat) == listener.said.get(timeout=WAIT_S)
    assert {0: {"x": 1.0}} == service.metrics()


def test_a_wrong_token_is_turned_away(service):
    slot = Slot(service, "guess", "a")
    assert "UNAUTHENTICATED" in slot.ended.get(timeout=WAIT_S)
    assert {} == service.live()


def test_a_process_of_another_job_is_turned_away(service):
    slot = Slot(service, "secret", "a", job=JobId("f" * 32))
    assert "INVALID_ARGUMENT" in slot.ended.get(timeout=WAIT_S)


def test_a_second_process_for_a_live_slot_is_told_to_end(service):
    Slot(service, "secret", "a")
    wait_until(lambda: 0 in service.live())
    second = Slot(service, "secret", "b")
    assert isinstance(second.orders.get(timeout=WAIT_S), Shutdown)
    assert service.live()[0].attempt == "a"


def test_a_slot_whose_stream_breaks_is_lost(service, listener):
    slot = Slot(service, "secret", "a")
    wait_until(lambda: 0 in service.live())
    slot.channel._channel.close()
    assert (0, "a") == listener.lost.get(timeout=WAIT_S)
    assert {} == service.live()


def test_a_dropped_slot_is_told_to_end_and_not_reported_as_lost(service, listener):
    slot = Slot(service, "secret", "a")
    wait_until(lambda: 0 in service.live())
    service.drop(0, "fewer slots")
    assert Shutdown(reason="fewer slots") == slot.orders.get(timeout=WAIT_S)
    assert {} == service.live()
    assert listener.lost.empty()


def test_a_silent_slot_is_named(service):
    Slot(service, "secret", "a")
    wait_until(lambda: 0 in service.live())
    assert [] == service.silent(60.0)
    assert [0] == service.silent(0.0)
