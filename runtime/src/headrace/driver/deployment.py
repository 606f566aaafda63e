"""Where a driver runs: on this machine, or in a pod. Decided once per process, by the entry point.

`python job.py` gets `local_deployment`; `headrace driver` sets the one that its `DriverConfig`
describes before it runs the program, so that the same program runs unchanged in both.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.api.driver import LOCAL_STATE_DIR
from headrace.ids import JobId, new_job_id

if TYPE_CHECKING:
    from collections.abc import Mapping


MANAGED_MEMORY_DEFAULT_BYTES: Final = 256 << 20
"""Managed memory of one slot of a local run."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One driver's surroundings.

    Attributes:
        job_id: stays the same over driver restarts in a cluster, fresh in a local run.
        token: the job's bearer token.
        master: Spark master, None = local with as many cores as slots.
        host: address that executors and slots reach the driver at.
        control_port, rest_port: 0 = any free one; ``rest_port`` None = no REST server.
        scratch_dir: driver-local directory for Spark's streaming log.
        durable: whether checkpoints must outlive this process, so that a directory must be set.
        spark_conf: Spark options of the manifest.
        own_spark_conf: Spark options that the deployment needs.
        slots_per_executor: slots that share an executor's memory.
        managed_bytes_per_slot: memory of a slot's state where no option says otherwise.
        restore_path: start from this checkpoint while the job has none of its own.
        completed_checkpoint: a checkpoint of this job that is known to be complete; without it or
            a later one the job must not start.
    """

    job_id: JobId
    token: str
    master: str | None
    host: str
    control_port: int
    rest_port: int | None
    scratch_dir: Path
    durable: bool
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    own_spark_conf: Mapping[str, str] = field(default_factory=dict)
    slots_per_executor: int = 1
    managed_bytes_per_slot: int = MANAGED_MEMORY_DEFAULT_BYTES
    restore_path: str | None = None
    allow_non_restored_state: bool = False
    completed_checkpoint: int | None = None


def local_deployment() -> Deployment:
    """Return the surroundings of ``python job.py``."""
    return Deployment(
        job_id=new_job_id(),
        token=secrets.token_urlsafe(32),
        master=None,
        host="127.0.0.1",
        control_port=0,
        rest_port=None,
        scratch_dir=_memory_dir() / "headrace-driver",
        durable=False,
    )


def local_volume() -> Path | None:
    """Return the local volume of a driver pod; None elsewhere, where temporary files will do."""
    volume = Path(LOCAL_STATE_DIR)
    return volume if os.access(volume, os.W_OK) else None


def _memory_dir() -> Path:
    """Return a directory on tmpfs where there is one: Spark syncs its log in every epoch."""
    shm = Path("/dev/shm")  # noqa: S108 - a directory of our own is made below it
    return shm if os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
