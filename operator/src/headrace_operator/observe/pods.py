"""From a pod's manifest to facts, above all: what is wrong with it, in its own words (OP9).

Pure. Trouble comes from five places: the scheduling condition, waiting and terminated containers
(init containers too), the pod's own reason (eviction), and, for volumes, only from events.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from headrace.api.driver import TerminationMessage
from headrace_operator.kube.api import Manifest
from headrace_operator.observe.facts import ContainerExit, PodFacts, PodProblem, PodTrouble

MESSAGE_CHARS_MAX: Final = 1024

_WAITING_TROUBLE: Final = {
    "CrashLoopBackOff": PodTrouble.CRASH_LOOP,
    "CreateContainerConfigError": PodTrouble.CONTAINER_CONFIG_FAILED,
    "CreateContainerError": PodTrouble.CONTAINER_START_FAILED,
    "ErrImageNeverPull": PodTrouble.IMAGE_PULL_FAILED,
    "ErrImagePull": PodTrouble.IMAGE_PULL_FAILED,
    "ImageInspectError": PodTrouble.IMAGE_PULL_FAILED,
    "ImagePullBackOff": PodTrouble.IMAGE_PULL_FAILED,
    "InvalidImageName": PodTrouble.IMAGE_PULL_FAILED,
    "RunContainerError": PodTrouble.CONTAINER_START_FAILED,
    "StartError": PodTrouble.CONTAINER_START_FAILED,
}
_ASKED_TO_END: Final = frozenset({0, 143})
"""Done, and ended by SIGTERM: somebody stopped the pod, which is no trouble of its own."""

_NOT_CREATED_YET: Final = frozenset({"ContainerCreating", "PodInitializing"})
_VOLUME_EVENTS: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX_EVENTS: Final = frozenset({"FailedCreatePodSandBox"})


class _View(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class _Owner(_View):
    uid: str


class _Metadata(_View):
    name: str
    uid: str
    creation_timestamp: AwareDatetime
    deletion_timestamp: AwareDatetime | None = None
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []


class _Waiting(_View):
    reason: str = ""
    message: str = ""


class _Terminated(_View):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: AwareDatetime | None = None


class _State(_View):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(_View):
    name: str
    state: _State = _State()
    last_state: _State = _State()


class _PodCondition(_View):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Status(_View):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    conditions: list[_PodCondition] = []
    init_container_statuses: list[_Container] = []
    container_statuses: list[_Container] = []

    def condition(self, kind: str) -> _PodCondition | None:
        return next((c for c in self.conditions if c.type == kind), None)


class _Spec(_View):
    node_name: str = ""


class _Pod(_View):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def observe_pod(manifest: Manifest, main_container: str) -> PodFacts:
    """Return the facts of a pod.

    Args:
        manifest: as the API server sent it.
        main_container: name of the container whose end is the pod's end.
    """
    pod = _Pod.model_validate(_with_pod_ip(manifest))
    status = pod.status
    main = next((c for c in status.container_statuses if c.name == main_container), None)
    exited = _exit_of(main)
    ready = status.condition("Ready")
    return PodFacts(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        created_at=pod.metadata.creation_timestamp,
        phase=status.phase,
        owner_uids=frozenset(owner.uid for owner in pod.metadata.owner_references),
        annotations=pod.metadata.annotations,
        ip=status.pod_ip,
        ready=ready is not None and ready.status == "True",
        node=pod.spec.node_name,
        deletion_deadline=pod.metadata.deletion_timestamp,
        problem=_problem(pod),
        waiting_for_volumes=bool(pod.spec.node_name) and _is_waiting_for_volumes(status),
        exit=exited,
        termination=parse_termination(exited.message) if exited else None,
    )


def _with_pod_ip(manifest: Manifest) -> Manifest:
    """``podIP`` is the one name that does not follow the camel-case rule."""
    status = manifest.get("status")
    if isinstance(status, dict) and "podIP" in status:
        return {**manifest, "status": {**status, "podIp": status["podIP"]}}
    return manifest


def parse_termination(message: str) -> TerminationMessage | None:
    """Return what a driver said at its end; None when it left something else or nothing."""
    try:
        return TerminationMessage.model_validate_json(message)
    except ValidationError:
        return None


def _exit_of(container: _Container | None) -> ContainerExit | None:
    if container is None or container.state.terminated is None:
        return None
    ended = container.state.terminated
    return ContainerExit(
        exit_code=ended.exit_code,
        reason=ended.reason,
        message=ended.message,
        finished_at=ended.finished_at,
    )


def _problem(pod: _Pod) -> PodProblem | None:
    status = pod.status
    if status.reason == "Evicted":
        return _found(pod, PodTrouble.EVICTED, status.message)
    scheduled = status.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False" and status.phase == "Pending":
        return _found(pod, PodTrouble.UNSCHEDULABLE, scheduled.message or scheduled.reason)
    for container in (*status.init_container_statuses, *status.container_statuses):
        problem = _container_problem(pod, container)
        if problem is not None:
            return problem
    return None


def _container_problem(pod: _Pod, container: _Container) -> PodProblem | None:
    waiting = container.state.waiting
    if waiting is not None and waiting.reason in _WAITING_TROUBLE:
        message = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
        return _found(pod, _WAITING_TROUBLE[waiting.reason], message)
    ended = container.state.terminated
    if ended is None or (ended.exit_code in _ASKED_TO_END and ended.reason != "OOMKilled"):
        return None
    if ended.reason == "OOMKilled":
        words = f"container {container.name} was killed: it used more memory than its limit"
        return _found(pod, PodTrouble.OOM_KILLED, words)
    trouble = _WAITING_TROUBLE.get(ended.reason, PodTrouble.CONTAINER_EXITED)
    words = f"container {container.name} ended; exit_code={ended.exit_code}"
    return _found(pod, trouble, f"{words} {_tail(ended.message)}".rstrip())


def _tail(message: str) -> str:
    """The end of a termination message that is not a driver's own: the last log lines."""
    return "" if parse_termination(message) is not None else message.strip()[-MESSAGE_CHARS_MAX:]


