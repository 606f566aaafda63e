"""Clusters that the user has."""

from pathlib import Path

import pytest

from headrace_devcluster.errors import ClusterFailedError, MissingToolError
from headrace_devcluster.external import check_external_cluster, find_kubectl, parse_server_version
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.settings import Settings

VERSION = '{"serverVersion": {"gitVersion": "v1.31.0"}}'


def fake_kubectl(tmp_path: Path, body: str) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return Kubectl((str(program),), tmp_path / "config")


def test_a_cluster_that_answers_and_grants_all_rights_is_used(tmp_path: Path) -> None:
    script = f"case \"$*\" in *version*) echo '{VERSION}';; *) echo yes;; esac"
    assert check_external_cluster(fake_kubectl(tmp_path, script)) == "v1.31.0"


def test_missing_rights_are_listed(tmp_path: Path) -> None:
    script = (
        f"case \"$*\" in *version*) echo '{VERSION}';; "
        "*'delete pods'*) echo no; exit 1;; *) echo yes;; esac"
    )
    with pytest.raises(ClusterFailedError, match=r"missing=delete pods$"):
        check_external_cluster(fake_kubectl(tmp_path, script))


def test_a_cluster_that_does_not_answer_is_named_with_its_reason(tmp_path: Path) -> None:
    kubectl = fake_kubectl(tmp_path, "echo 'connection refused' >&2; exit 1")
    with pytest.raises(ClusterFailedError, match="connection refused"):
        check_external_cluster(kubectl)


def test_kubectl_of_the_path_is_preferred_to_the_built_one(tmp_path: Path) -> None:
    fake_kubectl(tmp_path, "")
    built = tmp_path / "bin" / "kube-1" / "kube"
    built.parent.mkdir(parents=True)
    built.touch()
    on_path = Settings(tmp_path, tmp_path, {"PATH": str(tmp_path)})
    assert (str(tmp_path / "kubectl"),) == find_kubectl(on_path)
    assert (str(built), "kubectl") == find_kubectl(Settings(tmp_path, tmp_path, {"PATH": "/none"}))


def test_without_any_kubectl_the_message_says_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="install it"):
        find_kubectl(Settings(tmp_path, tmp_path, {"PATH": "/none"}))


def test_a_version_without_a_server_is_unknown() -> None:
    assert parse_server_version("{}") == "unknown"
