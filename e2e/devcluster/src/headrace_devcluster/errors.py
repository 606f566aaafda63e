"""Errors of the embedded cluster, sorted by what the reader can do about them."""

from __future__ import annotations

from typing import ClassVar

from headrace.errors import HeadraceError


class DevclusterError(HeadraceError):
    """Root of everything that can go wrong with the embedded cluster."""

    kind: ClassVar[str] = "Devcluster"
    restartable: ClassVar[bool] = False


class UnsupportedHostError(DevclusterError):
    """This machine or user cannot host an embedded cluster; use another cluster instead."""

    kind = "UnsupportedHost"


class MissingToolError(DevclusterError):
    """A program or package has to be installed first; the message holds the command."""

    kind = "MissingTool"


class BuildFailedError(DevclusterError):
    """A binary or an image could not be built; the message names the log."""

    kind = "BuildFailed"


class ClusterFailedError(DevclusterError):
    """A part of the cluster did not become ready or died; the message names its log."""

    kind = "ClusterFailed"


class ClusterNotFoundError(DevclusterError):
    """No cluster of that name is up."""

    kind = "ClusterNotFound"


class LeftoverError(DevclusterError):
    """``down`` could not remove something; the message lists what is left."""

    kind = "Leftover"