def _found(pod: _Pod, reason: PodTrouble, message: str) -> PodProblem:
    text = f"pod {pod.metadata.name}: {message.strip()}"
    return PodProblem(pod.metadata.name, reason, text[:MESSAGE_CHARS_MAX])


def _is_waiting_for_volumes(status: _Status) -> bool:
    containers = (*status.init_container_statuses, *status.container_statuses)
    if status.phase != "Pending":
        return False
    if not containers:
        return True
    waiting = [c.state.waiting for c in containers if c.state.waiting is not None]
    return any(w.reason in _NOT_CREATED_YET for w in waiting)


class _Event(_View):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: AwareDatetime | None = None
    event_time: AwareDatetime | None = None

    @property
    def at(self) -> datetime | None:
        return self.last_timestamp or self.event_time


def problem_of_events(pod: PodFacts, events: Sequence[Manifest]) -> PodProblem | None:
    """Return why a pod waits for its volumes or its sandbox, as the kubelet's events tell it."""
    views = [_Event.model_validate(event) for event in events]
    warnings = [view for view in views if view.type == "Warning" and view.at is not None]
    for view in sorted(warnings, key=lambda v: v.at or pod.created_at, reverse=True):
        if view.reason in _VOLUME_EVENTS | _SANDBOX_EVENTS:
            trouble = (
                PodTrouble.VOLUME_FAILED
                if view.reason in _VOLUME_EVENTS
                else PodTrouble.CONTAINER_START_FAILED
            )
            text = f"pod {pod.name}: {view.reason}: {view.message.strip()}"
            return PodProblem(pod.name, trouble, text[:MESSAGE_CHARS_MAX])
    return None
