"""What the operator needs of a cluster.

Objects are plain manifests, as the API server sends them. Every call may raise `ClusterError`; its
subclasses tell the caller what to do, never by the text of the message.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol

from headrace.api.names import API_VERSION
from headrace.errors import HeadraceError

Manifest = Mapping[str, object]


class Kind(enum.Enum):
    """Kinds of objects that the operator reads or writes: API version and plural."""

    STREAM_JOB = (API_VERSION, "StreamJob", "streamjobs")
    POD = ("v1", "Pod", "pods")
    CONFIG_MAP = ("v1", "ConfigMap", "configmaps")
    SERVICE = ("v1", "Service", "services")
    SECRET = ("v1", "Secret", "secrets")
    SERVICE_ACCOUNT = ("v1", "ServiceAccount", "serviceaccounts")
    EVENT = ("v1", "Event", "events")
    ROLE = ("rbac.authorization.k8s.io/v1", "Role", "roles")
    ROLE_BINDING = ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
    LEASE = ("coordination.k8s.io/v1", "Lease", "leases")
    PERSISTENT_VOLUME_CLAIM = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims")

    def __init__(self, api_version: str, kind: str, plural: str) -> None:
        self.api_version = api_version
        self.kind = kind
        self.plural = plural

    @classmethod
    def of(cls, manifest: Manifest) -> Kind:
        """Return the kind of a manifest.

        Raises:
            KeyError: the operator does not handle this kind.
        """
        return _BY_NAME[str(manifest["kind"])]


_BY_NAME = {kind.kind: kind for kind in Kind}


class ObjectKey(NamedTuple):
    """Kind and name of an object in the job's namespace."""

    kind: Kind
    name: str


class ClusterError(HeadraceError):
    """A call to the Kubernetes API failed."""

    kind: ClassVar[str] = "ClusterError"

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, 0 when there was no answer."""
        self.reason = reason
        """Kubernetes' reason word, e.g. ``Forbidden``."""


class ClusterUnavailableError(ClusterError):
    """No answer, too many requests or a server error: try again."""

    kind = "ClusterUnavailable"


class ConflictError(ClusterError):
    """The object changed since it was read, or its precondition fails: read again."""

    kind = "Conflict"


class AlreadyExistsError(ClusterError):
    """An object of this name exists already."""

    kind = "AlreadyExists"


class MissingError(ClusterError):
    """The object is not there."""

    kind = "Missing"


class RefusedError(ClusterError):
    """The request is understood and refused (quota, admission, permission): a person must act."""

    kind = "Refused"


class KubeApi(Protocol):
    """The calls that the operator makes; each is one request."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, None when there is none; of a Secret its metadata alone."""
        ...

    async def list_objects(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        """Return the objects of a namespace that the selectors match."""
        ...

    async def create(self, manifest: Manifest) -> Manifest:
        """Create the object.

        Raises:
            AlreadyExistsError: one of this name is there.
        """
        ...

    async def apply(self, manifest: Manifest) -> Manifest:
        """Create or correct the object by server-side apply; fields of others stay."""
        ...

    async def replace(self, manifest: Manifest) -> Manifest:
        """Replace the object that has the version in ``manifest``.

        Raises:
            ConflictError: it changed since.
            MissingError: it is gone. Not for a Lease: Kubernetes makes one that is gone anew.
        """
        ...

    async def replace_status(self, manifest: Manifest) -> Manifest:
        """Replace ``status`` of the object as it was read.

        Raises:
            ConflictError: it changed since.
        """
        ...

    async def replace_finalizers(self, manifest: Manifest, finalizers: list[str]) -> Manifest:
        """Replace the finalizers of the object as it was read.

        Raises:
            ConflictError: it changed since.
            MissingError: it is gone.
        """
        ...

    async def annotate(
        self, key: ObjectKey, namespace: str, annotations: Mapping[str, str]
    ) -> Manifest:
        """Set annotations of an object.

        Raises:
            MissingError: it is gone.
        """
        ...

    async def delete(
        self, key: ObjectKey, namespace: str, *, uid: str, grace_s: int | None = None
    ) -> bool:
        """Ask for the deletion of this very object; nothing happens when it is gone or another.

        Returns:
            whether it is gone now; a pod takes its time, and so does what has finalizers.
        """
        ...
