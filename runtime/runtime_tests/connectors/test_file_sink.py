"""The file sink: parts and manifests over a directory, with failures injected (H9)."""

from __future__ import annotations

import dataclasses
import json

import pytest

from headrace.checkpoint.protocol.types import FileHandle, SinkCommittable
from headrace.checkpoint.storage.file import FileStore
from headrace.clock import SystemClock
from headrace.common.serialization import Encoder, SimpleStringSchema
from headrace.connectors.files.committer import FileCommitter
from headrace.connectors.files.lines import LineFormat
from headrace.connectors.sink import (
    CommitOutcome,
    LocalCommittable,
    SinkContext,
    TwoPhaseCommittingSink,
)
from headrace.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
)
from headrace.errors import CorruptStateError, InvalidConfigError, UserCodeError

JOB = "0123456789abcdef" * 2


@pytest.fixture
def base(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def spec(base):
    config = OutputFileConfig.builder().with_part_suffix(".txt").build()
    builder = FileSink.for_row_format(str(base), Encoder.simple_string_encoder())
    return builder.with_output_file_config(config).build().description()


@pytest.fixture
def context(tmp_path):
    spool_dir = tmp_path / "spool"
    spool_dir.mkdir()
    return SinkContext(
        job_id=JOB,
        operator_uid="rows out",
        slot=3,
        parallelism=4,
        generation=1,
        restored_checkpoint_id=None,
        restored_parallelism=None,
        spool_dir=spool_dir,
        clock=SystemClock(),
    )


def sealed(writer, checkpoint, values):
    for value in values:
        writer.write(value, None)
    pending = writer.prepare_commit(checkpoint)
    handles = [FileHandle(f.path.name, "x", f.size_bytes, f.checksum) for f in pending.files]
    committable = SinkCommittable(
        pending.operator_uid, pending.spool_id, checkpoint, handles, pending.records
    )
    return LocalCommittable(committable, tuple(file.path for file in pending.files))


def finished(base):
    """What a reader of the directory sees: it ignores names that begin with _ or a dot."""
    return {
        path.name: path.read_text()
        for path in sorted(base.glob("*"))
        if path.is_file() and path.name[0] not in "._"
    }


def test_it_is_a_two_phase_sink(spec):
    assert isinstance(spec, TwoPhaseCommittingSink)


def test_rows_appear_at_the_commit_as_whole_files(spec, context, base):
    writer, committer = spec.create_writer(context), spec.create_committer(context)
    committer.recover([])
    item = sealed(writer, 7, ["a", "b"])
    assert finished(base) == {}
    assert committer.commit(item) is CommitOutcome.PUBLISHED
    assert finished(base) == {"part-01234567-b0bbcbc3-slot-0003-00000007-0.txt": "a\nb\n"}


def test_the_manifest_names_what_was_published(spec, context, base):
    writer, committer = spec.create_writer(context), spec.create_committer(context)
    committer.commit(sealed(writer, 7, ["a", "b"]))
    (manifest,) = (base / "_headrace").rglob("*.json")
    assert str(manifest.relative_to(base)) == f"_headrace/{JOB}/b0bbcbc3/0000000007-slot-0003.json"
    assert json.loads(manifest.read_text()) == {
        "version": 1,
        "base_uri": base.as_uri(),
        "manifest": f"_headrace/{JOB}/b0bbcbc3/0000000007-slot-0003.json",
        "parts": ["part-01234567-b0bbcbc3-slot-0003-00000007-0.txt"],
        "records": 2,
    }


def test_an_empty_spool_makes_no_file(spec, context, base):
    item = sealed(spec.create_writer(context), 1, [])
    assert item.paths == ()
    assert spec.create_committer(context).commit(item) is CommitOutcome.EMPTY
    assert finished(base) == {}


def test_publishing_again_after_a_crash_changes_nothing(spec, context, base):
    item = sealed(spec.create_writer(context), 1, ["a"])
    first = spec.create_committer(context)
    outcomes = [first.commit(item), *spec.create_committer(context).recover([item])]
    assert outcomes == [CommitOutcome.PUBLISHED, CommitOutcome.ALREADY_PUBLISHED]
    assert list(finished(base).values()) == ["a\n"]


def test_a_published_part_that_a_consumer_took_away_does_not_come_back(spec, context, base):
    item = sealed(spec.create_writer(context), 1, ["a"])
    spec.create_committer(context).commit(item)
    for path in base.glob("part-*"):
        path.unlink()
    outcomes = spec.create_committer(context).recover([item])
    assert (outcomes, finished(base)) == ([CommitOutcome.ALREADY_PUBLISHED], {})


class Crash(BaseException):
    """Stands for SIGKILL: nothing of the product may catch it."""


class CrashingStore:
    """A store whose owner dies before or after the n-th change."""

    def __init__(self, store, at, after):
        self._store, self._left, self._after = store, at, after

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in {"put_file", "create"}:
            return method

        def change(*args):
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Crash
            method(*args)
            if self._left == 0:
                raise Crash

        return change


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_rows_are_there_once_wherever_a_commit_is_cut_off(spec, context, base, at, after):
    item = sealed(spec.create_writer(context), 1, ["a", "b"])
    dying = FileCommitter(
        spec.base_uri, lambda _: CrashingStore(FileStore(base), at, after), context
    )
    with pytest.raises(Crash):
        dying.commit(item)
    spec.create_committer(context).recover([item])
    assert list(finished(base).values()) == ["a\nb\n"]


def test_a_changed_directory_publishes_old_output_to_the_old_one(spec, context, base, tmp_path):
    item = sealed(spec.create_writer(context), 1, ["a"])
    moved = dataclasses.replace(spec, base_uri=(tmp_path / "elsewhere").as_uri())
    assert moved.create_committer(context).recover([item]) == [CommitOutcome.PUBLISHED]
    assert list(finished(base).values()) == ["a\n"]


def test_spools_are_recovered_in_checkpoint_order_and_reported_in_theirs(spec, context):
    writer = spec.create_writer(context)
    items = [sealed(writer, 1, ["a"]), sealed(writer, 2, []), sealed(writer, 3, ["c"])]
    outcomes = spec.create_committer(context).recover(items[::-1])
    assert outcomes == [CommitOutcome.PUBLISHED, CommitOutcome.EMPTY, CommitOutcome.PUBLISHED]


def test_a_lost_part_is_noticed_before_anything_is_published(spec, context, base):
    item = sealed(spec.create_writer(context), 1, ["a"])
    with pytest.raises(CorruptStateError):
        spec.create_committer(context).commit(LocalCommittable(item.committable, item.paths[:1]))
    assert finished(base) == {}


def test_a_row_of_two_lines_is_refused(spec, context):
    with pytest.raises(UserCodeError, match="more than one line"):
        spec.create_writer(context).write("a\nb", None)


def test_an_encoder_that_raises_is_user_code(spec, context):
    failing = dataclasses.replace(spec, file_format=LineFormat(SimpleStringSchema()))
    with pytest.raises(UserCodeError, match="AttributeError") as raised:
        failing.create_writer(context).write(3, None)
    assert "serialize" in raised.value.traceback_text


def test_closing_leaves_sealed_spools_alone(spec, context):
    writer = spec.create_writer(context)
    item = sealed(writer, 1, ["a"])
    writer.write("b", None)
    writer.close()
    assert sorted(context.spool_dir.iterdir()) == sorted(item.paths)


def test_a_directory_that_cannot_be_made_is_named_at_the_start(spec, context, tmp_path):
    (tmp_path / "file").write_text("")
    blocked = dataclasses.replace(spec, base_uri=(tmp_path / "file" / "out").as_uri())
    with pytest.raises(InvalidConfigError, match="file sink's directory refuses access"):
        blocked.create_committer(context).recover([])


@pytest.mark.parametrize("path", ["relative/dir", "ftp://host/dir", "file://host/dir"])
def test_a_path_that_cannot_be_written_is_refused_by_the_builder(path):
    with pytest.raises(InvalidConfigError, match="base_path="):
        FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()


@pytest.mark.parametrize("prefix", ["", "_part", ".part", "a/b"])
def test_names_that_readers_ignore_are_refused(prefix):
    with pytest.raises(InvalidConfigError, match="part_prefix"):
        OutputFileConfig.builder().with_part_prefix(prefix).build()


def test_a_file_source_names_what_it_needs():
    format_ = StreamFormat.text_line_format()
    with pytest.raises(InvalidConfigError, match="path"):
        FileSource.for_record_stream_format(format_).build()


def test_a_file_source_reads_the_files_that_are_there_unless_it_is_told_to_watch():
    from headrace.common.time import Duration

    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/in")
    assert builder.build().description().bounded
    assert not builder.monitor_continuously(Duration.of_seconds(1)).build().description().bounded
    assert builder.process_static_file_set().build().description().bounded


def test_a_file_source_is_read_by_sparks_text_source():
    from headrace.common.time import Duration

    format_ = StreamFormat.text_line_format()
    spec = (
        FileSource.for_record_stream_format(format_, "/in/a", "/in/b")
        .monitor_continuously(Duration.of_seconds(1))
        .set_option("pathGlobFilter", "*.txt")
        .build()
        .description()
    )
    assert spec.spark_path() == "{/in/a,/in/b}"
    assert spec.spark_options() == {"maxFilesPerTrigger": "1000", "pathGlobFilter": "*.txt"}
