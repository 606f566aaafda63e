"""From a URI and options to a store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.s3 import S3Settings
from headrace.config.values import STORAGE_URI, UNSUPPORTED_SCHEMES
from headrace.errors import InvalidConfigError

AZURE = "container@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("uri", "root_uri"),
    [
        ("file:///var/checkpoints", "file:///var/checkpoints"),
        ("file:///with%20space/x", "file:///with%20space/x"),
        ("s3://bucket/some/prefix", "s3://bucket/some/prefix"),
        ("s3a://bucket/prefix/", "s3://bucket/prefix"),
        ("s3://bucket", "s3://bucket"),
        (f"abfss://{AZURE}/some/prefix", f"abfss://{AZURE}/some/prefix"),
        (f"abfs://{AZURE}/prefix/", f"abfss://{AZURE}/prefix"),
        (f"abfss://{AZURE}", f"abfss://{AZURE}"),
    ],
)
def test_supported_uris_open_without_a_connection(uri: str, root_uri: str) -> None:
    assert root_uri == open_store(uri, {}).root_uri


@pytest.mark.parametrize(
    "uri",
    [
        "hdfs://namenode/checkpoints",
        "abfs://container@account/x",
        "abfss://container/x",
        "abfss://account.dfs.core.windows.net/x",
        f"abfss://{AZURE}/a//b",
        f"abfss://user:secret{AZURE}/a",
        "wasbs://container@account.blob.core.windows.net/x",
        "gs://bucket/x",
        "/no/scheme",
        "relative",
        "",
        "file://host/path",
        "file:relative",
        "file:///a/../b",
        "s3:///prefix",
        "s3://bucket/a//b",
        "s3://bucket/prefix?versionId=1",
    ],
)
def test_other_uris_are_refused_with_the_option_and_what_is_supported(uri: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        open_store(uri, {})
    message = str(caught.value)
    assert "state.checkpoints.dir" in message
    assert "supported=file://,s3://,abfss://" in message
    assert f"uri={uri}" in message


@pytest.mark.parametrize("scheme", sorted(UNSUPPORTED_SCHEMES))
def test_schemes_that_flink_has_are_refused_with_the_reason(scheme: str) -> None:
    """D19: without a conditional create that holds, two drivers could publish one checkpoint."""
    uri = f"{scheme}://somewhere/x"
    with pytest.raises(InvalidConfigError, match=UNSUPPORTED_SCHEMES[scheme]):
        open_store(uri, {})
    with pytest.raises(ValueError, match=UNSUPPORTED_SCHEMES[scheme]):
        STORAGE_URI.parse(uri)


def test_s3a_is_s3_as_in_flink() -> None:
    assert STORAGE_URI.parse("s3a://bucket/x") == "s3a://bucket/x"
    assert open_store("s3a://bucket/x", {}).root_uri == "s3://bucket/x"


def test_azures_schemes_are_accepted_as_in_flink() -> None:
    assert STORAGE_URI.parse(f"abfs://{AZURE}/x") == f"abfs://{AZURE}/x"
    assert STORAGE_URI.parse(f"abfss://{AZURE}/x") == f"abfss://{AZURE}/x"


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    monkeypatch.delitem(sys.modules, "headrace.checkpoint.storage.fsspec_store.azure", False)
    with pytest.raises(InvalidConfigError, match=r"install it.*state\.checkpoints\.dir") as caught:
        open_store(f"abfss://{AZURE}/x", {})
    assert "`headrace[azure]`" in str(caught.value)


def test_s3_options_are_read_by_flinks_keys() -> None:
    options = {
        "s3.endpoint": "http://minio:9000",
        "s3.path.style.access": "TRUE",
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.region": "eu-central-1",
        "state.backend": "rocksdb",
    }
    expected = S3Settings("http://minio:9000", True, "key", "secret", None, "eu-central-1")
    assert expected == S3Settings.from_options(options)


def test_secrets_are_not_printed() -> None:
    settings = S3Settings(access_key="key", secret_key="hush", session_token="hush")
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"s3.endpoit": "x"}, r"option=s3\.endpoit known=s3\.endpoint"),
        ({"s3.access-key": "x"}, r"s3\.access-key and s3\.secret-key"),
        ({"s3.secret-key": "x"}, r"s3\.access-key and s3\.secret-key"),
        ({"s3.path.style.access": "yes"}, r"option=s3\.path\.style\.access value=yes"),
    ],
)
def test_wrong_s3_options_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        open_store("s3://bucket/x", options)


def test_a_malformed_endpoint_is_refused_at_first_use(tmp_path: Path) -> None:
    store = open_store("s3://bucket/x", {"s3.endpoint": "no scheme", "s3.region": "us-east-1"})
    with pytest.raises(InvalidConfigError, match=r"s3\.endpoint"):
        store.get("a")
