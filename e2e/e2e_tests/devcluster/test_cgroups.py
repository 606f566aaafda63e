"""Control groups of version 1 and 2."""

from pathlib import Path

import pytest

from headrace_devcluster.cgroups import (
    belongs_to,
    observe_hierarchies,
    observe_members,
    parse_hierarchies,
)
from headrace_devcluster.errors import UnsupportedHostError

V1 = (
    "25 20 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n"
    "26 25 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n"
)
V2 = "26 25 0:23 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = V1 + "28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def test_version_1_has_one_tree_for_each_mounted_set_of_controllers() -> None:
    trees = parse_hierarchies(V1)
    assert [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/cpu,cpuacct")] == [
        tree.mount for tree in trees
    ]
    assert [{"memory"}, {"cpu", "cpuacct"}] == [tree.controllers for tree in trees]
    assert not any(tree.unified for tree in trees)


def test_version_2_has_one_tree() -> None:
    [tree] = parse_hierarchies(V2)
    assert (Path("/sys/fs/cgroup"), True) == (tree.mount, tree.unified)


def test_where_both_are_mounted_the_trees_with_controllers_are_used() -> None:
    assert parse_hierarchies(V1) == parse_hierarchies(HYBRID)


def test_without_control_groups_the_message_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text("20 1 8:1 / / rw - ext4 /dev/vda rw\n")
    with pytest.raises(UnsupportedHostError, match="--use-kubeconfig"):
        observe_hierarchies(tmp_path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0::/group", True),
        ("0::/group/node", True),
        ("4:memory:/group/kubepods/pod1", True),
        ("4:memory:/\n3:pids:/group/node", True),
        ("0::/group2", False),
        ("0::/other/group", False),
        ("0::/", False),
    ],
)
def test_a_process_belongs_to_a_group_at_or_below_it_in_any_tree(line: str, expected: bool) -> None:
    assert expected == belongs_to(line, "group")


def test_members_are_found_by_group_and_the_dead_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    for pid, group, state in ((1, "/", "S"), (7, "/group/node", "S"), (8, "/group/node", "Z")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::{group}\n")
        rest = " ".join(["0"] * 18 + ["555"])
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (x) {state} {rest}\n")
    assert [member.pid for member in observe_members("group", tmp_path)] == [7]
