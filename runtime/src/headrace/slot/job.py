"""One job in one slot for one generation: state restored, epochs run, state frozen.

Used by the slot process's main thread. Building it restores state: from the frozen local copy when
this process holds the very checkpoint that is ordered, otherwise by download.
"""

from __future__ import annotations

import functools
import logging
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cloudpickle
import msgspec

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.protocol.types import OperatorStateHandle
from headrace.checkpoint.storage.opening import open_store
from headrace.checkpoint.upload import ReusableFiles, SnapshotUploader
from headrace.clock import Clock
from headrace.connectors.sink import SinkContext
from headrace.datastream.time_domain import TimeDomain
from headrace.errors import EpochAbortedError, UserCodeError
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import OperatorUid, SlotIndex
from headrace.keygroups import key_group_range_of_slot
from headrace.slot.level import LevelParts, SlotLevel
from headrace.slot.local_sinks import resolve_sink
from headrace.slot.messages import EpochResult
from headrace.slot.runtime_context import SlotRuntimeContext
from headrace.slot.settings import SlotSettings
from headrace.slot.sinks import SinkPart, SlotSinks
from headrace.slot.snapshots import FrozenSlot, KeyedPart, SlotSnapshots
from headrace.slot.user_code import user_traceback
from headrace.slot.watermarks import WATERMARK_MIN, WatermarkTracker
from headrace.state.contract import BackendConfig, RestoreSource
from headrace.state.directories import working_directory
from headrace.state.factory import backend_factory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.protocol.types import KeyedStateHandle
    from headrace.checkpoint.transfer import TransferPool
    from headrace.graph.job_graph import JobGraph, JobOperator
    from headrace.ids import CheckpointId, Epoch, Generation
    from headrace.slot.chunk import SplitProgress
    from headrace.slot.messages import EpochEnd, Restore
    from headrace.state.contract import KeyedStateBackend

log = logging.getLogger(__name__)

WATERMARK_STATE: Final = "_watermarks"
WATERMARK_UID: Final = OperatorUid("_headrace_watermarks")
"""Owner of the watermark table in operator state; no user operator may have this uid."""


@dataclass(frozen=True, slots=True)
class SlotEnvironment:
    """What outlives a generation in a slot process.

    Attributes:
        work_dir: this process's directory; everything in it may vanish at any time.
        send_output: delivers items of local sinks to the driver (channel, items).
    """

    slot: SlotIndex
    work_dir: Path
    clock: Clock
    pool: TransferPool
    snapshots: SlotSnapshots
    send_output: Callable[[str, list[bytes]], None]
    committed: Callable[[Generation, CheckpointId, int], None]
    commit_failed: Callable[[Generation, BaseException], None]


