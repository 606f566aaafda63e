"""Everything that a running job was told, as one immutable object.

Built by `headrace.driver.execution` from the configuration; the components below take it or parts
of it and read no options themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.driver.epoch_size import SizePolicy, first_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.checkpoint.protocol.savepoints import SavepointFormat
    from headrace.checkpoint.settings import CheckpointSettings
    from headrace.driver.restart import RestartStrategy
    from headrace.ids import JobId
    from headrace.slot.settings import SlotSettings


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of one job.

    Attributes:
        token: bearer token of REST, control and data channel.
        checkpoints_uri: the job's checkpoint directory, ``<checkpoints dir>/<job id>``.
        savepoints_uri: parent of savepoints whose request names no directory.
        savepoint_format: of savepoints whose request names none.
        storage_options: options of the checkpoint storage (``s3.*``, ``fs.azure.*``).
        restore_path: checkpoint or savepoint to start from while the job has none of its own.
        completed_checkpoint: number of a checkpoint of this job that is known to be complete.
        scratch_dir: driver-local directory for Spark's own streaming log; best on tmpfs.
        local_dir: where slot processes keep working state; None = the executor's local directory.
        control_host: address that slots reach the coordinator at.
        control_port: 0 = any free one.
        slot_request_timeout_s: how long a job waits for all its slots.
        slot_heartbeat_timeout_s: a slot that is silent for longer is lost.
        epoch_timeout_s: an epoch that takes longer is aborted.
        min_epoch_s: an epoch does not start earlier than this after the one before.
        max_epoch_rows: most rows that one epoch reads.
        epoch_target_s: how long an epoch shall take while there is more to read; 0: as long as
            ``max_epoch_rows`` take.
    """

    job_id: JobId
    job_name: str
    token: str
    checkpoint: CheckpointSettings
    restart: RestartStrategy
    slots: SlotSettings
    checkpoints_uri: str
    savepoints_uri: str | None
    savepoint_format: SavepointFormat
    storage_options: Mapping[str, str]
    restore_path: str | None
    allow_non_restored_state: bool
    scratch_dir: Path
    local_dir: str | None
    control_host: str
    control_port: int
    slot_request_timeout_s: float
    slot_heartbeat_timeout_s: float
    min_epoch_s: float
    epoch_timeout_s: float
    rescale_timeout_s: float
    max_epoch_rows: int
    epoch_target_s: float
    completed_checkpoint: int | None = None

    @property
    def epoch_size(self) -> SizePolicy | None:
        """How large epochs shall be, None when they are not adapted."""
        if self.epoch_target_s == 0:
            return None
        return SizePolicy(self.epoch_target_s, self.max_epoch_rows)

    @property
    def first_epoch_rows(self) -> int | None:
        """Rows of a generation's first epoch, None when epochs are not adapted."""
        policy = self.epoch_size
        return None if policy is None else first_size(policy).rows
