"""Names and addresses of clusters."""

from ipaddress import IPv4Address, IPv4Network
from itertools import combinations
from pathlib import Path

import pytest

from headrace.errors import InvalidConfigError
from headrace_devcluster.errors import UnsupportedHostError
from headrace_devcluster.layout import (
    INDEX_MAX,
    Addresses,
    Layout,
    choose_index,
    parse_name,
)

ROOT = Path("/var/lib/headrace")


@pytest.mark.parametrize("name", ["a", "demo", "e2e-1", "a" * 32])
def test_names_that_fit_paths_and_hosts_are_accepted(name: str) -> None:
    assert name == parse_name(name)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a/b", "..", "a" * 33])
def test_other_names_are_refused_with_the_name_in_the_message(name: str) -> None:
    with pytest.raises(InvalidConfigError, match="choose another --name"):
        parse_name(name)


def test_subnets_of_different_clusters_never_overlap() -> None:
    subnets = [subnet for index in range(8) for subnet in Addresses(index).subnets]
    assert [(a, b) for a, b in combinations(subnets, 2) if a.overlaps(b)] == []


def test_addresses_with_a_role_are_in_the_subnet_of_that_role() -> None:
    addresses = Addresses(7)
    assert IPv4Address("10.213.7.1") == addresses.host
    assert IPv4Address("10.213.7.2") == addresses.node
    assert IPv4Address("10.215.7.1") == addresses.api_service
    assert IPv4Address("10.215.7.10") == addresses.dns_service
    assert addresses.api_url == "https://10.213.7.2:6443"


@pytest.mark.parametrize("index", [-1, INDEX_MAX + 1])
def test_an_index_outside_of_the_third_octet_is_a_bug(index: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        Addresses(index)


def test_the_lowest_index_that_nobody_claims_is_chosen() -> None:
    assert choose_index([], set()) == 0
    assert choose_index([], {0, 1, 3}) == 2


def test_an_index_is_skipped_when_the_host_has_a_route_into_any_of_its_subnets() -> None:
    occupied = [
        IPv4Network("10.214.0.0/24"),
        IPv4Network("10.213.1.0/30"),
        IPv4Network("10.215.2.7/32"),
    ]
    assert choose_index(occupied, set()) == 3


def test_a_broad_route_such_as_a_vpn_does_not_block_every_index() -> None:
    assert choose_index([IPv4Network("10.0.0.0/8")], set()) == 0


def test_when_every_index_is_taken_the_message_says_how_to_free_one() -> None:
    with pytest.raises(UnsupportedHostError, match="headrace cluster down"):
        choose_index([], set(range(INDEX_MAX + 1)))


def test_names_outside_of_the_namespaces_follow_from_name_and_root_alone() -> None:
    assert Layout("demo", ROOT) == Layout("demo", ROOT)
    assert Layout("demo", ROOT).host_link == Layout("demo", ROOT).host_link
    layouts = [Layout("demo", ROOT), Layout("demo2", ROOT), Layout("demo", Path("/tmp/x"))]
    assert len({layout.host_link for layout in layouts}) == 3
    assert len({layout.cgroup for layout in layouts}) == 3


def test_the_name_of_the_link_fits_the_kernels_limit() -> None:
    assert len(Layout("a" * 32, ROOT).host_link) <= 15
