"""The fake keeps the contract of the real API; so does the client, in the end-to-end tests."""

import asyncio

import pytest

from operator_tests.cluster_contract import CONTRACT
from operator_tests.fake_cluster import FakeCluster


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_the_fake_keeps_the_contract(check):
    asyncio.run(check(FakeCluster(), "bank"))
