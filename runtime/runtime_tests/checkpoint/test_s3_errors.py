"""Every failure of S3 says what to do, and lost or unclear replies are settled by reading back."""

from __future__ import annotations

import io
import socket
import time
import uuid
from collections.abc import Callable

import botocore.exceptions
import pytest

from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.s3 import S3Settings, S3Store
from headrace.checkpoint.storage.s3 import store as store_module
from headrace.checkpoint.storage.s3.errors import from_client, from_code, mapped_s3_errors
from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)

URI = "s3://bucket/x"


def client_error(code: str, status: int) -> botocore.exceptions.ClientError:
    return botocore.exceptions.ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject"
    )


@pytest.mark.parametrize(
    ("code", "status", "kind", "names"),
    [
        ("NoSuchBucket", 404, StorageAccessError, "state.checkpoints.dir"),
        ("AccessDenied", 403, StorageAccessError, "s3.access-key and s3.secret-key"),
        ("403", 403, StorageAccessError, "s3.access-key and s3.secret-key"),
        ("InvalidAccessKeyId", 403, StorageAccessError, "s3.access-key"),
        ("SignatureDoesNotMatch", 403, StorageAccessError, "s3.secret-key"),
        ("ExpiredToken", 400, StorageAccessError, "s3.session-token"),
        ("PermanentRedirect", 301, StorageAccessError, "s3.region"),
        ("AuthorizationHeaderMalformed", 400, StorageAccessError, "s3.region"),
        ("RequestTimeTooSkewed", 403, StorageAccessError, "clock"),
        ("NotImplemented", 501, StorageAccessError, "s3.endpoint"),
        ("SomethingNew", 400, StorageAccessError, "s3. options"),
        ("NoSuchKey", 404, ObjectMissingError, URI),
        ("404", 404, ObjectMissingError, URI),
        ("PreconditionFailed", 412, ObjectExistsError, URI),
        ("ConditionalRequestConflict", 409, StorageUnavailableError, URI),
        ("OperationAborted", 409, StorageUnavailableError, URI),
        ("SlowDown", 503, StorageUnavailableError, URI),
        ("InternalError", 500, StorageUnavailableError, URI),
        ("ServiceUnavailable", 503, StorageUnavailableError, URI),
        ("RequestTimeout", 400, StorageUnavailableError, URI),
        ("BadDigest", 400, StorageUnavailableError, URI),
        ("SomethingNew", 502, StorageUnavailableError, URI),
        ("SomethingNew", 429, StorageUnavailableError, URI),
    ],
)
def test_error_codes_map_to_what_the_reader_does(
    code: str, status: int, kind: type[HeadraceError], names: str
) -> None:
    error = from_code(code, status, URI)
    assert kind in type(error).__mro__
    assert names in str(error)
    with pytest.raises(kind), mapped_s3_errors(URI):
        raise client_error(code, status)


def _client_error_types() -> list[type[Exception]]:
    return [
        kind
        for kind in vars(botocore.exceptions).values()
        if isinstance(kind, type) and issubclass(kind, botocore.exceptions.BotoCoreError)
    ]


def _make(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, kind.__name__)
    return error


def test_every_network_error_that_botocore_knows_may_pass() -> None:
    network = {
        kind
        for kind in _client_error_types()
        if issubclass(
            kind, botocore.exceptions.HTTPClientError | botocore.exceptions.ConnectionError
        )
    } - {botocore.exceptions.SSLError}
    assert len(network) >= 8
    mapped = {kind: type(from_client(_make(kind), URI)) for kind in network}
    assert set(mapped.values()) == {StorageUnavailableError}


def test_every_other_client_error_is_ours_to_fix() -> None:
    """A new kind that botocore grows lands here, not in a retry loop."""
    transient = {
        kind
        for kind in _client_error_types()
        if isinstance(from_client(_make(kind), URI), StorageUnavailableError)
    }
    names = {kind.__name__ for kind in transient}
    assert names >= {"EndpointConnectionError", "ReadTimeoutError", "ConnectTimeoutError"}
    assert not names & {"NoCredentialsError", "ParamValidationError", "SSLError", "NoRegionError"}


def test_missing_credentials_name_their_options() -> None:
    error = from_client(botocore.exceptions.NoCredentialsError(), URI)
    assert isinstance(error, StorageAccessError)
    assert "s3.access-key and s3.secret-key" in str(error)


