"""Commits in processes that are killed at chosen moments; run by `headrace.testing.sinks`.

``python -m headrace.testing.sink_killer`` reads a pickled `Order` from its input. For every kill
it forks a process that makes a committer of its own, recovers, and kills itself with SIGKILL after
so many calls of Python and C functions in there, wherever that is: no ``finally`` runs, no buffer
is flushed, connections break. Prints how many of them died.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cloudpickle

from headrace.connectors.sink import LocalCommittable, SinkContext, TwoPhaseCommittingSink


@dataclass(frozen=True)
class Kill:
    """One process.

    Attributes:
        context: generation of the process; without its event, which cannot travel.
        committables: what it recovers.
        calls: it dies after so many calls, or when `recover` has returned.
    """

    context: SinkContext
    committables: Sequence[LocalCommittable]
    calls: int


@dataclass(frozen=True)
class Order:
    """Processes to run, one after another."""

    sink: TwoPhaseCommittingSink
    kills: Sequence[Kill]


def commit_and_be_killed(order: Order, by_value: Sequence[types.ModuleType]) -> int:
    """Run an order in a child process and return how many died before `recover` returned.

    Args:
        order: what to do.
        by_value: modules whose classes the child cannot import.

    Raises:
        AssertionError: a process failed instead of being killed; holds its output.
    """
    named = {module.__name__: module for module in by_value}
    modules = [module for name, module in named.items() if not name.startswith("headrace.")]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        kills = [replace(k, context=_without_event(k.context)) for k in order.kills]
        data = cloudpickle.dumps(replace(order, kills=kills))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    result = subprocess.run(  # noqa: S603 - this module
        [sys.executable, "-m", __spec__.name],
        input=data,
        capture_output=True,
        check=False,
        timeout=120.0,
    )
    if result.returncode != 0:
        raise AssertionError(f"a process failed; output={result.stderr.decode(errors='replace')}")
    return int(result.stdout)


def _without_event(context: SinkContext) -> SinkContext:
    return replace(context, cancelled=None)  # type: ignore[arg-type]


def _run(order: Order, kill: Kill) -> None:
    context = replace(kill.context, cancelled=threading.Event())
    left = kill.calls

    def count(frame: object, event: str, argument: object) -> None:  # noqa: ARG001 - the signature
        nonlocal left
        if event in {"call", "c_call"}:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    committer = order.sink.create_committer(context)
    sys.setprofile(count)  # not before: what is imported for a committer would count
    committer.recover(kill.committables)
    sys.setprofile(None)


def main() -> None:
    """Run the order that stands on the input."""
    order = cloudpickle.loads(sys.stdin.buffer.read())
    died = 0
    for kill in order.kills:
        child = os.fork()
        if child == 0:
            _run(order, kill)
            os._exit(0)  # as sudden as a kill: nothing is closed or flushed
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            died += 1
        elif os.WEXITSTATUS(status) != 0:
            sys.exit(1)  # its traceback is on standard error
    sys.stdout.write(f"{died}\n")


if __name__ == "__main__":
    main()
