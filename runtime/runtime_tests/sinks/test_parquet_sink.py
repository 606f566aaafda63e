"""Parquet files: types, row groups, sizes, and rows that do not fit."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common import Row, RowKind, Types
from headrace.common.typeinfo import RowTypeInfo
from headrace.connectors.files import parquet as parquet_module
from headrace.connectors.files import writer as writer_module
from headrace.connectors.files.parquet import ParquetFormat
from headrace.datastream.connectors.file_system import FileSink, OutputFileConfig
from headrace.datastream.formats.parquet import ParquetBulkWriters
from headrace.errors import InvalidConfigError, InvalidProgramError, UserCodeError
from headrace.testing.sinks import SinkWorld
from runtime_tests.sinks.targets import ParquetTarget

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


@pytest.fixture
def target(tmp_path):
    return ParquetTarget(tmp_path / "out")


@pytest.fixture
def world(target, tmp_path):
    (tmp_path / "job").mkdir()
    made = SinkWorld(target, tmp_path / "job")
    yield made
    made.close()


def part_of(tmp_path, row: RowTypeInfo, values):
    part = ParquetFormat(row.row).create_part(tmp_path / "a.parquet")
    for value in values:
        part.append(value)
    part.seal()
    return pq.ParquetFile(tmp_path / "a.parquet")


def test_every_type_has_a_column_type_that_spark_knows(tmp_path):
    row = Types.ROW_NAMED(
        ["i", "l", "d", "s", "b", "dec", "day", "at", "utc", "tags", "by_name", "inner"],
        [
            Types.INT(),
            Types.LONG(),
            Types.DOUBLE(),
            Types.STRING(),
            Types.BOOLEAN(),
            Types.BIG_DEC(),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.LIST(Types.STRING()),
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.ROW_NAMED(["x"], [Types.LONG()]),
        ],
    )
    value = Row(
        1,
        2,
        0.5,
        "ü",
        True,
        Decimal("1.5"),
        dt.date(2026, 1, 2),
        NOON.replace(tzinfo=None),
        NOON,
        ["a", None],
        {"k": 1},
        Row(x=3),
    )
    file = part_of(tmp_path, row, [value, Row(*[None] * 12)])
    assert [str(field.type) for field in file.schema_arrow] == [
        "int32",
        "int64",
        "double",
        "string",
        "bool",
        "decimal128(38, 18)",
        "date32[day]",
        "timestamp[us]",
        "timestamp[us, tz=UTC]",
        "list<element: string>",
        "map<string, int64 ('by_name')>",
        "struct<x: int64>",
    ]
    first, second = file.read().to_pylist()
    assert (first["tags"], first["by_name"], first["inner"]) == (["a", None], [("k", 1)], {"x": 3})
    assert (first["dec"], first["at"], first["utc"]) == (Decimal("1.5"), value[7], NOON)
    assert {None} == set(second.values())


def test_numbers_of_numpy_become_the_declared_type(tmp_path):
    row = Types.ROW_NAMED(["n"], [Types.LONG()])
    assert [{"n": 7}] == part_of(tmp_path, row, [(np.int64(7),)]).read().to_pylist()


def test_many_rows_make_few_row_groups(tmp_path, monkeypatch):
    row = Types.ROW_NAMED(["n"], [Types.LONG()])
    rows = [(number,) for number in range(20_000)]
    file = part_of(tmp_path, row, rows)
    assert (1, 20_000) == (file.metadata.num_row_groups, file.metadata.num_rows)
    (tmp_path / "a.parquet").unlink()
    monkeypatch.setattr(parquet_module, "_ROW_GROUP_BYTES", 64_000)
    file = part_of(tmp_path, row, rows)
    assert (3, 20_000) == (file.metadata.num_row_groups, file.metadata.num_rows)


def test_a_long_part_goes_on_in_another_file(world, target, monkeypatch):
    monkeypatch.setattr(writer_module, "PART_BYTES_MAX", 50_000)
    attempt = world.start()
    attempt.write(range(10_000))
    attempt.committer.commit(attempt.seal(1))
    assert len(target.parts()) > 1
    assert list(range(10_000)) == world.visible()


def test_names_end_as_readers_expect_unless_told_otherwise(world, target):
    attempt = world.start()
    attempt.write([1])
    attempt.committer.commit(attempt.seal(1))
    assert [".parquet"] == [part.suffix for part in target.parts()]
    config = OutputFileConfig.builder().with_part_suffix(".pq").build()
    builder = FileSink.for_bulk_format("/out", ParquetBulkWriters.for_row_type(_ROW))
    assert ".pq" == builder.with_output_file_config(config).build().description().part_suffix


_ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


def test_manifests_list_the_finished_files_and_their_rows(world, target):
    attempt = world.start()
    for checkpoint in (1, 2):
        attempt.write(range(checkpoint))
        attempt.committer.commit(attempt.seal(checkpoint))
    manifests = [
        json.loads(path.read_text())
        for path in sorted((target.directory / "_headrace").rglob("*.json"))
    ]
    assert [1, 2] == [manifest["records"] for manifest in manifests]
    listed = [name for manifest in manifests for name in manifest["parts"]]
    assert [part.name for part in target.parts()] == sorted(listed)


@pytest.mark.parametrize("value", [("x",), (1, 2), 7, (1 << 63,)])
def test_a_row_that_does_not_fit_is_an_error_of_the_program(world, value, monkeypatch):
    monkeypatch.setattr(parquet_module, "_BATCH_ROWS", 1)
    attempt = world.start()
    with pytest.raises(UserCodeError):
        attempt.writer.write(value, None)


def test_a_retraction_is_never_written_as_a_row(world):
    row = Row(number=1, name="x")
    row.set_row_kind(RowKind.DELETE)
    with pytest.raises(UserCodeError, match="retractions"):
        world.start().writer.write(row, None)


def test_a_field_without_a_type_is_refused_by_name():
    row = Types.ROW_NAMED(["n", "any"], [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    with pytest.raises(InvalidProgramError, match="any"):
        ParquetBulkWriters.for_row_type(row)


def test_a_type_that_parquet_lacks_is_refused():
    row = Types.ROW_NAMED(["empty"], [Types.ROW([])])
    with pytest.raises(InvalidProgramError, match="no such type"):
        ParquetBulkWriters.for_row_type(row)


def test_another_type_than_rows_and_an_unknown_compression_are_refused():
    with pytest.raises(InvalidProgramError, match="ROW_NAMED"):
        ParquetBulkWriters.for_row_type(Types.LONG())
    with pytest.raises(InvalidConfigError, match="zip"):
        ParquetBulkWriters.for_row_type(_ROW, compression="zip")


def test_an_unfinished_file_is_removed_when_the_writer_is_closed(world):
    attempt = world.start()
    attempt.write([1])
    attempt.end()
    assert [] == list(attempt.context.spool_dir.iterdir())


def test_a_sealed_file_is_complete(world):
    attempt = world.start()
    attempt.write([1, 2])
    item = attempt.seal(1)
    assert [1, 2] == pq.read_table(item.paths[1])["number"].to_pylist()
    assert pa.int64() == pq.read_schema(item.paths[1]).field("number").type
