"""The stored format of Kafka spools; a change of a golden value is a change of stored data."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.spool import (
    BLOCK_RECORDS_MAX,
    SpoolFileWriter,
    SpoolHeader,
    read_blocks,
    read_header,
)
from headrace.errors import CorruptStateError, StorageUnavailableError

HEADER = SpoolHeader("out", "headrace.j.sink.slot-0000", "pfx-slot-0000")
RECORDS = [
    (b"k", b"value", 1_700_000_000_000, None, -1, None),
    (None, b"", -1, "other", 3, [("h", b"x"), ("n", None)]),
    (b"gone", None, -1, None, -1, None),
]
GOLDEN = (
    "48524b53010000005d"
    "7b22746f706963223a226f7574222c226c65646765725f67726f7570223a2268656164726163652e6a2e73696e6b2e"
    "736c6f742d30303030222c227472616e73616374696f6e616c5f6964223a227066782d736c6f742d30303030227d"
)


def write(path, records):
    writer = SpoolFileWriter(path, HEADER)
    for record in records:
        writer.append(record)
    return writer.seal()


def read(path):
    return [record for block in read_blocks(path) for record in block]


def test_the_bytes_of_a_spool_are_those_of_the_first_release(tmp_path):
    write(tmp_path / "spool", RECORDS)
    data = (tmp_path / "spool").read_bytes()
    header, rest = data[: len(GOLDEN) // 2], data[len(GOLDEN) // 2 :]
    payload = bytes.fromhex(
        "93"
        "96c4016bc40576616c7565cf0000018bcfe56800c0ffc0"
        "96c0c400ffa56f746865720392 92a168c40178 92a16ec0".replace(" ", "")
        + "96c404676f6e65c0ffc0ffc0"
    )
    assert header.hex() == GOLDEN
    expected = (
        xxhash.xxh3_64_intdigest(header[9:]).to_bytes(8, "big")
        + len(payload).to_bytes(4, "big")
        + (3).to_bytes(4, "big")
        + xxhash.xxh3_64_intdigest(payload).to_bytes(8, "big")
        + payload
    )
    assert expected.hex() == rest.hex()


def test_size_and_checksum_are_those_of_the_file(tmp_path):
    sealed = write(tmp_path / "spool", RECORDS)
    data = sealed.path.read_bytes()
    assert (len(data), xxhash.xxh3_128_hexdigest(data)) == (sealed.size_bytes, sealed.checksum)


def test_records_and_header_come_back(tmp_path):
    sealed = write(tmp_path / "spool", RECORDS)
    assert read(sealed.path) == RECORDS
    assert read_header(sealed.path) == HEADER


def test_memory_is_bounded_by_blocks(tmp_path):
    count = BLOCK_RECORDS_MAX * 2 + 1
    sealed = write(tmp_path / "spool", [(None, b"v", -1, None, -1, None)] * count)
    sizes = [len(block) for block in read_blocks(sealed.path)]
    assert sizes == [BLOCK_RECORDS_MAX, BLOCK_RECORDS_MAX, 1]


def test_large_values_close_a_block_early(tmp_path):
    sealed = write(tmp_path / "spool", [(None, bytes(700_000), -1, None, -1, None)] * 3)
    assert [len(block) for block in read_blocks(sealed.path)] == [2, 1]


@pytest.mark.property
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=40),
            st.integers(-1, 2**62),
            st.none() | st.text(max_size=10),
            st.integers(-1, 2**31 - 1),
            st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary())),
        ),
        max_size=30,
    )
)
def test_any_records_come_back(tmp_path_factory, records):
    sealed = write(tmp_path_factory.mktemp("spool") / "spool", records)
    assert read(sealed.path) == records


@pytest.mark.parametrize("position", [0, 4, 6, 20, 110, 120, 140, 150])
def test_every_flipped_byte_is_noticed(tmp_path, position):
    sealed = write(tmp_path / "spool", RECORDS)
    data = bytearray(sealed.path.read_bytes())
    data[position] ^= 0x40
    sealed.path.write_bytes(data)
    with pytest.raises(CorruptStateError, match="path="):
        read(sealed.path)


def test_a_cut_file_is_noticed(tmp_path):
    sealed = write(tmp_path / "spool", RECORDS)
    sealed.path.write_bytes(sealed.path.read_bytes()[:-1])
    with pytest.raises(CorruptStateError):
        read(sealed.path)


def test_a_newer_format_names_its_version(tmp_path):
    sealed = write(tmp_path / "spool", RECORDS)
    data = bytearray(sealed.path.read_bytes())
    data[4] = 9
    sealed.path.write_bytes(data)
    with pytest.raises(CorruptStateError, match="spool version 9"):
        read_header(sealed.path)


def test_a_discarded_file_is_gone(tmp_path):
    writer = SpoolFileWriter(tmp_path / "spool", HEADER)
    writer.append(RECORDS[0])
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_refusing_disk_is_an_error_that_may_pass(tmp_path):
    with pytest.raises(StorageUnavailableError, match="free space"):
        SpoolFileWriter(tmp_path / "missing" / "spool", HEADER)
