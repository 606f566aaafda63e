"""`KubeApi` on the official client, with one place that maps its errors.

Requests are made on the client's lowest level, without its generated models: the operator works on
manifests, so nothing is lost that a newer API server knows and the models do not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from headrace.api.names import MANAGER
from headrace_operator.kube.api import (
    AlreadyExistsError,
    ClusterError,
    ClusterUnavailableError,
    ConflictError,
    Kind,
    Manifest,
    MissingError,
    ObjectKey,
    RefusedError,
)
from headrace_operator.metrics import Metrics

_REQUEST_TIMEOUT_S: Final = 15.0
_CONNECTIONS_MAX: Final = 32
_PAGE: Final = 500
_BODY_CHARS_MAX: Final = 512
"""Bodies in messages are cut: an admission webhook may answer with pages."""
_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""What a Secret holds never gets into this process."""
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"


async def connect() -> ApiClient:
    """Return a client for the pod's own cluster, or the one that ``KUBECONFIG`` names."""
    configuration = Configuration()
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        # No proxy stands between a pod and its API server.
        kube_config.load_incluster_config(  # type: ignore[no-untyped-call] # library is untyped
            client_configuration=configuration
        )
    else:
        await kube_config.load_kube_config(  # type: ignore[no-untyped-call] # as above
            config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration
        )
        configuration.proxy = configuration.proxy or _proxy_for(configuration.host)
    # Looking for a proxy with each request costs a trip to a thread, a third of its time.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.connection_pool_maxsize = _CONNECTIONS_MAX
    configuration.retries = None  # every retry is a decision of the reconciler
    return ApiClient(configuration)


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a server."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)


class KubeClient:
    """The Kubernetes API over one connection pool; made and used in one event loop.

    Args:
        client: of `connect`.
        metrics: counts the requests.
    """

    def __init__(self, client: ApiClient, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call] # library is untyped

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, None when there is none; of a Secret its metadata alone."""
        accept = _METADATA if kind is Kind.SECRET else _JSON
        try:
            return await self._call("GET", _path(kind, namespace, name), accept=accept)
        except MissingError:
            return None

    async def list_objects(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        """Return the objects of a namespace that the selectors match."""
        items: list[Manifest] = []
        query = {"limit": str(_PAGE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = await self._call("GET", _path(kind, namespace), query)
            # Items of a list carry neither kind nor apiVersion.
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**head, **item} for item in cast("list[Manifest]", page.get("items") or [])]
            metadata = cast("Mapping[str, str]", page.get("metadata") or {})
            if not metadata.get("continue"):
                return items
            query["continue"] = metadata["continue"]

    async def create(self, manifest: Manifest) -> Manifest:
        """Create the object."""
        key, namespace = _identify(manifest)
        query = {"fieldManager": MANAGER}
        return await self._call("POST", _path(key.kind, namespace), query, manifest)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Create or correct the object by server-side apply."""
        key, namespace = _identify(manifest)
        query = {"fieldManager": MANAGER, "force": "true"}
        path = _path(key.kind, namespace, key.name)
        return await self._call("PATCH", path, query, manifest, _APPLY)

    async def replace(self, manifest: Manifest) -> Manifest:
        """Replace the object that has the version in ``manifest``."""
        key, namespace = _identify(manifest)
        path = _path(key.kind, namespace, key.name)
        return await self._call("PUT", path, {"fieldManager": MANAGER}, manifest)

    async def replace_status(self, manifest: Manifest) -> Manifest:
        """Replace ``status`` of the object as it was read."""
        key, namespace = _identify(manifest)
        path = f"{_path(key.kind, namespace, key.name)}/status"
        return await self._call("PUT", path, {"fieldManager": MANAGER}, manifest)

    async def replace_finalizers(self, manifest: Manifest, finalizers: list[str]) -> Manifest:
        """Replace the finalizers of the object as it was read."""
        key, namespace = _identify(manifest)
        metadata = cast("Mapping[str, object]", manifest["metadata"])
        patch: Manifest = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "uid": metadata["uid"],
                "finalizers": finalizers,
            }
        }
        path = _path(key.kind, namespace, key.name)
        return await self._call("PATCH", path, {"fieldManager": MANAGER}, patch, _MERGE)

    async def annotate(
        self, key: ObjectKey, namespace: str, annotations: Mapping[str, str]
    ) -> Manifest:
        """Set annotations of an object."""
        patch: Manifest = {"metadata": {"annotations": dict(annotations)}}
        path = _path(key.kind, namespace, key.name)
        return await self._call("PATCH", path, {"fieldManager": MANAGER}, patch, _MERGE)

    async def delete(
        self, key: ObjectKey, namespace: str, *, uid: str, grace_s: int | None = None
    ) -> bool:
        """Ask for the deletion of this very object; return whether it is gone now."""
        body: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            left = await self._call("DELETE", _path(key.kind, namespace, key.name), body=body)
        except (MissingError, ConflictError):
            return True  # or there is a newer object of that name: this one does not exist any more
        if left.get("kind") == "Status":
            return True
        metadata = cast("Mapping[str, object]", left.get("metadata") or {})
        return "deletionTimestamp" not in metadata

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Manifest:
        target = f"{path}?{urlencode(query)}" if query else path
        with _mapped_errors(method, path), self._metrics.request(method) as outcome:
            # The body is a plain manifest: the client's search for models in it is left out.
            _, url, headers, _, _ = await self._client.param_serialize(
                method=method,
                resource_path=target,
                header_params={"Accept": accept, "Content-Type": content_type},
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(
                method, url, headers, body, _request_timeout=_REQUEST_TIMEOUT_S
            )
            outcome.status = response.status
            content = cast(
                "bytes",
                await response.read(),  # type: ignore[no-untyped-call] # library is untyped
            )
        if response.status >= 400:
            raise _error(method, path, response.status, content)
        return cast("Manifest", json.loads(content))


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    prefix = "/api" if "/" not in kind.api_version else "/apis"
    path = f"{prefix}/{kind.api_version}/namespaces/{quote(namespace)}/{kind.plural}"
    return f"{path}/{quote(name)}" if name else path


def _identify(manifest: Manifest) -> tuple[ObjectKey, str]:
    metadata = cast("Mapping[str, str]", manifest["metadata"])
    return ObjectKey(Kind.of(manifest), metadata.get("name", "")), metadata["namespace"]


@contextmanager
def _mapped_errors(method: str, path: str) -> Iterator[None]:
    """Errors of the connection; answers with an error status are mapped by `_error`."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        msg = (
            "the Kubernetes API did not answer, trying again; "
            f"method={method} path={path} cause={type(error).__name__}"
        )
        raise ClusterUnavailableError(msg) from error


def _error(method: str, path: str, status: int, content: bytes) -> ClusterError:
    text, reason = content.decode(errors="replace"), ""
    try:
        body = json.loads(content)
        text, reason = str(body.get("message", text)), str(body.get("reason", ""))
    except (ValueError, AttributeError):
        pass  # a proxy's page instead of a Status object: the text as it is
    msg = f"{text[:_BODY_CHARS_MAX]} (method={method} path={path} status={status})"
    return _class_of(status, reason)(msg, status=status, reason=reason)


def _class_of(status: int, reason: str) -> type[ClusterError]:
    if status == 404:
        return MissingError
    if status == 409:
        return AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    if status in {401, 408, 429} or status >= 500:
        return ClusterUnavailableError
    return RefusedError
