"""A one-question DNS client, to see whether the cluster's name server answers."""

from __future__ import annotations

import secrets
import socket
import struct
from ipaddress import IPv4Address

TYPE_A = 1
CLASS_IN = 1
_RECURSION_DESIRED = 0x0100
_HEADER_BYTES = 12


def build_query(name: str, query_id: int) -> bytes:
    """Encodes a question for a name's IPv4 addresses (RFC 1035, section 4)."""
    header = struct.pack(">HHHHHH", query_id, _RECURSION_DESIRED, 1, 0, 0, 0)
    labels = b"".join(
        bytes([len(label)]) + label.encode("ascii") for label in name.rstrip(".").split(".")
    )
    return header + labels + b"\0" + struct.pack(">HH", TYPE_A, CLASS_IN)


def parse_addresses(query: bytes, answer: bytes) -> list[IPv4Address]:
    """Reads the A records of the answer to a query that this module built."""
    if len(answer) < _HEADER_BYTES or answer[:2] != query[:2]:
        return []
    count = struct.unpack_from(">H", answer, 6)[0]
    # The question is repeated as asked, so the records start where the query ends.
    offset = len(query)
    addresses = []
    for _ in range(count):
        while 0 < answer[offset] < 0xC0:
            offset += answer[offset] + 1
        offset += 2 if answer[offset] >= 0xC0 else 1
        kind, _class, _ttl, length = struct.unpack_from(">HHIH", answer, offset)
        offset += 10
        if kind == TYPE_A:
            addresses.append(IPv4Address(answer[offset : offset + length]))
        offset += length
    return addresses


def resolve_name(server: IPv4Address, name: str, timeout_s: float = 1.0) -> list[IPv4Address]:
    """Asks a name server over UDP once.

    Returns:
        The addresses; empty when the name is unknown or no answer came in time.
    """
    query = build_query(name, secrets.randbelow(1 << 16))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(timeout_s)
        try:
            channel.sendto(query, (str(server), 53))
            answer = channel.recv(4096)
        except OSError:
            return []
    return parse_addresses(query, answer)
