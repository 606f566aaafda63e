"""The one-question DNS client."""

import struct
from ipaddress import IPv4Address

from headrace_devcluster.dns import build_query, parse_addresses

QUERY = build_query("kubernetes.default", 0x1234)


def answer(*records: bytes) -> bytes:
    header = struct.pack(">HHHHHH", 0x1234, 0x8180, 1, len(records), 0, 0)
    return header + QUERY[12:] + b"".join(records)


def record(name: bytes, kind: int, data: bytes) -> bytes:
    return name + struct.pack(">HHIH", kind, 1, 5, len(data)) + data


def test_a_question_is_encoded_by_labels() -> None:
    assert QUERY[12:] == b"\x0akubernetes\x07default\x00\x00\x01\x00\x01"
    assert build_query("kubernetes.default.", 0x1234) == QUERY


def test_addresses_are_read_behind_compressed_and_plain_names() -> None:
    compressed = record(b"\xc0\x0c", 1, bytes([10, 215, 0, 1]))
    plain = record(b"\x01a\x00", 1, bytes([10, 215, 0, 2]))
    assert [IPv4Address("10.215.0.1"), IPv4Address("10.215.0.2")] == parse_addresses(
        QUERY, answer(compressed, plain)
    )


def test_other_records_are_passed_over() -> None:
    alias = record(b"\xc0\x0c", 5, b"\x01b\x00")
    address = record(b"\xc0\x0c", 1, bytes([1, 2, 3, 4]))
    assert [IPv4Address("1.2.3.4")] == parse_addresses(QUERY, answer(alias, address))


def test_an_answer_to_another_question_is_none() -> None:
    assert parse_addresses(build_query("x", 1), answer(record(b"\x00", 1, bytes(4)))) == []
    assert parse_addresses(QUERY, b"") == []
