"""Publication of a checkpoint: metadata put together and made durable, off the job master's thread.

Storage may take its time; epochs go on meanwhile. The outcome comes back as `PublishDone`.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.checkpoint.protocol.types import (
    FORMAT_VERSION,
    CheckpointMetadata,
    OperatorRecord,
)
from headrace.driver.events import PublishDone
from headrace.engine.spark_log import has_commit, read_position, source_offsets
from headrace.errors import CorruptStateError, HeadraceError
from headrace.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.checkpoint.contract import ClaimedGeneration
    from headrace.checkpoint.decisions import PublishCheckpoint
    from headrace.checkpoint.protocol.types import SourcePosition
    from headrace.driver.parts import JobParts
    from headrace.ids import Epoch, OperatorUid

log = logging.getLogger(__name__)

COMMIT_LOG_TIMEOUT_S: Final = 30.0
"""Spark writes ``commits/<n>`` right after the epoch's callback has returned."""


@dataclass(frozen=True, slots=True)
class CheckpointPublisher:
    """Publishes the checkpoints of one generation.

    Attributes:
        scratch: Spark's checkpoint location of this generation, source of the offsets.
    """

    parts: JobParts
    claimed: ClaimedGeneration
    scratch: Path

    def publish(
        self,
        decision: PublishCheckpoint,
        watermark_ms: int | None,
        source_ends: Mapping[OperatorUid, str],
        *,
        finished: bool,
    ) -> None:
        """Begin to publish; `PublishDone` follows.

        Args:
            decision: what the coordinator decided.
            watermark_ms: event time at the checkpoint's barrier.
            source_ends: what is kept of the ends of bounded sources.
            finished: this is the final checkpoint of a job whose sources have ended.
        """
        store, post, generation = self.parts.store, self.parts.post, self.claimed.generation

        def run() -> None:
            try:
                position = self._read_position(decision.epoch, source_ends)
                metadata = self._build(decision, watermark_ms, position, finished=finished)
                reach("driver.before-publish")
                store.publish(metadata)
                reach("driver.after-publish")
            except Exception as error:  # noqa: BLE001 - handed to the job master's thread
                post(PublishDone(generation, decision.checkpoint_id, error))
                return
            post(PublishDone(generation, decision.checkpoint_id, None, metadata))
            self._report_progress(metadata)

        name = f"publish-{decision.checkpoint_id}"
        threading.Thread(target=run, name=name, daemon=True).start()

    def _build(
        self,
        decision: PublishCheckpoint,
        watermark_ms: int | None,
        position: SourcePosition,
        *,
        finished: bool,
    ) -> CheckpointMetadata:
        graph = self.parts.graph
        return CheckpointMetadata(
            format_version=FORMAT_VERSION,
            kind="checkpoint",
            job_id=self.parts.settings.job_id,
            checkpoint_id=decision.checkpoint_id,
            generation=self.claimed.generation,
            parent=self.claimed.parent,
            created_ms=self.parts.clock.now_ms(),
            parallelism=graph.parallelism,
            max_parallelism=graph.max_parallelism,
            source=position,
            watermark_ms=watermark_ms,
            operators=[
                OperatorRecord(
                    o.uid, o.name, o.kind.is_keyed, o.uid_is_generated, graph.own_parallelism(o)
                )
                for o in graph.operators()
            ],
            slots=list(decision.slots),
            finished=finished,
        )

    def _report_progress(self, metadata: CheckpointMetadata) -> None:
        """Tell sources how far the checkpoint is, for people who watch group offsets (H13).

        Nothing is ever restored from there, so a failure is only worth a line in the log.
        """
        if metadata.source is None:
            return
        offsets = source_offsets(metadata.source)
        for operator, offset in zip(self.parts.graph.sources(), offsets, strict=False):
            report = getattr(operator.function, "report_progress", None)
            if report is None or offset is None:
                continue
            try:
                report(offset)
            except HeadraceError as error:
                log.warning("progress was not reported source=%s cause=%s", operator.uid, error)

    def _read_position(self, epoch: Epoch, ends: Mapping[OperatorUid, str]) -> SourcePosition:
        clock, waiter = self.parts.clock, threading.Event()
        deadline = clock.monotonic_s() + COMMIT_LOG_TIMEOUT_S
        while not has_commit(self.scratch, epoch):
            if clock.monotonic_s() > deadline:
                msg = f"Spark has not logged the epoch as committed; epoch={epoch}"
                raise CorruptStateError(msg)
            clock.wait(waiter, 0.02)
        position = read_position(self.scratch, epoch, ends)
        uids = [source.uid for source in self.parts.graph.sources()]
        return msgspec.structs.replace(position, uids=uids)
