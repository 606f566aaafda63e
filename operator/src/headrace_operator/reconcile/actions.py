"""What a decision may ask for. Each action may be repeated without harm."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headrace_operator.kube.api import Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Let deletion wait for us."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let deletion go on."""


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object that the job needs; one of its name that appeared meanwhile is looked at."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Correct an object that belongs to the job."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create the token Secret with a random token, unless it is there."""


@dataclass(frozen=True, slots=True)
class CreateDriver:
    """Create the driver pod, unless one of its name is there.

    It is marked with the token Secret as it is then: the one that is there or was made just before.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete this very object; ``grace_s`` None = the object's own grace period."""

    key: ObjectKey
    uid: str
    grace_s: int | None = None
    is_optional: bool = False
    """What follows is done whatever becomes of it."""


Action = (
    AddFinalizer
    | RemoveFinalizer
    | CreateObject
    | ApplyObject
    | CreateToken
    | CreateDriver
    | DeleteObject
)


class EventType(enum.StrEnum):
    """Kubernetes' two types of events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class EventReason(enum.StrEnum):
    """Reasons of events that the operator itself has; a failed job adds its kind of error."""

    SUBMITTED = "Submitted"
    SPEC_CHANGED = "SpecChanged"
    DRIVER_CREATED = "DriverCreated"
    DRIVER_STOPPED = "DriverStopped"
    DRIVER_REPLACED = "DriverReplaced"
    DRIVER_FORCE_DELETED = "DriverForceDeleted"
    READY = "Ready"
    RECOVERED = "Recovered"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    FAILED = "Failed"
    OBJECT_RECREATED = "ObjectRecreated"
    OBJECT_CORRECTED = "ObjectCorrected"
    TOKEN_ROTATED = "TokenRotated"  # noqa: S105 - a word
    WARNING = "Warning"
    PAUSED = "Paused"
    DELETION_OVERDUE = "DeletionOverdue"


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the StreamJob."""

    type: EventType
    reason: str
    message: str


def normal(reason: str, message: str) -> Event:
    """Return an event about something that went as it should."""
    return Event(EventType.NORMAL, reason, message)


def warning(reason: str, message: str) -> Event:
    """Return an event about something that a person may have to look at."""
    return Event(EventType.WARNING, reason, message)
