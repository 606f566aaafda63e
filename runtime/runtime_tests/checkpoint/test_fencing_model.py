"""The fencing protocol under every interleaving that fits: real code, one operation at a time.

After each operation `World.check` asserts that a coordinator that started now would restore a
checkpoint whose files all exist, and which continues the committed output exactly. In the end an
undisturbed coordinator finishes the job, so that nobody is left stuck.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from headrace.errors import StorageUnavailableError
from runtime_tests.checkpoint.fencing_world import Coordinator, World
from runtime_tests.checkpoint.interleaving import Actor, Directive

pytestmark = pytest.mark.property


class Run:
    """One world with its actors."""

    def __init__(self) -> None:
        self.world = World()
        self.actors: list[Actor] = []
        self.processes: list[list[Actor]] = []
        self.trace: list[str] = []

    def spawn(self, checkpoints: int) -> Actor:
        """Start a coordinator; returns its main thread."""
        process: list[Actor] = []
        name = f"c{len(self.processes)}"

        def start(life: Callable[[], None]) -> None:
            actor = Actor(f"{name}{'+' * len(process)}", life)
            process.append(actor)
            self.actors.append(actor)

        coordinator = Coordinator(self.world, name, checkpoints, in_background=start)
        start(coordinator.live)
        self.processes.append(process)
        return process[0]

    def crash(self, actor: Actor) -> None:
        """Kill all threads of an actor's process."""
        for process in self.processes:
            if actor in process:
                self.trace.append(f"{actor.name}: crash")
                for thread in process:
                    thread.end()

    def step(self, actor: Actor, directive: Directive = Directive.RUN) -> None:
        operation = actor.waits_for
        self.trace.append(f"{actor.name}: {operation} [{directive.value}]")
        actor.step(directive)
        try:
            if actor.failure is not None:
                raise actor.failure  # noqa: TRY301 - of the actor's thread, with our trace added
            if not operation.startswith(("get ", "list ")):
                self.world.check()
        except StorageUnavailableError:
            pass  # a life that storage failed at an unlucky moment: it ends, as a process would
        except BaseException as error:
            error.add_note("\n".join(self.trace))
            raise

    def land(self, actor: Actor) -> None:
        """Let the oldest delayed operation of an actor, dead or alive, take effect."""
        if actor.late:
            self.trace.append(f"{actor.name}: a delayed operation lands")
            actor.late.pop(0)()
            self.world.check()

    def run(self, actor: Actor, steps: int | None = None) -> int:
        done = 0
        while not actor.finished and (steps is None or done < steps):
            self.step(actor)
            done += 1
        return done

    def finish(self) -> None:
        """Let everybody end, then one more coordinator alone: it must come through."""
        self._run_all()
        before = len(self.world.output)
        self.spawn(2)
        self._run_all()
        assert self.world.output == list(range(1, len(self.world.output) + 1))
        assert len(self.world.output) >= before + 2

    def _run_all(self) -> None:
        for actor in self.actors:  # grows while it is walked: threads start threads
            self.run(actor)
            while actor.late:
                self.land(actor)

    def end(self) -> None:
        for actor in self.actors:
            actor.end()


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    yield run
    run.end()


def test_a_coordinator_alone_commits_every_epoch_once(run: Run) -> None:
    run.run(run.spawn(4))
    assert run.world.output == [1, 2, 3, 4]


def test_coordinators_one_after_the_other_continue_each_other(run: Run) -> None:
    for _ in range(3):
        run.run(run.spawn(2))
    assert run.world.output == [1, 2, 3, 4, 5, 6]
    assert run.world.generations_run == [1, 2, 3]


def steps_of_one_life(checkpoints: int) -> int:
    run = Run()
    try:
        return run.run(run.spawn(checkpoints))
    finally:
        run.end()


def explore(switches: list[tuple[int, int]], checkpoints: list[int]) -> None:
    """Run actors by turns: each switch is (actor, steps); then all to their ends, in order."""
    run = Run()
    try:
        for index, steps in switches:
            while len(run.processes) <= index:
                run.spawn(checkpoints[len(run.processes)])
            run.run(run.processes[index][0], steps)
        run.finish()
    finally:
        run.end()


@pytest.mark.parametrize("first_switch", range(steps_of_one_life(2)))
def test_a_deposed_coordinator_does_no_harm_wherever_the_two_switch(first_switch: int) -> None:
    """Old stops anywhere, new runs up to anywhere, old goes on to its end, then new."""
    for second_switch in range(1, steps_of_one_life(1) + 4):
        explore([(0, first_switch), (1, second_switch), (0, 1000)], [2, 1])