# --- against a server ------------------------------------------------------------------------


@pytest.mark.integration
def test_a_missing_bucket_is_named_within_seconds(s3_options: dict[str, str]) -> None:
    store = open_store("s3://no-such-bucket/x", s3_options)
    with pytest.raises(StorageAccessError, match="NoSuchBucket"):
        store.check()


@pytest.mark.integration
def test_an_endpoint_that_refuses_connections_is_named_within_seconds() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    options = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key": "a",
        "s3.secret-key": "b",
        "s3.region": "us-east-1",
    }
    started_s = time.monotonic()
    with pytest.raises(StorageUnavailableError, match=r"s3\.endpoint"):
        open_store("s3://bucket/x", options).check()
    assert time.monotonic() - started_s < 20


@pytest.mark.integration
def test_an_endpoint_that_never_answers_is_named_within_seconds() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        options = {
            "s3.endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "s3.access-key": "a",
            "s3.secret-key": "b",
            "s3.region": "us-east-1",
        }
        started_s = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"s3\.endpoint"):
            open_store("s3://bucket/x", options).check()
        assert time.monotonic() - started_s < 20


# --- unclear replies, with a client that gives them -------------------------------------------


class FakeClient:
    """Holds one object; each PUT does what the script's next entry says."""

    def __init__(self, script: list[str], held: bytes | None = None) -> None:
        self.script = script
        self.held = held

    def put_object(self, **arguments: object) -> None:
        action = self.script.pop(0)
        body = arguments["Body"]
        assert arguments["IfNoneMatch"] == "*"
        assert isinstance(body, bytes)
        if action == "ok" and self.held is None:
            self.held = body
        elif action == "ok":
            raise client_error("PreconditionFailed", 412)
        elif action == "conflict":
            raise client_error("ConditionalRequestConflict", 409)
        elif action == "written, then 412":  # the reply was lost and botocore repeated the request
            self.held = body
            raise client_error("PreconditionFailed", 412)
        elif action == "written, no answer":
            self.held = body
            raise botocore.exceptions.ReadTimeoutError(endpoint_url="http://s3")
        elif action == "no answer":
            raise botocore.exceptions.ReadTimeoutError(endpoint_url="http://s3")

    def get_object(self, **arguments: object) -> dict[str, object]:
        if self.held is None:
            raise client_error("NoSuchKey", 404)
        return {"Body": io.BytesIO(self.held)}


FakeStore = Callable[..., tuple[S3Store, FakeClient]]


@pytest.fixture
def fake_store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    def build(*script: str, held: bytes | None = None) -> tuple[S3Store, FakeClient]:
        client = FakeClient(list(script), held)
        monkeypatch.setattr(store_module, "build_client", lambda *_: client)
        return S3Store("bucket", uuid.uuid4().hex, S3Settings()), client

    return build


@pytest.mark.parametrize(
    "script",
    [
        ["ok"],
        ["written, then 412"],
        ["written, no answer"],
        ["conflict", "ok"],
        ["conflict", "conflict", "written, then 412"],
    ],
)
def test_a_create_that_took_effect_is_ours(fake_store: FakeStore, script: list[str]) -> None:
    store, client = fake_store(*script)
    store.create("a/b", b"mine")
    assert client.held == b"mine"
    assert client.script == []


@pytest.mark.parametrize("action", ["ok", "conflict", "no answer"])
def test_another_writers_object_is_theirs(fake_store: FakeStore, action: str) -> None:
    store, client = fake_store(action, held=b"theirs")
    with pytest.raises(ObjectExistsError):
        store.create("a/b", b"mine")
    assert client.held == b"theirs"


def test_a_create_without_an_answer_and_without_an_object_is_not_repeated(
    fake_store: FakeStore,
) -> None:
    """It may still arrive: only the caller knows whether trying again is right."""
    store, client = fake_store("no answer", "ok")
    with pytest.raises(StorageUnavailableError):
        store.create("a/b", b"mine")
    assert client.script == ["ok"]


def test_endless_conflicts_end_as_unavailable_storage(fake_store: FakeStore) -> None:
    store, _ = fake_store(*["conflict"] * 5)
    with pytest.raises(StorageUnavailableError, match="colliding"):
        store.create("a/b", b"mine")
