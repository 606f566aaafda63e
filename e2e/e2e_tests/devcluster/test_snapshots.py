"""Lending unpacked layers to a node."""

from pathlib import Path

from headrace_devcluster.snapshots import compute_chain_ids, parse_target

A, B = ("sha256:" + letter * 64 for letter in "ab")


def test_the_first_layer_is_named_by_itself_and_others_by_all_below_them() -> None:
    first, second = compute_chain_ids([A, B])
    assert first == A
    assert second == ("sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c")
    assert list(compute_chain_ids([B, A]))[1] != second


def test_files_go_to_the_upper_directory_of_an_overlay() -> None:
    mounts = (
        '[{"Type":"overlay","Source":"overlay","Target":"","Options":'
        '["index=off","workdir=/s/2/work","upperdir=/s/2/fs","lowerdir=/s/1/fs"]}]'
    )
    assert parse_target(mounts) == Path("/s/2/fs")


def test_files_of_the_lowest_layer_go_to_the_directory_itself() -> None:
    assert parse_target('[{"Type":"bind","Source":"/s/1/fs","Options":["rw","rbind"]}]') == Path(
        "/s/1/fs"
    )
