"""A function as a sink: exactly-once by the names of batches; its errors are the program's."""

from __future__ import annotations

import json

import pytest

from headrace.common import Row, Types
from headrace.datastream.connectors.for_each_batch import ForEachBatchSink
from headrace.errors import UserCodeError
from headrace.testing.sinks import Place, SinkWorld, TwoPhaseSinkContract

ROW = Types.ROW_NAMED(["number"], [Types.LONG()])


class OverwritingTarget:
    """A file for each batch, named by it: writing it again changes nothing."""

    def __init__(self, directory, type_info=ROW):
        self.directory, self.type_info = directory, type_info

    def make_sink(self):
        directory = self.directory

        def write(rows, batch_id):
            directory.mkdir(exist_ok=True)
            numbers = [row[0] for row in rows]
            half = directory / f".{batch_id.replace('/', '-')}"
            half.write_text(json.dumps(numbers))
            half.rename(directory / half.name.removeprefix("."))

        return ForEachBatchSink(write, self.type_info)

    def value(self, number):
        return Row(number=number)

    def visible(self):
        files = self.directory.glob("[!.]*")
        return [number for file in files for number in json.loads(file.read_text())]


class TestTypedRows(TwoPhaseSinkContract):
    @pytest.fixture
    def sink_under_test(self, tmp_path):
        return OverwritingTarget(tmp_path / "out")


@pytest.mark.parametrize("type_info", [None, ROW])
def test_rows_arrive_as_they_were_written_under_a_name_that_stays(tmp_path, type_info):
    calls = []

    class Target(OverwritingTarget):
        def make_sink(self):
            return ForEachBatchSink(
                lambda rows, name: calls.append((list(rows), name)), self.type_info
            )

    world = SinkWorld(Target(tmp_path, type_info), tmp_path)
    attempt = world.start(Place(3, 4))
    attempt.write([1, 2])
    item = world.uploaded(attempt.seal(7))
    for _ in range(2):
        world.start(Place(3, 4, 7, 4), [item])
    name = f"{world.job_id}/sink under test/slot-0003/0000000007"
    assert [([Row(number=1), Row(number=2)], name)] * 2 == calls
    world.close()


def test_a_function_that_raises_is_the_programs_error(tmp_path):
    class Target(OverwritingTarget):
        def make_sink(self):
            return ForEachBatchSink(lambda rows, name: 1 / 0)

    world = SinkWorld(Target(tmp_path), tmp_path)
    attempt = world.start()
    attempt.write([1])
    with pytest.raises(UserCodeError, match=r"slot-0000/0000000001 error=ZeroDivisionError"):
        attempt.committer.commit(attempt.seal(1))
    world.close()


def test_output_of_a_program_with_another_type_is_still_delivered(tmp_path):
    old = SinkWorld(OverwritingTarget(tmp_path / "out"), tmp_path)
    attempt = old.start()
    attempt.write([1])
    item = old.uploaded(attempt.seal(1))
    wider = Types.ROW_NAMED(["number", "more"], [Types.LONG(), Types.STRING()])
    old._sink = OverwritingTarget(tmp_path / "out", wider)
    old.start(Place(restored=1, restored_parallelism=1), [item])
    assert [1] == old.visible()
    old.close()
