"""The spool of records: it is read as it was written, damage is noticed, bytes stay the same."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.jdbc.codec import RowCodec
from headrace.connectors.jdbc.target import JdbcTarget, encode_target, read_target
from headrace.connectors.record_spool import (
    BLOCK_RECORDS_MAX,
    RecordSpoolWriter,
    SpoolHeader,
    read_spool_blocks,
    read_spool_header,
)
from headrace.connectors.spooling import SealedSpool
from headrace.errors import CorruptStateError, StorageUnavailableError
from headrace.serialization import types as described
from headrace.serialization.row import Row

HEADER = SpoolHeader("0123456789abcdef" * 2, "out", "slot-0003", b"where")

GOLDEN = bytes.fromhex(
    "48525350010000006c7b226a6f625f6964223a223031323334353637383961626364656630313233"
    "343536373839616263646566222c226f70657261746f725f756964223a226f7574222c2273706f6f"
    "6c5f6964223a22736c6f742d30303033222c226578747261223a226432686c636d553d227d7e0422"
    "a04f4ae38a0000000b000000020f5c79aa253aba6c92c4036f6e65c40374776f"
)
"""A file of version 1; it is read by every later release."""

GOLDEN_TARGET = (
    b'{"version":1,"sql":"INSERT $1","type":{"codec":"msgpack/1","type":{"type":"row",'
    b'"fields":[{"name":"id","type":{"type":"long"}}]}},"ledger_table":"ledger"}'
)


def write(path, records, header=HEADER):
    writer = RecordSpoolWriter(path, header)
    for record in records:
        writer.append(record)
    return writer.seal()


def read(path):
    return [record for block in read_spool_blocks(path) for record in block]


@pytest.mark.property
@given(records=st.lists(st.binary(max_size=40), max_size=30))
def test_records_come_back_in_order(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("spool") / "a"
    file = write(path, records)
    assert (records, HEADER) == (read(path), read_spool_header(path))
    data = path.read_bytes()
    assert (file.size_bytes, file.checksum) == (len(data), xxhash.xxh3_128_hexdigest(data))


def test_many_small_and_few_large_records_make_several_blocks(tmp_path):
    write(tmp_path / "small", [b""] * (BLOCK_RECORDS_MAX + 1))
    write(tmp_path / "large", [bytes(1 << 20)] * 2)
    sizes = [[len(block) for block in read_spool_blocks(tmp_path / n)] for n in ("small", "large")]
    assert [[BLOCK_RECORDS_MAX, 1], [1, 1]] == sizes


def test_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "a"
    write(path, [b"one", b"two"])
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        with pytest.raises(CorruptStateError):
            read(path)


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    path = tmp_path / "a"
    file = write(path, [b"one", b"two"])
    data = path.read_bytes()
    for size in range(file.size_bytes):
        path.write_bytes(data[:size])
        if size == file.size_bytes - 27:  # exactly between header and block: the count tells
            continue
        with pytest.raises(CorruptStateError):
            read(path)


def test_a_missing_block_is_noticed_by_the_count(tmp_path):
    write(tmp_path / "a", [b"one"])
    spool = SealedSpool(HEADER, 7, 2, (tmp_path / "a",))
    with pytest.raises(CorruptStateError, match="records=1 expected=2"):
        list(spool.rows())


def test_names_of_a_batch_are_its_jobs_sinks_slots_and_checkpoints():
    spool = SealedSpool(HEADER, 7, 2, ())
    key = "0123456789abcdef0123456789abcdef/out/slot-0003"
    assert (key, f"{key}/0000000007") == (spool.ledger_key, spool.batch_id)


def test_a_disk_that_refuses_is_no_error_of_the_program(tmp_path):
    with pytest.raises(StorageUnavailableError, match="free space"):
        RecordSpoolWriter(tmp_path / "missing" / "a", HEADER)


def test_stored_bytes_are_those_of_version_1(tmp_path):
    write(tmp_path / "a", [b"one", b"two"])
    assert GOLDEN == (tmp_path / "a").read_bytes()


def test_a_jdbc_target_is_read_back_and_keeps_its_form():
    row = described.RowType(("id",), (described.LONG,))
    target = JdbcTarget(1, "INSERT $1", RowCodec.of_type(row).snapshot(), "ledger")
    data = encode_target(target)
    assert GOLDEN_TARGET == data
    assert target == read_target(SpoolHeader("j", "s", "slot-0000", data))


def test_rows_are_read_by_what_is_stored_beside_them():
    row = described.RowType(("id", "name"), (described.LONG, described.STRING))
    codec = RowCodec.of_type(row)
    stored = RowCodec.of_snapshot(codec.snapshot())
    assert [7, "x"] == stored.parameters(codec.encode(Row(7, "x")))


@pytest.mark.parametrize(
    "extra", [b"", b"{}", b'{"version":2,"sql":"","type":{},"ledger_table":""}']
)
def test_a_target_that_is_not_understood_is_refused(extra):
    with pytest.raises(CorruptStateError):
        read_target(SpoolHeader("j", "s", "slot-0000", extra))
