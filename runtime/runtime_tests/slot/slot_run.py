"""All slots of a job in this process: real graph, exchange chunks, state and checkpoints, no Spark.

Chunks reach a slot in random order, as a shuffle delivers them; the order of one sender's chunks is
not kept either, unless there is only one of them.
"""

from __future__ import annotations

import itertools
import pickle
import random

import cloudpickle
import msgspec

from headrace.checkpoint.protocol.types import CheckpointMetadata, OperatorRecord
from headrace.checkpoint.restore import RestoreTarget, assign_restore
from headrace.checkpoint.transfer import TransferPool
from headrace.clock import SystemClock
from headrace.graph.endpoints import CollectSink
from headrace.graph.planner import PlanSettings, plan_job
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import CheckpointId, Epoch, Generation, JobId, SlotIndex
from headrace.slot.chunk import NO_TIMESTAMP
from headrace.slot.job import SlotEnvironment, SlotJob
from headrace.slot.messages import EpochEnd, Restore
from headrace.slot.operators import ChainBuilder, RecordScope
from headrace.slot.partitioner import ObjectPartitioner
from headrace.slot.settings import SlotSettings
from headrace.slot.snapshots import SlotSnapshots, upload

JOB = JobId("0" * 32)
EPOCH_MS = 1000
"""Processing time from one epoch to the next, also over a restart."""
_runs = itertools.count()


def collect(stream, channel="out"):
    """End a stream with a sink whose values `SlotRun.output` gets."""
    return stream._sink("Collect", CollectSink(channel))


class SlotRun:
    """One generation of a job at one parallelism.

    Args:
        directory: checkpoints and slots go below it; the same for all generations.
        program: an environment's graph, as ``env.program.pending()`` returns it.
        parallelism: number of slots.
        restore: checkpoint of an earlier generation.
        seed: of the order in which chunks arrive.
    """

    def __init__(
        self,
        directory,
        program,
        parallelism,
        restore=None,
        *,
        seed=0,
        backend="hashmap",
        allow_non_restored_state=False,
    ):
        self.graph = plan_job(program, PlanSettings("test", parallelism, 128)).job_graph
        self._random = random.Random(seed)
        self.generation = Generation(next(_runs) + 1)
        self._restored = restore
        self._epoch = restore.created_ms // EPOCH_MS if restore else 0
        self._checkpoints = restore.checkpoint_id if restore else 0
        self.output = []
        self._settings = SlotSettings(
            job_id=JOB,
            job_name="test",
            state_backend=backend,
            state_options={},
            managed_memory_bytes=64 << 20,
            checkpoints_uri=(directory / "checkpoints").as_uri(),
            storage_options={},
            transfer_threads=1,
            heartbeat_interval_s=1.0,
            incremental=True,
            allow_non_restored_state=allow_non_restored_state,
        )
        plan = None
        if restore is not None:
            uids = [operator.uid for operator in self.graph.operators()]
            own = {o.uid: self.graph.parallelism_of(o) for o in self.graph.operators()}
            target = RestoreTarget(
                parallelism, 128, uids, allow_non_restored_state, parallelism_by_uid=own
            )
            plan = assign_restore(restore, target).slots
        self.slots = []
        try:
            for slot in range(parallelism):
                self.slots.append(self._start(directory, slot, plan[slot] if plan else None))
        except BaseException:
            self.close()
            raise

    def _start(self, directory, slot, assigned):
        work = directory / f"generation-{self.generation}-slot-{slot}"
        work.mkdir(parents=True)
        environment = SlotEnvironment(
            slot=SlotIndex(slot),
            work_dir=work,
            clock=SystemClock(),
            pool=TransferPool(1),
            snapshots=SlotSnapshots(work / "snapshots"),
            send_output=lambda _channel, items: self.output.extend(map(pickle.loads, items)),
            committed=lambda *_: None,
            commit_failed=lambda _generation, error: pytest_fail(error),
        )
        restore = self._restored
        order = Restore(
            generation=self.generation,
            parallelism=self.graph.parallelism,
            max_parallelism=128,
            job_graph=cloudpickle.dumps(self.graph),
            settings=msgspec.msgpack.encode(self._settings),
            checkpoint_id=restore.checkpoint_id if restore else None,
            checkpoint_generation=restore.generation if restore else None,
            restored_parallelism=restore.parallelism if restore else None,
            keyed=list(assigned.keyed) if assigned else [],
            operator=list(assigned.operator) if assigned else [],
            committables=[],
            first_epoch=Epoch(0),
            watermark_ms=None,
        )
        return SlotJob(order, environment)

    def epoch(self, *sources):
        """Run one epoch to its end; returns its output, sorted.

        Args:
            sources: for each source, in the job's order, a list of tasks, each a list of values.
        """
        before = len(self.output)
        chunks = self._read(sources)
        for level in range(1, len(self.graph.levels)):
            chunks = self._run_level(level, chunks)
        self._epoch += 1
        return sorted(self.output[before:], key=repr)

    def _run_level(self, level, chunks):
        following = [[] for _ in self.slots]
        for slot, arriving in zip(self.slots, chunks, strict=True):
            take = slot.begin(
                Epoch(self._epoch),
                level,
                self._epoch * EPOCH_MS,
                lambda to, chunk: following[to].append(chunk),
            )
            self._random.shuffle(arriving)
            for chunk in arriving:
                take(chunk)
            slot.end(level, EpochEnd(final=False, ended_sources=[]))
        return following

    def _read(self, sources):
        """Run level 0, one source task after another."""
        chunks = [[] for _ in self.slots]
        tasks = [
            (operator, values)
            for operator, tasks in zip(self.graph.sources(), sources, strict=True)
            for values in tasks
        ]
        for number, (source, values) in enumerate(tasks):
            partitioners = {
                edge.tag: ObjectPartitioner(
                    edge,
                    self.graph.parallelism_of(edge),
                    128,
                    lambda to, chunk: chunks[to].append(chunk),
                )
                for edge in self.graph.levels[1].inputs
            }
            exits = {tag: partitioner.add for tag, partitioner in partitioners.items()}
            scope = RecordScope()
            chain = ChainBuilder(self.graph.levels[0].operators, scope, exits, {})
            for partitioner in partitioners.values():
                partitioner.begin(number)
            for value in values:
                scope.timestamp = NO_TIMESTAMP
                chain.downstream(source.id)(value)
            for partitioner in partitioners.values():
                partitioner.flush()
        return chunks

    def checkpoint(self):
        """Take a checkpoint of all slots and return its metadata."""
        self._checkpoints += 1
        checkpoint_id = CheckpointId(self._checkpoints)
        frozen = [slot.freeze(checkpoint_id) for slot in self.slots]
        snapshots = [
            upload(each, slot.uploader, SlotIndex(index))
            for index, (each, slot) in enumerate(zip(frozen, self.slots, strict=True))
        ]
        return CheckpointMetadata(
            format_version=1,
            kind="checkpoint",
            job_id=JOB,
            checkpoint_id=checkpoint_id,
            generation=self.generation,
            parent=None,
            created_ms=self._epoch * EPOCH_MS,
            parallelism=len(self.slots),
            max_parallelism=128,
            source=None,
            watermark_ms=None,
            operators=[
                OperatorRecord(
                    o.uid, o.name, True, o.uid_is_generated, self.graph.own_parallelism(o)
                )
                for o in self.graph.operators()
                if o.kind is not OperatorKind.SOURCE
            ],
            slots=snapshots,
        )

    def close(self):
        """Close every slot."""
        for slot in self.slots:
            slot.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def pytest_fail(error):
    """Nothing commits here."""
    raise error
