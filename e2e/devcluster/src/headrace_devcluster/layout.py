"""Names, addresses and paths of one embedded cluster. Pure: no I/O.

Two rules keep clusters apart and make every one of them removable:

- Whatever exists outside the cluster's own namespaces (directory, control groups, the host's end
  of the veth pair) is named after the cluster's *name* alone, so ``down`` needs no record of what
  ``up`` did before it was killed.
- Addresses are derived from the cluster's *index*, the lowest one whose three subnets are free:
  ``10.213.<i>.0/30`` for the pair host-node, ``10.214.<i>.0/24`` for pods and ``10.215.<i>.0/24``
  for Services. They must differ between clusters because the host has a route to each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from headrace.errors import InvalidConfigError
from headrace_devcluster.errors import UnsupportedHostError

DEFAULT_NAME = "headrace"
NODE_NAME = "node1"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
CGROUP_PREFIX = "headrace-cluster-"

INDEX_MAX = 255
"""Highest index, inclusive: it is the third octet of the cluster's subnets."""

BROAD_PREFIX_MAX = 12
"""Routes this broad or broader (a VPN's ``10.0.0.0/8``) do not block an index: ours are narrower
and win, and only the few addresses of our subnets are hidden by that."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def parse_name(name: str) -> str:
    """Checks a cluster's name: 1 to 32 lower-case letters, digits and inner hyphens.

    Raises:
        InvalidConfigError: The name could not be part of a path or a host name.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidConfigError(
            "cluster name must be 1 to 32 lower-case letters, digits or inner hyphens: "
            f"choose another --name name={name!r}"
        )
    return name


@dataclass(frozen=True, slots=True)
class Addresses:
    """The subnets of one cluster and the addresses with a role in them."""

    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index <= INDEX_MAX:
            raise ValueError(f"cluster index out of range index={self.index} max={INDEX_MAX}")

    @property
    def link(self) -> IPv4Network:
        """The veth pair between host and node."""
        return IPv4Network(f"10.213.{self.index}.0/30")

    @property
    def pods(self) -> IPv4Network:
        """Addresses of pods, 254 of them."""
        return IPv4Network(f"10.214.{self.index}.0/24")

    @property
    def services(self) -> IPv4Network:
        """Addresses of Services."""
        return IPv4Network(f"10.215.{self.index}.0/24")

    @property
    def host(self) -> IPv4Address:
        """The host, as the node and the pods see it."""
        return self.link[1]

    @property
    def node(self) -> IPv4Address:
        """The node, as the host sees it."""
        return self.link[2]

    @property
    def api_service(self) -> IPv4Address:
        """ClusterIP of ``kubernetes.default``: the API server takes the first address."""
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        """ClusterIP of ``kube-dns.kube-system``, by custom the tenth address."""
        return self.services[10]

    @property
    def api_url(self) -> str:
        """The API server, for clients on the host."""
        return f"https://{self.node}:{API_PORT}"

    @property
    def subnets(self) -> tuple[IPv4Network, IPv4Network, IPv4Network]:
        """All that the host gets a route to."""
        return (self.link, self.pods, self.services)


def choose_index(occupied: Iterable[IPv4Network], claimed: Collection[int]) -> int:
    """Picks the lowest index whose subnets nobody uses.

    Args:
        occupied: Destinations of the host's routes, without the default route.
        claimed: Indices recorded by other clusters, up or half up.

    Raises:
        UnsupportedHostError: Every index is in use.
    """
    narrow = [network for network in occupied if network.prefixlen > BROAD_PREFIX_MAX]
    for index in range(INDEX_MAX + 1):
        if index in claimed:
            continue
        subnets = Addresses(index).subnets
        if not any(subnet.overlaps(network) for subnet in subnets for network in narrow):
            return index
    raise UnsupportedHostError(
        "no free addresses for another cluster: take one down with 'headrace cluster down "
        f"--name NAME' subnets=10.213.0.0/16,10.214.0.0/16,10.215.0.0/16 clusters={len(claimed)}"
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything about a cluster that follows from its name."""

    name: str
    root: Path
    """Directory of all clusters; an own one for each set of tests."""

    @property
    def directory(self) -> Path:
        """Everything of the cluster that is a file."""
        return self.root / self.name

    @property
    def record(self) -> Path:
        """What `record` writes down."""
        return self.directory / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def logs(self) -> Path:
        """Logs of components and pods."""
        return self.directory / "logs"

    @property
    def config(self) -> Path:
        """Configuration and keys; readable by root only."""
        return self.directory / "config"

    @property
    def data(self) -> Path:
        """What the components write: databases, images, volumes."""
        return self.directory / "data"

    @property
    def containerd(self) -> Path:
        """The container runtime's own directory: images and what containers write."""
        return self.data / "containerd"

    @property
    def containerd_content(self) -> Path:
        """Where containerd keeps blobs by digest."""
        return self.containerd / "io.containerd.content.v1.content" / "blobs" / "sha256"

    @property
    def identity(self) -> str:
        """Short id for names that are limited in length, unique to name and root."""
        return hashlib.sha256(str(self.directory).encode()).hexdigest()[:8]

    @property
    def host_link(self) -> str:
        """The host's end of the veth pair (the kernel allows 15 characters)."""
        return f"hr-{self.identity}"

    @property
    def cgroup(self) -> str:
        """Control group below every hierarchy's root; holds all processes of the cluster."""
        return f"{CGROUP_PREFIX}{self.name}-{self.identity}"