class SlotJob:
    """The deployment of one generation in this slot."""

    def __init__(self, order: Restore, environment: SlotEnvironment) -> None:
        """Build operators, backends and sinks, and restore their state.

        Raises:
            HeadraceError: state cannot be restored or a connector refuses; the slot reports Failed.
            UserCodeError: a function's ``open`` raised.
        """
        self.generation = order.generation
        self._order = order
        self._environment = environment
        self.settings = msgspec.msgpack.decode(order.settings, type=SlotSettings)
        self.graph: JobGraph = cloudpickle.loads(order.job_graph)
        self.downloaded_bytes = 0
        self.restored_locally = order.checkpoint_id is not None
        self._served: tuple[int, int] = (order.first_epoch - 1, len(self.graph.levels) - 1)
        self._progress: list[SplitProgress] = []
        self._result = _EpochTotals()
        self._directory = environment.work_dir / f"generation-{order.generation}"
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        store = open_store(self.settings.checkpoints_uri, self.settings.storage_options)
        options = self.settings.storage_options
        self._downloader = SnapshotDownloader(
            store, environment.pool, open_elsewhere=lambda uri: open_store(uri, options)
        )
        self.uploader = SnapshotUploader(store, environment.pool, order.generation)
        self._keyed: dict[int, KeyedPart] = {}
        self._sinks: SlotSinks | None = None
        try:
            self._tracker = self._build_tracker()
            for operator in self.graph.operators():
                if operator.kind.is_keyed:
                    self._keyed[operator.id] = self._open_keyed(operator)
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

    def _open_keyed(self, operator: JobOperator) -> KeyedPart:
        order, settings, slot = self._order, self.settings, self._environment.slot
        own_range = key_group_range_of_slot(slot, order.parallelism, order.max_parallelism)
        handles = [h for h in order.keyed if h.operator_uid == operator.uid]
        sources = [self._fetch(operator, i, handle) for i, handle in enumerate(handles)]
        keyed_operators = sum(1 for o in self.graph.operators() if o.kind.is_keyed)
        directory = self._directory / working_directory(
            settings.job_id, type(operator.function).__name__, operator.uid, slot, order.parallelism
        )
        if operator.key_serializer is None:
            msg = f"keyed operator without a key type; uid={operator.uid}"
            raise EpochAbortedError(msg)
        config = BackendConfig(
            directory=directory,
            operator_uid=operator.uid,
            key_serializer=operator.key_serializer,
            key_group_range=own_range,
            managed_memory_bytes=settings.managed_memory_bytes // keyed_operators,
            options=settings.state_options,
            clock=self._environment.clock,
            allow_non_restored_state=settings.allow_non_restored_state,
        )
        backend: KeyedStateBackend = backend_factory(settings.state_backend).open(config, sources)
        adopted = (
            handles[0]
            if settings.incremental
            and len(handles) == 1
            and handles[0].key_group_range == own_range
            and "://" not in "".join(file.path for file in handles[0].files)
            else None
        )
        return KeyedPart(
            operator.id, operator.uid, backend, settings.state_backend, ReusableFiles(adopted)
        )

    def _fetch(self, operator: JobOperator, index: int, handle: KeyedStateHandle) -> RestoreSource:
        """Return the handle's files on local disk, from the frozen copy if it is the same state."""
        recovery = self._environment.snapshots.recovery
        order = self._order
        if (
            recovery is not None
            and recovery.checkpoint_id == order.checkpoint_id
            and recovery.generation == order.checkpoint_generation
        ):
            stored = recovery.handles.get(operator.uid)
            if stored is not None and stored[0] == handle:
                local = stored[1]
                return RestoreSource(
                    local.directory, local.key_group_range, local.key_serializer, local.schemas
                )
        self.restored_locally = False
        target = self._directory / "downloads" / f"{operator.id}-{index}"
        source = self._downloader.download_keyed(handle, target)
        self.downloaded_bytes += sum(file.size_bytes for file in handle.files)
        return source

    def _open_sinks(self) -> SlotSinks:
        order, environment = self._order, self._environment
        parts = []
        for operator in self.graph.operators():
            if operator.kind is not OperatorKind.SINK:
                continue
            spool_dir = self._directory / f"spool-{operator.id}"
            spool_dir.mkdir()
            context = SinkContext(
                job_id=self.settings.job_id,
                operator_uid=operator.uid,
                slot=environment.slot,
                parallelism=order.parallelism,
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
        if self._sinks is None:
            msg = "sinks are opened before levels"
            raise EpochAbortedError(msg)
        return SlotLevel(
            LevelParts(
                graph=self.graph,
                level=self.graph.levels[index],
                slot=self._environment.slot,
                backends={i: part.backend for i, part in self._keyed.items()},
                sinks=self._sinks.writers,
                time_domains=(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME),
            )
        )

    def _open_functions(self) -> None:
        for level in self._levels:
            for operator in level.level.operators:
                opener = getattr(operator.function, "open", None)
                if opener is None or operator.kind is OperatorKind.SINK:
                    continue
                part = self._keyed.get(operator.id)
                context = SlotRuntimeContext(
                    operator=operator,
                    slot=self._environment.slot,
                    parallelism=self._order.parallelism,
                    max_parallelism=self._order.max_parallelism,
                    job_id=self.settings.job_id,
                    job_name=self.settings.job_name,
                    backend=part.backend if part else None,
                )
                try:
                    opener(context)
                except Exception as error:
                    msg = (
                        f"open failed: {type(error).__name__}: {error}; operator={operator.name!r}"
                    )
                    raise UserCodeError(msg, traceback_text=user_traceback(error)) from error
            level.bind()
        for part in self._keyed.values():
            part.backend.finish_registration()

    # --- epochs -----------------------------------------------------------------------------

    def begin(
        self, epoch: Epoch, level: int, emit: Callable[[int, bytes], None]
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
            self._result = _EpochTotals()
        runtime = self._levels[level - 1]
        runtime.begin_epoch(self._environment.clock.now_ms(), emit)

        def take(chunk: bytes) -> None:
            self._progress.extend(runtime.take(chunk))

        return take

    def end(self, level: int, end: EpochEnd) -> EpochResult:
        """End one level of an epoch: event time moves, timers fire; returns counters."""
        runtime = self._levels[level - 1]
        if level == 1:
            self._tracker.observe(self._progress, end.processing_time_ms)
            self._tracker.advance(end.processing_time_ms, final=end.final)
        runtime.scope.processing_time_ms = end.processing_time_ms
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
            self._tracker.ended_sources(),
        )

    # --- checkpoints ------------------------------------------------------------------------

    def freeze(self, checkpoint_id: CheckpointId) -> FrozenSlot:
        """Run the sync phase."""
        started = time.perf_counter()
        upload, carried = self._sinks.seal(checkpoint_id) if self._sinks else ([], [])
        operator = []
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
        return FrozenSlot(
            checkpoint_id=checkpoint_id,
            keyed=keyed,
            spools=tuple(upload),
            carried=tuple(carried),
            operator=tuple(operator),
            sync_ms=(time.perf_counter() - started) * 1000,
        )

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
        for level in getattr(self, "_levels", []):
            for operator in level.level.operators:
                closer = getattr(operator.function, "close", None)
                if closer is not None and operator.kind is not OperatorKind.SINK:
                    try:
                        closer()
                    except Exception:
                        log.exception("close of a user function failed operator=%s", operator.name)
        if self._sinks is not None:
            self._sinks.close()
        for part in self._keyed.values():
            part.backend.close()
        shutil.rmtree(self._directory, ignore_errors=True)


@dataclass(slots=True)
class _EpochTotals:
    """Counters of one epoch over the levels of this slot."""

    records_in: int = 0
    records_out: int = 0
    decode_ns: int = 0
    user_ns: int = 0
    timers_ns: int = 0
    chunks_in: int = 0

    def add(self, runtime: SlotLevel) -> None:
        counters = runtime.counters
        if runtime.level.level == 1:
            self.records_in += counters.records_in
        self.records_out += counters.records_out
        self.decode_ns += counters.decode_ns
        self.user_ns += counters.user_ns
        self.timers_ns += counters.timers_ns
        self.chunks_in += counters.chunks_in

    def to_result(
        self, watermark_ms: int | None, source_records: int, ended_sources: list[int]
    ) -> EpochResult:
        return EpochResult(
            records_in=self.records_in,
            records_out=self.records_out,
            late_records=0,
            watermark_ms=watermark_ms,
            decode_ns=self.decode_ns,
            user_ns=self.user_ns,
            timers_ns=self.timers_ns,
            chunks_in=self.chunks_in,
            source_records=source_records,
            ended_sources=ended_sources,
        )
