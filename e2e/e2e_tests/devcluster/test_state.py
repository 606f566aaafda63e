"""Records, leftovers and the state that they add up to."""

from pathlib import Path

import pytest

from headrace.errors import InvalidConfigError
from headrace_devcluster.processes import ProcessId
from headrace_devcluster.record import (
    ClusterRecord,
    read_all_records,
    read_record,
    write_record,
)
from headrace_devcluster.settings import Settings, find_kubeconfig
from headrace_devcluster.status import State, derive_state
from headrace_devcluster.teardown import Leftovers, parse_mounts_below

HOLDER = ProcessId(7, 1234, "boot")
READY = ClusterRecord("demo", 2, HOLDER, {"etcd": ProcessId(8, 1300, "boot")}, ready=True)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(tmp_path / "cluster.json", READY)
    assert read_record(tmp_path / "cluster.json") == READY
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 3}'])
def test_a_record_that_a_crash_damaged_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cluster.json").write_bytes(content)
    assert read_record(tmp_path / "cluster.json") is None


def test_indices_are_claimed_by_every_cluster_that_has_a_record(tmp_path: Path) -> None:
    assert read_all_records(tmp_path / "absent") == []
    for name, index in (("a", 0), ("b", 4)):
        (tmp_path / name).mkdir()
        write_record(tmp_path / name / "cluster.json", ClusterRecord(name, index))
    (tmp_path / "just-started").mkdir()
    assert [record.index for record in read_all_records(tmp_path)] == [0, 4]


@pytest.mark.parametrize(
    ("record", "exists", "running", "node_ready", "expected"),
    [
        (None, False, False, False, State.DOWN),
        (None, True, False, False, State.PARTIAL),
        (ClusterRecord("demo", 2, HOLDER), True, True, True, State.PARTIAL),
        (READY, True, True, True, State.UP),
        (READY, True, False, True, State.BROKEN),
        (READY, True, True, False, State.BROKEN),
    ],
)
def test_a_cluster_is_up_only_when_all_of_it_is(
    record: ClusterRecord | None, exists: bool, running: bool, node_ready: bool, expected: State
) -> None:
    derived = derive_state(record, exists=exists, components_running=running, node_ready=node_ready)
    assert expected == derived


def test_mounts_are_listed_deepest_first_and_only_those_inside() -> None:
    mountinfo = "".join(
        f"1 1 0:1 / {point} rw - tmpfs tmpfs rw\n"
        for point in ("/", "/c/demo/data", "/c/demo/data/pods/a\\040b", "/c/demo2", "/c")
    )
    expected = ("/c/demo/data/pods/a b", "/c/demo/data")
    assert expected == parse_mounts_below(mountinfo, Path("/c/demo"))


def test_leftovers_say_what_they_are() -> None:
    left = Leftovers((HOLDER,), ("/m",), "hr-1", (Path("/g"),), Path("/d"))
    assert not left.nothing
    for word in ("process 7", "mount /m", "link hr-1", "control group /g", "directory /d"):
        assert word in left.describe()
    assert Leftovers((), (), None, (), None).nothing


def test_settings_come_from_the_environment_that_is_handed_in() -> None:
    settings = Settings.from_environment({"HEADRACE_CLUSTERS": "/c", "HEADRACE_CACHE": "/k"})
    assert (Path("/c"), Path("/k")) == (settings.root, settings.cache)
    assert Path("/var/lib/headrace") == Settings.from_environment({}).root


def test_use_kubeconfig_needs_a_kubeconfig(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_text("")
    assert one == find_kubeconfig({"KUBECONFIG": str(one)})
    for value in ({}, {"KUBECONFIG": str(tmp_path / "absent")}, {"KUBECONFIG": f"{one}:{one}"}):
        with pytest.raises(InvalidConfigError, match="KUBECONFIG"):
            find_kubeconfig(value)