@pytest.mark.parametrize("first_switch", range(steps_of_one_life(2)))
def test_a_successor_that_died_before_its_start_was_recorded_does_no_harm(
    first_switch: int,
) -> None:
    """Old stops anywhere, a second one dies at any step of its start, a third takes over."""
    for death in range(1, 8):
        run = Run()
        try:
            old = run.spawn(2)
            run.run(old, first_switch)
            second = run.spawn(1)
            run.run(second, death)
            run.crash(second)
            run.run(run.spawn(1), 12)
            run.finish()
        finally:
            run.end()


@pytest.mark.slow
@pytest.mark.parametrize("first_switch", range(2, steps_of_one_life(2), 2))
def test_three_coordinators_do_no_harm_wherever_they_switch(first_switch: int) -> None:
    for second in range(1, 16):
        for third in range(1, 16):
            explore([(0, first_switch), (1, second), (2, third), (0, 1000), (1, 1000)], [2, 1, 1])


FAILURES = [Directive.REFUSE, Directive.LOSE_REPLY, Directive.DELAY]


def explore_at_random(rng: random.Random) -> None:
    """Up to four threads at once, nine coordinators in all; bursts of steps between switches.

    Some steps go wrong; delayed requests land whenever it hurts, after their sender's death too.
    """
    run = Run()
    try:
        for _ in range(rng.randint(20, 200)):
            if rng.random() < 0.06:
                for actor in run.actors:
                    run.land(actor)
            alive = [actor for actor in run.actors if not actor.finished]
            chosen = rng.randrange(4)
            if len(alive) <= chosen and len(run.processes) < 9:
                alive.append(run.spawn(3))
            if not alive:
                continue
            actor = alive[chosen % len(alive)]
            if rng.random() < 0.03:
                run.crash(actor)
                continue
            run.step(actor, Directive.RUN if rng.random() < 0.9 else rng.choice(FAILURES))
            run.run(actor, rng.choice([0, 0, 0, 1, 3, 7]))
        run.finish()
    finally:
        run.end()


@pytest.mark.parametrize("seed", range(6))
def test_output_is_exactly_once_under_random_switches_crashes_and_storage_failures(
    seed: int,
) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        explore_at_random(rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
def test_output_is_exactly_once_under_many_more_random_runs(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(1000):
        explore_at_random(rng)


def _run_until(run: Run, actor: Actor, operation: str) -> None:
    while not actor.finished and not actor.waits_for.startswith(operation):
        run.step(actor)


def test_a_late_deletion_never_hits_a_number_that_was_used_again(run: Run) -> None:
    """Two cleaners see one orphan; the first is slow; the second deletes it and goes on.

    Generation 1 is about to write chk-2. Generation 2 starts, generation 3 starts; only then the
    orphan appears, both see it, 3 deletes it and publishes the same number, and 2 wakes up.
    """
    zombie = run.spawn(2)
    _run_until(run, zombie, "put chk-2/")
    slow = run.spawn(1)
    _run_until(run, slow, "list .")
    run.step(slow)
    _run_until(run, slow, "list .")  # the listing of its clean-up, after its last look at the fence
    fast = run.spawn(3)
    _run_until(run, fast, "list .")
    run.step(fast)  # sees no orphan, so 2 is its first number
    _run_until(run, zombie, "create chk-2/_metadata")
    run.step(zombie)  # the orphan appears
    run.step(slow)
    _run_until(run, slow, "delete chk-2/_metadata")
    _run_until(run, fast, "put generations/0000000003/latest")
    run.run(slow)
    run.run(fast)
    run.finish()


def test_a_number_that_an_orphan_had_is_not_used_again_after_its_deletion(run: Run) -> None:
    """A slow cleaner, fenced after its last look, deletes the orphan long after others have.

    Generation 1 publishes the orphan chk-2 after generation 2 has taken over from chk-1. Generation
    3 is about to delete it and falls asleep; generation 4 deletes it and dies; 5 publishes.
    """
    zombie = run.spawn(2)
    _run_until(run, zombie, "put chk-2/")
    second = run.spawn(1)
    _run_until(run, second, "get generations/0000000001/start")
    run.run(zombie)
    _run_until(run, second, "put ")
    run.crash(second)
    slow = run.spawn(1)
    _run_until(run, slow, "delete chk-2/_metadata")
    fourth = run.spawn(1)
    _run_until(run, fourth, "put ")
    run.crash(fourth)
    fifth = run.spawn(1)
    _run_until(run, fifth, "commit 3")
    run.run(slow)
    run.finish()


def test_files_that_a_successor_shares_are_safe_from_a_cleaner_of_the_past(run: Run) -> None:
    """A cleaner listed its newest checkpoint, then a successor superseded and deleted it.

    It must not take that checkpoint's files for unreferenced: the successor's refer to them.
    """
    old = run.spawn(2)
    run.run(old)
    cleaner = run.processes[0][1]
    _run_until(run, cleaner, "list .")
    run.step(cleaner)
    new = run.spawn(1)
    run.run(new)
    run.run(run.processes[1][1])
    run.run(cleaner)
    run.finish()
