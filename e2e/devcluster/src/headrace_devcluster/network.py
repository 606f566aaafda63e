"""The host's side of a cluster's network: one veth pair and two routes.

The node has no default route, so nothing in a cluster can reach beyond the host. Pods and
Services are reached from the host through the pair; both routes vanish with it.
"""

from __future__ import annotations

import json
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

from headrace_devcluster.errors import ClusterFailedError
from headrace_devcluster.layout import Addresses, Layout

NODE_LINK = "eth0"
SYS_NET = Path("/sys/class/net")


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterFailedError(
            "the network could not be set up: look at the output, then run 'headrace cluster down' "
            f"command={' '.join(('ip', *arguments))!r} output={done.stderr.strip()!r}"
        )
    return done.stdout


def parse_routes(routes_json: str) -> list[IPv4Network]:
    """Reads the destinations from ``ip -json route``; the default route is not one."""
    destinations = [route["dst"] for route in json.loads(routes_json or "[]")]
    return [
        IPv4Network(destination, strict=False)
        for destination in destinations
        if destination != "default"
    ]


def observe_routes() -> list[IPv4Network]:
    """Destinations that this host has a route to."""
    return parse_routes(_ip("-json", "-4", "route", "show"))


def has_link(layout: Layout) -> bool:
    """Whether the host's end of the pair exists."""
    return (SYS_NET / layout.host_link).exists()


def connect_node(layout: Layout, addresses: Addresses, node_pid: int) -> None:
    """Joins the node's network namespace to the host.

    Args:
        layout: Names the host's end.
        addresses: Of both ends and of what is behind the node.
        node_pid: A process in the namespace, as the host numbers it.
    """
    host_link = layout.host_link
    _ip("link", "add", host_link, "type", "veth", "peer", "name", NODE_LINK, "netns", str(node_pid))
    _ip("address", "add", f"{addresses.host}/30", "dev", host_link)
    _ip("link", "set", host_link, "up")
    enter = ("nsenter", f"--net=/proc/{node_pid}/ns/net", "ip")
    for arguments in (
        ("address", "add", f"{addresses.node}/30", "dev", NODE_LINK),
        ("link", "set", NODE_LINK, "up"),
    ):
        subprocess.run([*enter, *arguments], check=True, capture_output=True)
    for subnet in (addresses.pods, addresses.services):
        _ip("route", "add", str(subnet), "via", str(addresses.node), "dev", host_link)


def disconnect_node(layout: Layout) -> None:
    """Removes the pair, if the end of the node's namespace has not done so already."""
    if has_link(layout):
        done = subprocess.run(
            ["ip", "link", "delete", layout.host_link], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 and has_link(layout):
            raise ClusterFailedError(
                "the cluster's network link could not be removed: remove it with 'ip link delete' "
                f"link={layout.host_link} output={done.stderr.strip()!r}"
            )
