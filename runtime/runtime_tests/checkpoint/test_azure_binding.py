"""Azure: options, and what the service's answers mean; by type and code, never by text."""

from __future__ import annotations

import urllib.parse

import aiohttp
import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import StorageErrorCode

from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.fsspec_store.azure import AzureSettings, azure_binding, judge
from headrace.checkpoint.storage.fsspec_store.binding import PROBING, Failure
from headrace.config.job_configuration import parse_options
from headrace.errors import InvalidConfigError

URI = "abfss://container@account.dfs.core.windows.net/job"
KEY = "aHVzaA=="


def response(
    code: str | None, status: int, kind: type[HttpResponseError] = HttpResponseError
) -> HttpResponseError:
    error = kind(message="whatever it says")
    error.status_code = status
    if code is not None:
        error.error_code = code  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "failure", "advice"),
    [
        (response("BlobNotFound", 404, ResourceNotFoundError), Failure.MISSING, ""),
        (response(StorageErrorCode.BLOB_NOT_FOUND, 404), Failure.MISSING, ""),
        (response("BlobAlreadyExists", 409, ResourceExistsError), Failure.EXISTS, ""),
        (response("ConditionNotMet", 412), Failure.EXISTS, ""),
        (response("ContainerNotFound", 404), Failure.REFUSED, "container"),
        (response("ContainerBeingDeleted", 409, ResourceExistsError), Failure.UNAVAILABLE, ""),
        (response("ServerBusy", 503), Failure.UNAVAILABLE, ""),
        (response("OperationTimedOut", 500), Failure.UNAVAILABLE, ""),
        (response(None, 429), Failure.UNAVAILABLE, ""),
        (response("AuthorizationPermissionMismatch", 403), Failure.REFUSED, "permissions"),
        (response("AuthenticationFailed", 403), Failure.REFUSED, "fs.azure.account.key"),
        (response(None, 404), Failure.REFUSED, "fs.azure.endpoint"),
        (response("InvalidUri", 400), Failure.REFUSED, "fs.azure.endpoint"),
        (ClientAuthenticationError(), Failure.REFUSED, "fs.azure.account.key"),
        (ServiceRequestError("no route"), Failure.UNAVAILABLE, ""),
        (ServiceResponseError("no answer"), Failure.UNAVAILABLE, ""),
        (IncompleteReadError("cut"), Failure.UNAVAILABLE, ""),
        (AzureError("anything"), Failure.UNAVAILABLE, ""),
    ],
    ids=str,
)
def test_answers_mean_what_their_code_says(
    error: AzureError, failure: Failure, advice: str
) -> None:
    verdict = judge(error)
    assert verdict is not None
    assert failure is verdict.failure
    assert advice in verdict.advice


def test_a_certificate_that_is_not_trusted_will_not_pass() -> None:
    class UntrustedError(aiohttp.ClientSSLError):
        def __init__(self) -> None:
            pass

    verdict = judge(ServiceRequestError("tls", error=UntrustedError()))
    assert verdict is not None
    assert Failure.REFUSED is verdict.failure
    assert "certificate" in verdict.advice


def test_errors_of_python_are_left_to_pythons_meaning() -> None:
    assert judge(FileNotFoundError()) is None
    assert judge(aiohttp.ClientPayloadError()) is None


def test_options_are_read_by_hadoops_keys() -> None:
    options = {
        "fs.azure.account.key": KEY,
        "fs.azure.endpoint": "http://127.0.0.1:10000/account",
        "s3.region": "x",
    }
    expected = AzureSettings(KEY, None, "http://127.0.0.1:10000/account")
    assert expected == AzureSettings.from_options(options)


def test_a_jobs_options_reach_its_storage_and_its_secrets_no_log() -> None:
    configuration = parse_options({"fs.azure.account.key": KEY, "s3.secret-key": "hush"})
    assert configuration.storage_options()["fs.azure.account.key"] == KEY
    assert KEY not in str(configuration.to_text())


def test_secrets_are_not_printed() -> None:
    assert "hush" not in repr(AzureSettings(account_key="hush"))
    assert "hush" not in repr(AzureSettings(sas_token="hush"))
    store = open_store(URI, {"fs.azure.account.key": "hush"})
    assert "hush" not in f"{store!r} {vars(store)!r}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fs.azure.acount.key": "x"}, r"option=fs\.azure\.acount\.key known=fs\.azure\.account"),
        ({"fs.azure.account.key": "x", "fs.azure.sas.fixed.token": "y"}, "one credential"),
        ({"fs.azure.endpoint": "account.example"}, r"option=fs\.azure\.endpoint"),
        ({"fs.azure.endpoint": "https://account/?sig=x"}, r"option=fs\.azure\.endpoint"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        open_store(URI, options)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("fs.azure.account.key.account.dfs.core.windows.net", "use fs.azure.account.key;"),
        ("fs.azure.account.keyprovider.account", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("fs.azure.account.oauth2.client.id", "AZURE_CLIENT_ID"),
    ],
)
def test_keys_of_flink_that_are_not_read_name_what_is(key: str, instead: str) -> None:
    with pytest.raises(InvalidConfigError, match=instead):
        parse_options({key: "x"})


def test_options_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b3RoZXI=")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=other")
    assert KEY == _files({"fs.azure.account.key": KEY})._choose_credential().named_key.key
    assert "b3RoZXI=" == _files({})._choose_credential().named_key.key
    by_token = _files({"fs.azure.sas.fixed.token": "?sig=mine"})._choose_credential()
    assert "sig=mine" == by_token.signature


def test_a_token_in_an_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidConfigError, match="host=account") as caught:
        open_store(URI, {"fs.azure.endpoint": "https://account/?sig=hush"})
    assert "hush" not in str(caught.value)


def test_a_connection_string_is_refused_as_it_may_name_another_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=aHVzaA==")
    with pytest.raises(InvalidConfigError, match="AZURE_STORAGE_CONNECTION_STRING"):
        _files({})
    assert "account" == _files({"fs.azure.account.key": KEY}).service_client.account_name


def test_the_blob_service_of_the_uris_host_is_asked() -> None:
    options = {"fs.azure.account.key": KEY}
    assert "https://account.blob.core.windows.net/" == _files(options).service_client.url
    elsewhere = _files(options, "abfss://container@account.dfs.core.chinacloudapi.cn/job")
    assert "https://account.blob.core.chinacloudapi.cn/" == elsewhere.service_client.url


def _files(options: dict[str, str], uri: str = URI):
    binding = azure_binding(urllib.parse.urlsplit(uri), options)
    assert binding is not None
    return binding.connect(PROBING)
