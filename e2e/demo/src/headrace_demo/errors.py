"""Errors of the demo, sorted by what the reader can do about them."""

from __future__ import annotations

from headrace.errors import HeadraceError


class DemoFailedError(HeadraceError):
    """Something did not happen in time or was wrong; the message names it."""

    kind = "DemoFailed"
    restartable = False


class ClusterAnswerError(HeadraceError):
    """The Kubernetes API refused a request or did not answer."""

    kind = "ClusterAnswer"


class ObjectAbsentError(ClusterAnswerError):
    """The object that was asked for does not exist."""

    kind = "ObjectAbsent"
