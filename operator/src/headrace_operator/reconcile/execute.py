"""Do what was decided: write the status, post the events, carry out the actions, in this order.

The status write carries the version that the decision was made on. When somebody else was faster
it fails, nothing is done, and the job is looked at again; of two operators only one acts on a
state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.api.names import FINALIZER
from headrace.api.v1alpha1 import StreamJobStatus
from headrace.errors import InternalError
from headrace_operator.kube.api import (
    AlreadyExistsError,
    ClusterError,
    Kind,
    KubeApi,
    Manifest,
    MissingError,
    RefusedError,
)
from headrace_operator.observe.facts import Refusal
from headrace_operator.observe.snapshot import EVERYTHING, Scope, Snapshot
from headrace_operator.reconcile.actions import (
    Action,
    AddFinalizer,
    ApplyObject,
    CreateDriver,
    CreateObject,
    CreateToken,
    DeleteObject,
    RemoveFinalizer,
)
from headrace_operator.reconcile.decide import Decision
from headrace_operator.reconcile.events import EventRecorder
from headrace_operator.resources.driver_pod import with_token
from headrace_operator.resources.identity import JobIdentity, key_of
from headrace_operator.resources.secrets import build_token_secret

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a decision."""

    snapshot: Snapshot
    """What the decision was made on, with our own writes taken in."""
    unknown: frozenset[Scope]
    """Parts of it that our actions changed without our seeing the result."""
    acted: bool
    refusal: Refusal | None = None


class Executor:
    """Carries out decisions about one job after the other.

    Args:
        kube: the cluster.
        recorder: of events.
        new_token: returns a fresh secret token.
    """

    def __init__(
        self, kube: KubeApi, recorder: EventRecorder, new_token: Callable[[], str]
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._new_token = new_token

    async def execute(
        self, snapshot: Snapshot, decision: Decision, now: datetime, *, write_status: bool
    ) -> Execution:
        """Carry out a decision.

        Args:
            snapshot: what the decision was made on.
            decision: what to do.
            now: for a refusal.
            write_status: False leaves a status alone that differs in fleeting figures only.

        Raises:
            ClusterError: the status could not be written, or the cluster did not answer.
        """
        if write_status:
            snapshot = await self._write_status(snapshot, decision.status)
        await self._recorder.record(snapshot.manifest, decision.events, now)
        unknown: frozenset[Scope] = frozenset()
        refusal: Refusal | None = None
        for action in decision.actions:
            try:
                snapshot, lost_sight = await self._act(action, snapshot)
                unknown |= lost_sight
            except AlreadyExistsError as error:
                logger.info("already there, looking again: %s", error)
                unknown = EVERYTHING
                break  # what follows rests on it, and it may be somebody else's
            except ClusterError as error:
                if isinstance(action, DeleteObject) and action.is_optional:
                    logger.warning("left to its owner reference: %s", error)
                    continue
                if not isinstance(error, RefusedError):
                    raise
                refusal = Refusal(_describe(action), error.reason, str(error), now)
                logger.warning(
                    "action refused: job=%s/%s action=%s cause=%s",
                    snapshot.job.namespace,
                    snapshot.job.name,
                    refusal.action,
                    error,
                )
                if not isinstance(action, DeleteObject):
                    break  # what follows may rest on it; deletions stand for themselves
        return Execution(snapshot, unknown, acted=bool(decision.actions), refusal=refusal)

    async def _write_status(self, snapshot: Snapshot, status: StreamJobStatus) -> Snapshot:
        """A job that is going may have been stored before a rule that it breaks now (OP51)."""
        wanted = _with_status(snapshot.manifest, status)
        try:
            return snapshot.with_job(await self._kube.replace_status(wanted))
        except RefusedError as error:
            if snapshot.job.deletion_requested_at is None:
                raise
            logger.warning("the status of a job that is being deleted was refused: %s", error)
            return snapshot

    async def _act(self, action: Action, snapshot: Snapshot) -> tuple[Snapshot, frozenset[Scope]]:
        """Do one action; return the snapshot after it, and what of it is not known any more."""
        job = snapshot.job
        match action:
            case AddFinalizer():
                names = [*job.finalizers, FINALIZER]
                manifest = await self._kube.replace_finalizers(snapshot.manifest, names)
                return snapshot.with_job(manifest), frozenset()
            case RemoveFinalizer():
                return await self._remove_finalizer(snapshot), frozenset({Scope.JOB})
            case DeleteObject(key=key, uid=uid, grace_s=grace_s):
                if await self._kube.delete(key, job.namespace, uid=uid, grace_s=grace_s):
                    return snapshot.without(key, uid), frozenset()
                scope = Scope.PODS if key.kind is Kind.POD else Scope.OBJECTS
                return snapshot, frozenset({scope})
            case ApplyObject(manifest=desired):
                made = await self._kube.apply(desired)
            case CreateObject(manifest=desired):
                made = await self._kube.create(desired)
            case CreateToken():
                identity = JobIdentity(job.name, job.namespace, job.uid)
                made = await self._kube.create(build_token_secret(identity, self._new_token()))
            case CreateDriver(manifest=desired):
                made = await self._kube.create(with_token(desired, _token_uid(snapshot)))
        return snapshot.with_made([made]), frozenset()

    async def _remove_finalizer(self, snapshot: Snapshot) -> Snapshot:
        names = [name for name in snapshot.job.finalizers if name != FINALIZER]
        try:
            manifest = await self._kube.replace_finalizers(snapshot.manifest, names)
        except MissingError:
            return snapshot
        return snapshot.with_job(manifest)


def _token_uid(snapshot: Snapshot) -> str:
    if snapshot.token_uid is None:
        job = snapshot.job
        raise InternalError(f"a driver is created after its token; job={job.namespace}/{job.name}")
    return snapshot.token_uid


def _with_status(manifest: Manifest, status: StreamJobStatus) -> Manifest:
    return {**manifest, "status": dump_status(status)}


def dump_status(status: StreamJobStatus) -> dict[str, object]:
    """Return the status as it is stored; absent values are left out."""
    dumped: dict[str, object] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _describe(action: Action) -> str:
    match action:
        case ApplyObject(manifest=manifest):
            return f"correcting {manifest['kind']} {key_of(manifest).name}"
        case CreateObject(manifest=manifest) | CreateDriver(manifest=manifest):
            return f"creating {manifest['kind']} {key_of(manifest).name}"
        case DeleteObject(key=key):
            return f"deleting {key.kind.kind} {key.name}"
        case CreateToken():
            return "creating the token Secret"
        case AddFinalizer() | RemoveFinalizer():
            return "changing the finalizer"
