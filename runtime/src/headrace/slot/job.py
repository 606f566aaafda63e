"""One job in one slot for one generation: state restored, epochs run, state frozen.

Used by the slot process's main thread. Building it restores state: from the frozen local copy when
this process holds the very checkpoint that is ordered, otherwise by download
(`headrace.slot.keyed_state`).
"""

from __future__ import annotations

import functools
import logging
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import cloudpickle
import msgspec

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.protocol.types import OperatorStateHandle
from headrace.checkpoint.storage.opening import open_store
from headrace.checkpoint.upload import LocalFile, SnapshotUploader
from headrace.clock import Clock
from headrace.connectors.sink import SinkContext
from headrace.datastream.time_domain import TimeDomain
from headrace.errors import EpochAbortedError
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import OperatorUid, SlotIndex
from headrace.slot.functions import SlotFunctions
from headrace.slot.keyed_state import KeyedPlace, KeyedStateOpener
from headrace.slot.level import LevelParts, SlotLevel
from headrace.slot.local_sinks import resolve_sink
from headrace.slot.messages import EpochResult, Rescale
from headrace.slot.settings import SlotSettings
from headrace.slot.sinks import SinkPart, SlotSinks
from headrace.slot.snapshots import FrozenSlot, KeyedPart, SlotSnapshots
from headrace.slot.totals import EpochTotals
from headrace.slot.watermarks import WATERMARK_MIN, WatermarkTracker
from headrace.state.memory import SlotMemories

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.transfer import TransferPool
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import CheckpointId, Epoch, Generation
    from headrace.slot.chunk import SplitProgress
    from headrace.slot.messages import EpochEnd, Restore
    from headrace.slot.preparation import PreparedState

log = logging.getLogger(__name__)

WATERMARK_STATE: Final = "_watermarks"
WATERMARK_UID: Final = OperatorUid("_headrace_watermarks")
"""Owner of the watermark table in operator state; no user operator may have this uid."""

TRACKED_BYTES_MAX: Final = 128 << 20
"""Memory of a slot for noting changes while a rescale is prepared; beyond it, new owners restore
all state from storage at the switch."""


@dataclass(frozen=True, slots=True)
class SlotEnvironment:
    """What outlives a generation in a slot process.

    Attributes:
        work_dir: this process's directory; everything in it may vanish at any time.
        send_output: delivers items of local sinks to the driver (channel, items).
        memories: native memory of keyed state, the same for all generations.
    """

    slot: SlotIndex
    work_dir: Path
    clock: Clock
    pool: TransferPool
    snapshots: SlotSnapshots
    send_output: Callable[[str, list[bytes]], None]
    committed: Callable[[Generation, CheckpointId, int], None]
    commit_failed: Callable[[Generation, BaseException], None]
    memories: SlotMemories = field(default_factory=SlotMemories)


