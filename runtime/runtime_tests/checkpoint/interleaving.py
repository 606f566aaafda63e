"""Runs several coordinators, each in a thread, one storage operation at a time in a chosen order.

A coordinator may have a second thread (clean-up in background); each thread is an `Actor`. The code
under test is the real one. Every operation of its `MemoryStore` and every sink commit first asks
`Actor.pause`, which hands the baton back to the test; the test says which actor goes on and what
happens to its operation. So a run is a function of the list of choices alone.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from headrace.testing.object_store import Fault, Faults, Operation


class Directive(enum.Enum):
    """What happens to the operation that an actor waits to do."""

    RUN = "run"
    CRASH = "crash"
    REFUSE = "refuse"
    LOSE_REPLY = "lose-reply"
    DELAY = "delay"


_FAULTS = {
    Directive.RUN: Fault.NONE,
    Directive.REFUSE: Fault.REFUSED,
    Directive.LOSE_REPLY: Fault.REPLY_LOST,
    Directive.DELAY: Fault.DELAYED,
}


class Crashed(BaseException):
    """The process of an actor ends here; not an Exception, so nothing handles it by mistake."""


_current = threading.local()


class CurrentActor(Faults):
    """Faults of a store that several threads of one process use: asks the thread's own actor."""

    def choose(self, operation: Operation, path: str) -> Fault:
        return current_actor().choose(operation, path)

    def delay(self, effect: Callable[[], None]) -> None:
        current_actor().late.append(effect)


def current_actor() -> Actor:
    """Return the actor that runs in this thread."""
    actor: Actor = _current.actor
    return actor


class Actor:
    """One thread of a coordinator's process; it runs only between `step` and the next `pause`."""

    def __init__(self, name: str, life: Callable[[], None]) -> None:
        self.name = name
        self.waits_for = ""
        self.failure: BaseException | None = None
        self.finished = False
        self.late: list[Callable[[], None]] = []
        """Effects of delayed operations that have not landed yet."""
        self._directive = Directive.RUN
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(life,), name=name, daemon=True)
        self._thread.start()
        self._paused.acquire()

    def step(self, directive: Directive = Directive.RUN) -> None:
        """Do the operation that the actor waits for, up to the next one or the end."""
        assert not self.finished
        self._directive = directive
        self._go.release()
        self._paused.acquire()

    def end(self) -> None:
        """Crash the actor if it still runs."""
        while not self.finished:
            self.step(Directive.CRASH)
        self._thread.join()

    def choose(self, operation: Operation, path: str) -> Fault:
        """Wait for the test's leave to do an operation."""
        directive = self.pause(f"{operation.value} {path}")
        if not operation.changes and directive is not Directive.RUN:
            return Fault.REFUSED
        return _FAULTS[directive]

    def pause(self, waits_for: str) -> Directive:
        """Wait until the test lets this actor go on; called in the actor's thread."""
        self.waits_for = waits_for
        self._paused.release()
        self._go.acquire()
        if self._directive is Directive.CRASH:
            raise Crashed
        return self._directive

    def _run(self, life: Callable[[], None]) -> None:
        _current.actor = self
        try:
            self.pause("begin")
            life()
        except Crashed:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            self.failure = error
        finally:
            self.finished = True
            self._paused.release()
