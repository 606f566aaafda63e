"""The client keeps the contract that the fake of the unit tests keeps, and maps every refusal."""

import asyncio

import pytest
from operator_tests.cluster_contract import CONTRACT, config_map

from headrace_operator.kube.api import ClusterUnavailableError, Kind, RefusedError
from headrace_operator.kube.client import KubeClient, connect
from headrace_operator.metrics import Metrics

pytestmark = pytest.mark.e2e


def with_client(kubeconfig, monkeypatch, check):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    async def run():
        kube = KubeClient(await connect(), Metrics())
        try:
            await check(kube)
        finally:
            await kube.close()

    asyncio.run(run())


@pytest.mark.parametrize("contract", CONTRACT, ids=lambda check: check.__name__)
def test_the_client_keeps_the_contract(plane, namespace, monkeypatch, contract):
    with_client(plane.kubeconfig, monkeypatch, lambda kube: contract(kube, namespace))


def test_what_is_forbidden_is_refused_with_the_servers_words(
    operator_kubeconfig, namespace, monkeypatch
):
    async def check(kube):
        with pytest.raises(RefusedError, match="cannot list resource") as refused:
            await kube.list_objects(Kind.SECRET, namespace)
        assert (403, "Forbidden") == (refused.value.status, refused.value.reason)

    with_client(operator_kubeconfig, monkeypatch, check)


def test_what_is_invalid_is_refused(plane, namespace, monkeypatch):
    async def check(kube):
        with pytest.raises(RefusedError) as refused:
            await kube.create(config_map(namespace, "Not A Name"))
        assert 422 == refused.value.status

    with_client(plane.kubeconfig, monkeypatch, check)


def test_a_server_that_is_away_is_unavailable(plane, tmp_path, namespace, monkeypatch):
    away = tmp_path / "kubeconfig"
    away.write_text(plane.kubeconfig.read_text().replace(plane.url, "https://127.0.0.1:1"))

    async def check(kube):
        with pytest.raises(ClusterUnavailableError):
            await kube.get(Kind.POD, namespace, "x")

    with_client(away, monkeypatch, check)


def test_a_wrong_token_is_unavailable_until_it_is_renewed(plane, namespace, monkeypatch):
    async def check(kube):
        with pytest.raises(ClusterUnavailableError):
            await kube.get(Kind.POD, namespace, "x")

    with_client(plane.kubeconfig_for("wrong", "wrong"), monkeypatch, check)


def test_long_lists_are_read_to_the_end(plane, namespace, monkeypatch):
    async def check(kube):
        monkeypatch.setattr("headrace_operator.kube.client._PAGE", 3)
        for number in range(7):
            await kube.create(config_map(namespace, f"c{number}"))
        found = await kube.list_objects(
            Kind.CONFIG_MAP, namespace, labels="headrace.dev/job=payments"
        )
        assert [f"c{number}" for number in range(7)] == [f["metadata"]["name"] for f in found]

    with_client(plane.kubeconfig, monkeypatch, check)
