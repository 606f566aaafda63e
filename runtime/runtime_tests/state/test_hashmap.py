"""What only the in-memory backend has: its file of rows and its memory (C13)."""

import pytest

from headrace.errors import CorruptStateError, InvalidConfigError, LocalStorageError
from headrace.state.hashmap.row_file import read_row_file, write_row_file

from .bench_of_state import StateBench


def test_the_file_of_rows_never_changes(tmp_path) -> None:
    path = tmp_path / "0000.rows"
    size = write_row_file(path, "né", [(b"\x00\x01a", b""), (b"\x00\x02b", b"\x05")])
    expected = (
        "4852524f57533031 0003 6ec3a9"
        "00000003 000161 00000000"
        "00000003 000262 00000001 05"
        "ffffffff 0000000000000002"
    )
    assert path.read_bytes() == bytes.fromhex(expected)
    assert size == len(bytes.fromhex(expected))
    name, rows = read_row_file(path)
    assert (name, list(rows)) == ("né", [(b"\x00\x01a", b""), (b"\x00\x02b", b"\x05")])


def test_every_cut_of_a_file_is_noticed(tmp_path) -> None:
    path = tmp_path / "0000.rows"
    write_row_file(path, "n", [(b"\x00\x01a", b"value"), (b"\x00\x02b", b"other")])
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(CorruptStateError, match="file="):
            list(read_row_file(path)[1])


@pytest.mark.parametrize(
    "data", [b"", b"SOMETHING ELSE", b"HRROWS02\x00\x01n\xff\xff\xff\xff" + b"\0" * 8]
)
def test_another_format_is_refused(tmp_path, data: bytes) -> None:
    path = tmp_path / "0000.rows"
    path.write_bytes(data)
    with pytest.raises(CorruptStateError, match="file="):
        list(read_row_file(path)[1])


def test_a_file_is_never_overwritten(tmp_path) -> None:
    path = tmp_path / "0000.rows"
    path.write_bytes(b"")
    with pytest.raises(LocalStorageError, match="File exists"):
        write_row_file(path, "n", [])


def test_the_size_of_the_state_follows_what_is_in_it(tmp_path) -> None:
    bench = StateBench.open("hashmap", tmp_path)
    bench.put({"a": 1, "b": 2})
    bench.backend.flush()
    full = bench.backend.metrics()
    bench.put({"a": 2**60})
    bench.backend.flush()
    assert bench.backend.metrics()["hashmap.bytes"] == full["hashmap.bytes"] + 8
    for key in "ab":
        bench.select(key)
        bench.values().clear()
    bench.backend.flush()
    empty = bench.backend.metrics()
    assert (empty["hashmap.entries"], empty["hashmap.bytes"]) == (0, 0)


def test_a_state_that_nears_its_limit_warns_once_and_then_fails_by_name(tmp_path, caplog) -> None:
    bench = StateBench.open("hashmap", tmp_path, memory_bytes=1_000_000)
    bench.put({f"key-{number}": number for number in range(3400)})
    bench.backend.flush()
    bench.put({"one": 1})
    bench.backend.flush()
    assert [record.args[0] for record in caplog.records] == ["counter"]
    with pytest.raises(InvalidConfigError, match="has outgrown the in-memory backend") as failed:
        bench.put({f"more-{number}": number for number in range(3000)})
    assert "operator=counter" in str(failed.value)
