"""Do what was decided: write the status, post the events, carry out the actions, in this order.

The status write carries the version that the decision was made on. When somebody else was faster
it fails, nothing is done, and the job is looked at again; of two operators only one acts on a
state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from headrace.api.names import FINALIZER
from headrace.api.v1alpha1 import StreamJobStatus
from headrace_operator.kube.api import (
    AlreadyExistsError,
    KubeApi,
    Manifest,
    MissingError,
    RefusedError,
)
from headrace_operator.observe.collect import Snapshot
from headrace_operator.observe.facts import Refusal
from headrace_operator.reconcile.actions import (
    Action,
    AddFinalizer,
    ApplyObject,
    CreateDriver,
    CreateToken,
    DeleteObject,
    RemoveFinalizer,
)
from headrace_operator.reconcile.decide import Decision
from headrace_operator.reconcile.events import EventRecorder
from headrace_operator.resources.identity import JobIdentity
from headrace_operator.resources.secrets import build_token_secret

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a decision."""

    manifest: Manifest
    """The StreamJob after our own writes."""
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
        manifest = snapshot.manifest
        if write_status:
            manifest = await self._kube.replace_status(_with_status(manifest, decision.status))
        await self._recorder.record(snapshot.manifest, decision.events, now)
        refusal: Refusal | None = None
        for action in decision.actions:
            try:
                manifest = await self._act(action, manifest)
            except RefusedError as error:
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
        return Execution(manifest, acted=bool(decision.actions), refusal=refusal)

    async def _act(self, action: Action, manifest: Manifest) -> Manifest:
        """Do one action; return the StreamJob as it is after it."""
        identity = _identity(manifest)
        match action:
            case AddFinalizer():
                names = [*_finalizers(manifest), FINALIZER]
                return await self._kube.replace_finalizers(manifest, names)
            case RemoveFinalizer():
                return await self._remove_finalizer(manifest)
            case ApplyObject(manifest=desired):
                await self._kube.apply(desired)
            case CreateToken():
                await self._create(build_token_secret(identity, self._new_token()))
            case CreateDriver(manifest=desired):
                await self._create(desired)
            case DeleteObject(key=key, uid=uid, grace_s=grace_s):
                await self._kube.delete(key, identity.namespace, uid=uid, grace_s=grace_s)
        return manifest

    async def _create(self, manifest: Manifest) -> None:
        """Create once: the one that is there already is ours, or is found not to be when read."""
        try:
            await self._kube.create(manifest)
        except AlreadyExistsError as error:
            logger.info("already there, looking again: %s", error)

    async def _remove_finalizer(self, manifest: Manifest) -> Manifest:
        names = [name for name in _finalizers(manifest) if name != FINALIZER]
        try:
            return await self._kube.replace_finalizers(manifest, names)
        except MissingError:
            return manifest


def _with_status(manifest: Manifest, status: StreamJobStatus) -> Manifest:
    return {**manifest, "status": dump_status(status)}


def dump_status(status: StreamJobStatus) -> dict[str, object]:
    """Return the status as it is stored; absent values are left out."""
    dumped: dict[str, object] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _metadata(manifest: Manifest) -> Mapping[str, object]:
    return cast("Mapping[str, object]", manifest["metadata"])


def _finalizers(manifest: Manifest) -> list[str]:
    return list(cast("list[str]", _metadata(manifest).get("finalizers") or []))


def resource_version(manifest: Manifest) -> str:
    """Return the version of a live object."""
    return str(_metadata(manifest).get("resourceVersion", ""))


def _identity(manifest: Manifest) -> JobIdentity:
    metadata = _metadata(manifest)
    return JobIdentity(str(metadata["name"]), str(metadata["namespace"]), str(metadata["uid"]))


def _describe(action: Action) -> str:
    match action:
        case ApplyObject(manifest=manifest) | CreateDriver(manifest=manifest):
            return f"creating {manifest['kind']} {_metadata(manifest)['name']}"
        case DeleteObject(key=key):
            return f"deleting {key.kind.kind} {key.name}"
        case CreateToken():
            return "creating the token Secret"
        case AddFinalizer() | RemoveFinalizer():
            return "changing the finalizer"
