"""Factories for facts: a running job by default, every part of it replaceable by a test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headrace.api.driver import CheckpointSummary, JobError, JobState, JobStatus, TerminationMessage
from headrace.api.names import (
    ANNOTATION_SPEC_HASH,
    ANNOTATION_TOKEN_UID,
    FINALIZER,
    driver_name,
)
from headrace.api.v1alpha1 import StreamJobSpec, StreamJobStatus
from headrace_operator.diff.digests import digest_spec
from headrace_operator.kube.api import Manifest, ObjectKey
from headrace_operator.observe.facts import (
    ContainerExit,
    DriverAnswer,
    Facts,
    JobFacts,
    PodFacts,
    PodProblem,
)
from headrace_operator.reconcile.decide import Decision, decide
from headrace_operator.resources.desired import build_objects
from headrace_operator.resources.identity import JobIdentity, key_of
from headrace_operator.settings import Settings

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
JOB_UID = "11111111-2222-3333-4444-555555555555"
JOB = JobIdentity("payments", "bank", JOB_UID)
DRIVER_UID = "driver-uid-1"
TOKEN_UID = "token-uid-1"
SETTINGS = Settings()


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def spec_manifest(**changes: object) -> dict[str, object]:
    return {
        "image": "registry.local/job:1",
        "program": {"file": "/opt/job.py"},
        "parallelism": 2,
        **changes,
    }


def digest_of(restarted_at: str = "", **changes: object) -> str:
    spec = StreamJobSpec.model_validate(spec_manifest(**changes))
    return digest_spec(spec, restarted_at=restarted_at).total


def job_facts(
    status: StreamJobStatus | None = None,
    *,
    generation: int = 1,
    annotations: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (FINALIZER,),
    deletion_requested_at: datetime | None = None,
    spec: dict[str, object] | None = None,
    **changes: object,
) -> JobFacts:
    return JobFacts(
        name=JOB.name,
        namespace=JOB.namespace,
        uid=JOB_UID,
        generation=generation,
        spec=spec if spec is not None else spec_manifest(**changes),
        status=status or StreamJobStatus(),
        annotations=annotations or {},
        finalizers=finalizers,
        deletion_requested_at=deletion_requested_at,
    )


def driver_pod(
    *,
    uid: str = DRIVER_UID,
    phase: str = "Running",
    spec_hash: str | None = None,
    token_uid: str = TOKEN_UID,
    owner: str = JOB_UID,
    termination: TerminationMessage | None = None,
    exit_code: int | None = None,
    problem: PodProblem | None = None,
    deletion_deadline: datetime | None = None,
    ready: bool | None = None,
) -> PodFacts:
    ended = phase in {"Succeeded", "Failed"} and exit_code is not None
    return PodFacts(
        name=driver_name(JOB.name),
        uid=uid,
        created_at=NOW,
        phase=phase,
        owner_uids=frozenset({owner}),
        annotations={
            ANNOTATION_SPEC_HASH: digest_of() if spec_hash is None else spec_hash,
            ANNOTATION_TOKEN_UID: token_uid,
        },
        ip="10.1.2.3",
        ready=phase == "Running" if ready is None else ready,
        node="node1",
        deletion_deadline=deletion_deadline,
        problem=problem,
        exit=ContainerExit(exit_code or 0, "Error", "", later(-1)) if ended else None,
        termination=termination,
    )


def executor_pod(
    number: int = 1,
    *,
    phase: str = "Running",
    driver_uid: str = DRIVER_UID,
    problem: PodProblem | None = None,
    deletion_deadline: datetime | None = None,
) -> PodFacts:
    return PodFacts(
        name=f"payments-exec-{number}",
        uid=f"executor-uid-{number}",
        created_at=NOW,
        phase=phase,
        owner_uids=frozenset({driver_uid}),
        problem=problem,
        deletion_deadline=deletion_deadline,
    )


def checkpoint(number: int = 1, *, generation: int = 1, completed_ms: int = 0) -> CheckpointSummary:
    return CheckpointSummary(
        id=number,
        status="COMPLETED",
        generation=generation,
        epoch=10 * number,
        path=f"s3://ckpt/{JOB.job_id}/chk-{number}",
        trigger_ms=1,
        completed_ms=completed_ms or int(NOW.timestamp() * 1000),
        duration_ms=50,
        state_size_bytes=1000,
        uploaded_bytes=100,
    )


def job_status(
    state: JobState = JobState.RUNNING,
    *,
    generation: int = 1,
    epochs: int = 5,
    last_checkpoint: CheckpointSummary | None = None,
    restarts: int = 0,
    error: JobError | None = None,
    recovery_s: float | None = None,
    restored_from: int | None = None,
    lag: int | None = None,
    parallelism: int = 2,
) -> JobStatus:
    return JobStatus(
        job_id=JOB.job_id,
        name=JOB.name,
        state=state,
        generation=generation,
        parallelism=parallelism,
        max_parallelism=128,
        epoch=epochs,
        epochs_committed=epochs,
        restarts=restarts,
        last_checkpoint=last_checkpoint,
        last_error=error,
        last_recovery_s=recovery_s,
        restored_from=restored_from,
        source_lag=lag,
    )


def healthy() -> DriverAnswer:
    return DriverAnswer(job_status(last_checkpoint=checkpoint()))


def live_objects(**changes: object) -> dict[ObjectKey, Manifest]:
    spec = StreamJobSpec.model_validate(spec_manifest(**changes))
    return {key_of(manifest): manifest for manifest in build_objects(JOB, spec)}


def facts(
    job: JobFacts | None = None,
    *,
    now: datetime = NOW,
    driver: PodFacts | None = None,
    executors: tuple[PodFacts, ...] = (),
    objects: dict[ObjectKey, Manifest] | None = None,
    **fields: object,
) -> Facts:
    """Facts of a job whose objects are all there; no driver unless given."""
    made = Facts(
        job=job or job_facts(),
        now=now,
        driver=driver,
        executors=executors,
        objects=live_objects() if objects is None else objects,
        token_uid=TOKEN_UID,
    )
    return replace(made, **fields)  # type: ignore[arg-type] # names are checked by replace


@dataclass(frozen=True)
class Step:
    """One decision, and the facts of the next one with its status written."""

    facts: Facts
    decision: Decision

    @property
    def status(self) -> StreamJobStatus:
        return self.decision.status

    @property
    def event_reasons(self) -> list[str]:
        return [event.reason for event in self.decision.events]

    def then(self, **fields: object) -> Step:
        """Decide again, after the status was written and the world changed by ``fields``."""
        job = fields.pop("job", None)
        base = job if isinstance(job, JobFacts) else self.facts.job
        changed = replace(self.facts, job=replace(base, status=self.status), **fields)  # type: ignore[arg-type]
        return step(changed)


def step(observed: Facts, settings: Settings = SETTINGS) -> Step:
    return Step(observed, decide(observed, settings))


def running() -> Step:
    """A job that is Running: created, deployed and ready."""
    return (
        step(facts())
        .then(driver=driver_pod(phase="Pending"))
        .then(driver=driver_pod(), rest=healthy())
    )