class SlotJob:
    """The deployment of one generation in this slot."""

    def __init__(
        self,
        order: Restore,
        environment: SlotEnvironment,
        prepared: PreparedState | None = None,
    ) -> None:
        """Build operators, backends and sinks, and restore their state.

        Args:
            order: what to restore.
            environment: of the slot process.
            prepared: rows that this process built for a hand-over; what is not used stays open.

        Raises:
            HeadraceError: state cannot be restored or a connector refuses; the slot reports Failed.
            UserCodeError: a function's ``open`` raised.
        """
        self.generation = order.generation
        self._order = order
        self._environment = environment
        self.settings = msgspec.msgpack.decode(order.settings, type=SlotSettings)
        self.graph: JobGraph = cloudpickle.loads(order.job_graph)
        self._served: tuple[int, int] = (order.first_epoch - 1, len(self.graph.levels) - 1)
        self._progress: list[SplitProgress] = []
        self._result = EpochTotals()
        self._directory = environment.work_dir / f"generation-{order.generation}"
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        environment.pool.resize(self.settings.transfer_threads)
        store = open_store(self.settings.checkpoints_uri, self.settings.storage_options)
        options = self.settings.storage_options
        self._downloader = SnapshotDownloader(
            store, environment.pool, open_elsewhere=lambda uri: open_store(uri, options)
        )
        self.uploader = SnapshotUploader(store, environment.pool, order.generation)
        place = KeyedPlace(
            slot=environment.slot,
            max_parallelism=order.max_parallelism,
            directory=self._directory,
            settings=self.settings,
            clock=environment.clock,
            memory=environment.memories.of_bytes(self.settings.managed_memory_bytes),
        )
        self._opener = KeyedStateOpener(
            order, place, self.graph, self._downloader, environment.snapshots, prepared
        )
        self._keyed: dict[int, KeyedPart] = {}
        self._sinks: SlotSinks | None = None
        self._functions: SlotFunctions | None = None
        try:
            self._tracker = self._build_tracker()
            self._functions = SlotFunctions(
                order, self.graph, environment.slot, self.settings, environment.clock
            )
            for operator in self.graph.operators_in(environment.slot):
                if operator.kind.is_keyed:
                    self._keyed[operator.id] = self._opener.open(operator)
            self._sinks = self._open_sinks()
            self._sinks.recover(
                order.committables, self._downloader, self._directory / "recovered-spools"
            )
            self._levels = [self._build_level(index) for index in range(1, len(self.graph.levels))]
            self._open_functions()
        except BaseException:
            self.close()
            raise

    # --- building ---------------------------------------------------------------------------

    def _build_tracker(self) -> WatermarkTracker:
        sources = {
            index: (str(source.uid), source.watermarks)
            for index, source in enumerate(self.graph.sources())
            if source.watermarks.is_event_time
        }
        tracker = WatermarkTracker(sources)
        items = [
            item
            for handle in self._order.operator
            if handle.operator_uid == WATERMARK_UID
            for item in handle.items
        ]
        tracker.restore(items, self._order.watermark_ms, self._environment.clock.now_ms())
        return tracker

    def _open_sinks(self) -> SlotSinks:
        order, environment = self._order, self._environment
        parts = []
        for operator in self.graph.operators_in(environment.slot):
            if operator.kind is not OperatorKind.SINK:
                continue
            spool_dir = self._directory / f"spool-{operator.id}"
            spool_dir.mkdir()
            context = SinkContext(
                job_id=self.settings.job_id,
                operator_uid=operator.uid,
                slot=environment.slot,
                parallelism=self.graph.parallelism_of(operator),
                generation=order.generation,
                restored_checkpoint_id=order.checkpoint_id,
                restored_parallelism=order.restored_parallelism,
                spool_dir=spool_dir,
                clock=environment.clock,
                storage_options=self.settings.storage_options,
            )
            sink = resolve_sink(operator.function, environment.send_output)
            parts.append(SinkPart(operator.id, sink, context))
        return SlotSinks(
            parts,
            functools.partial(environment.committed, order.generation),
            functools.partial(environment.commit_failed, order.generation),
        )

    def _build_level(self, index: int) -> SlotLevel:
        if self._sinks is None or self._functions is None:
            msg = "sinks and functions are made before levels"
            raise EpochAbortedError(msg)
        return SlotLevel(
            LevelParts(
                graph=self.graph,
                level=self.graph.levels[index],
                slot=self._environment.slot,
                backends={i: part.backend for i, part in self._keyed.items()},
                sinks=self._sinks.writers,
                broadcasts=self._functions.broadcasts,
                time_domains=(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME),
            )
        )

    def _open_functions(self) -> None:
        if self._functions is None:
            msg = "functions are made before levels"
            raise EpochAbortedError(msg)
        backends = {i: part.backend for i, part in self._keyed.items()}
        for level in self._levels:
            self._functions.open(level.level.operators, backends)
            level.bind()
        for part in self._keyed.values():
            part.backend.finish_registration()
        self._functions.finish_registration()

    # --- epochs -----------------------------------------------------------------------------

    def begin(
        self,
        epoch: Epoch,
        level: int,
        processing_time_ms: int,
        emit: Callable[[int, bytes], None],
    ) -> Callable[[bytes], None]:
        """Start one level of an epoch; returns what takes its chunks.

        Raises:
            EpochAbortedError: this (epoch, level) is not the one that comes next; in particular a
                slot refuses to be called twice for the same one.
        """
        last_epoch, last_level = self._served
        levels = len(self._levels)
        in_order = (
            epoch > last_epoch and level == 1
            if last_level == levels
            else epoch == last_epoch and level == last_level + 1
        )
        if not in_order:
            msg = (
                "a slot was called out of turn, the epoch is abandoned; "
                f"got={epoch}/{level} after={last_epoch}/{last_level}"
            )
            raise EpochAbortedError(msg)
        self._served = (epoch, level)
        if level == 1:
            self._progress = []
            self._result = EpochTotals()
        runtime = self._levels[level - 1]
        runtime.begin_epoch(processing_time_ms, emit)

        def take(chunk: bytes) -> None:
            self._progress.extend(runtime.take(chunk))

        return take

    def end(self, level: int, end: EpochEnd) -> EpochResult:
        """End one level of an epoch: event time moves, timers fire; returns counters."""
        runtime = self._levels[level - 1]
        if level == 1:
            now_ms = runtime.scope.processing_time_ms
            self._tracker.observe(self._progress, now_ms, end.ended_sources)
            self._tracker.advance(now_ms, final=end.final)
        runtime.end_epoch(self._tracker.current_ms)
        if level == len(self._levels):
            if self._sinks is not None:
                self._sinks.flush_epoch()
            for part in self._keyed.values():
                part.backend.maintain()
        self._result.add(runtime)
        watermark = self._tracker.current_ms
        return self._result.to_result(
            watermark if watermark != WATERMARK_MIN else None,
            sum(seen.records for seen in self._progress),
        )

    # --- checkpoints ------------------------------------------------------------------------

    @property
    def downloaded_bytes(self) -> int:
        """Bytes of state that the restore took from storage."""
        return self._opener.downloaded_bytes

    @property
    def restored_locally(self) -> bool:
        """Whether all state was on this disk."""
        return self._opener.restored_locally

    def freeze(self, checkpoint_id: CheckpointId, rescale: Rescale = Rescale.NONE) -> FrozenSlot:
        """Run the sync phase."""
        started = time.perf_counter()
        operator = self._functions.snapshot(checkpoint_id) if self._functions else []
        upload, carried = self._sinks.seal(checkpoint_id) if self._sinks else ([], [])
        if self._environment.slot == 0:
            items = self._tracker.store()
            operator.append(
                OperatorStateHandle(WATERMARK_UID, SlotIndex(0), WATERMARK_STATE, "union", items)
            )
        snapshots = self._environment.snapshots
        keyed = tuple(
            (part, part.backend.snapshot(snapshots.directory(checkpoint_id, part.operator_id)))
            for part in self._keyed.values()
        )
        hands_over = rescale in {Rescale.ROUND, Rescale.HAND_OVER}
        changes = self._write_changes(checkpoint_id) if hands_over else ()
        if rescale in {Rescale.BASE, Rescale.ROUND}:
            for part in self._keyed.values():
                part.backend.track_changes(TRACKED_BYTES_MAX // len(self._keyed))
        return FrozenSlot(
            checkpoint_id=checkpoint_id,
            keyed=keyed,
            spools=tuple(upload),
            carried=tuple(carried),
            operator=tuple(operator),
            changes=changes,
            sync_ms=(time.perf_counter() - started) * 1000,
        )

    def _write_changes(
        self, checkpoint_id: CheckpointId
    ) -> tuple[tuple[OperatorUid, LocalFile], ...]:
        """Write what changed since the last round; operators that lost track are left out."""
        written = []
        for part in self._keyed.values():
            name = f"changes-{self._environment.slot}"
            path = self._directory / f"{name}-{checkpoint_id}-{part.operator_id}"
            size = part.backend.write_changes(path)
            if size is not None:
                written.append((part.uid, LocalFile(name, path, size)))
        return tuple(written)

    def stop_tracking(self) -> None:
        """Stop noting changes for a rescale that was abandoned."""
        for part in self._keyed.values():
            part.backend.track_changes(0)

    @property
    def sinks(self) -> SlotSinks | None:
        """The sinks of this generation."""
        return self._sinks

    def checkpoint_completed(self, checkpoint_id: CheckpointId) -> None:
        """Take note that a checkpoint exists: publish its output."""
        if self.settings.incremental:
            for part in self._keyed.values():
                part.reusable.completed(checkpoint_id)
        if self._sinks is not None:
            self._sinks.completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Take note that a checkpoint was given up."""
        for part in self._keyed.values():
            part.reusable.aborted(checkpoint_id)
        if self._sinks is not None:
            self._sinks.aborted(checkpoint_id)

    def metrics(self) -> dict[str, float]:
        """Return gauges of all keyed operators, as ``name{uid}``."""
        return {
            f"{name}{{{part.uid}}}": value
            for part in self._keyed.values()
            for name, value in part.backend.metrics().items()
        }

    def close(self) -> None:
        """Release everything and remove the generation's working files."""
        if self._functions is not None:
            self._functions.close()
        if self._sinks is not None:
            self._sinks.close()
        for part in self._keyed.values():
            part.backend.close()
        shutil.rmtree(self._directory, ignore_errors=True)
