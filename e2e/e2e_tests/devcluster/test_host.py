"""What is said to a machine that cannot host a cluster."""

from pathlib import Path

import pytest

from headrace_devcluster.host import explain_unsupported, list_missing_packages


def test_root_on_linux_can_host_a_cluster() -> None:
    assert explain_unsupported("linux", 0) is None


@pytest.mark.parametrize(
    ("platform", "user_id", "reason"),
    [("darwin", 501, "needs Linux"), ("win32", 0, "needs Linux"), ("linux", 1000, "needs root")],
)
def test_others_are_told_why_and_what_to_do_instead(
    platform: str, user_id: int, reason: str
) -> None:
    message = explain_unsupported(platform, user_id)
    assert message is not None
    assert reason in message
    assert "KUBECONFIG" in message
    assert "--use-kubeconfig" in message


def test_packages_are_missing_when_any_of_their_programs_is(tmp_path: Path) -> None:
    program = tmp_path / "one"
    program.write_text("")
    program.chmod(0o755)
    programs = {"one": "first", "two": "second", "three": "second", str(tmp_path / "x"): "third"}
    assert list_missing_packages(programs, str(tmp_path)) == ["second", "third"]
