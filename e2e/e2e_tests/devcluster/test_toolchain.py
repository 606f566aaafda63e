"""How the Go programs are built."""

import pytest

from headrace_devcluster.checkout import find_checkout
from headrace_devcluster.errors import BuildFailedError
from headrace_devcluster.toolchain import (
    build_link_flags,
    parse_go_version,
    parse_kubernetes_version,
)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.25rc1 linux/arm64", (1, 25)),
        ("", None),
    ],
)
def test_the_version_of_go_is_read(output: str, expected: tuple[int, int] | None) -> None:
    assert expected == parse_go_version(output)


def test_the_program_reports_the_kubernetes_release_that_it_is_built_from() -> None:
    flags = build_link_flags("require (\n\tk8s.io/kubernetes v1.34.4\n)\n")
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in flags
    assert "-X k8s.io/component-base/version.gitMinor=34" in flags


def test_a_module_without_kubernetes_is_refused() -> None:
    with pytest.raises(BuildFailedError, match="names no k8s"):
        parse_kubernetes_version("require (\n\tk8s.io/kubernetesx v1.34.4\n)\n")


def test_every_staging_module_has_the_release_of_kubernetes_itself() -> None:
    go_mod = (find_checkout().devcluster / "kube" / "go.mod").read_text()
    release = parse_kubernetes_version(go_mod).removeprefix("v1.")
    replaced = [line.split() for line in go_mod.splitlines() if "=>" in line]
    assert len(replaced) > 25
    assert {f"v0.{release}"} == {words[-1] for words in replaced}


def test_no_download_host_is_written_down_for_builds() -> None:
    devcluster = find_checkout().devcluster
    files = [*devcluster.rglob("Dockerfile"), *devcluster.rglob("*.sh"), *devcluster.rglob("*.py")]
    assert len(files) > 10
    hosts = ("deb." + "debian.org", "proxy." + "golang", "pypi." + "org", "repo1." + "maven")
    assert [path for path in files if any(host in path.read_text() for host in hosts)] == []
