"""Objects around the driver: missing, edited by somebody, or somebody else's; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.api.names import token_secret_name
from headrace_operator.kube.api import Kind, Manifest, ObjectKey
from headrace_operator.observe.facts import Facts
from headrace_operator.reconcile.actions import (
    Action,
    ApplyObject,
    CreateObject,
    CreateToken,
    Event,
    EventReason,
    normal,
    warning,
)
from headrace_operator.reconcile.plan import Problem, Wanted, identity_of
from headrace_operator.resources.desired import build_objects, is_as_desired, owner_uids
from headrace_operator.resources.identity import key_of


@dataclass(frozen=True, slots=True)
class ObjectsPlan:
    """What to do so that everything that the driver needs is there."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    problem: Problem | None = None


def plan_objects(facts: Facts, wanted: Wanted, *, first_time: bool) -> ObjectsPlan:
    """Compare live objects with the desired ones.

    Args:
        facts: observed.
        wanted: validated spec.
        first_time: they never existed, so creating them is no news.
    """
    actions: list[Action] = []
    events: list[Event] = []
    job = identity_of(facts)
    for manifest in build_objects(job, wanted.spec, wanted.program.text):
        key = key_of(manifest)
        live = facts.objects.get(key)
        if live is not None and facts.job.uid not in owner_uids(live):
            return ObjectsPlan(problem=_conflict(key))
        if live is not None and is_as_desired(live, _without_owners(manifest)):
            continue
        # What is missing is created, never applied: a namesake that somebody made in between is
        # then found by the API server and not taken over.
        actions.append(CreateObject(manifest) if live is None else ApplyObject(manifest))
        if not first_time:
            events.append(_event(key, live))
    if facts.token_name_is_taken:
        return ObjectsPlan(problem=_conflict(ObjectKey(Kind.SECRET, token_secret_name(job.name))))
    if facts.token_uid is None:
        actions.append(CreateToken())
        if not first_time:
            events.append(
                warning(
                    EventReason.TOKEN_ROTATED,
                    "the token Secret was gone: a new token is made and the driver restarted",
                )
            )
    return ObjectsPlan(tuple(actions), tuple(events))


def _without_owners(manifest: Manifest) -> Manifest:
    """Ownership is checked apart: others may add their own references."""
    metadata = manifest["metadata"]
    if not isinstance(metadata, Mapping):
        return manifest
    kept = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    return {**manifest, "metadata": kept}


def _conflict(key: ObjectKey) -> Problem:
    return Problem(
        "NameConflict",
        "an object of this name exists and does not belong to the job, remove or rename it; "
        f"kind={key.kind.kind} name={key.name}",
    )


def _event(key: ObjectKey, live: Manifest | None) -> Event:
    what = f"kind={key.kind.kind} name={key.name}"
    if live is None:
        return warning(EventReason.OBJECT_RECREATED, f"an object of the job was gone; {what}")
    return normal(EventReason.OBJECT_CORRECTED, f"an object of the job was changed back; {what}")
