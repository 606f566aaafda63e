"""``headrace cluster`` without a cluster."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace_devcluster import Cluster
from headrace_devcluster.cli import EXIT_NOT_UP, app
from headrace_devcluster.kubectl import Kubectl

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CLUSTERS", str(tmp_path / "clusters"))
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_an_error_is_one_message_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = RUNNER.invoke(app, ["up"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: the embedded cluster needs root")
    assert "--use-kubeconfig" in done.stderr
    assert done.stdout == ""


def test_use_kubeconfig_without_one_says_what_to_set() -> None:
    done = RUNNER.invoke(app, ["up", "--use-kubeconfig"])
    assert done.exit_code == 1
    assert "set it to the kubeconfig of the cluster" in done.stderr


def test_down_leaves_the_users_own_cluster_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("mine")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    done = RUNNER.invoke(app, ["down", "--use-kubeconfig"])
    assert done.exit_code == 0
    assert "stays as it is" in done.stderr
    assert kubeconfig.read_text() == "mine"


def test_a_bad_name_is_refused_before_anything_is_done() -> None:
    done = RUNNER.invoke(app, ["up", "--name", "../x"])
    assert done.exit_code == 1
    assert "choose another --name" in done.stderr


def test_images_are_listed_with_the_names_that_pods_use() -> None:
    done = RUNNER.invoke(app, ["images"])
    assert "runtime\tregistry.local/headrace-runtime:dev" in done.stdout.splitlines()


def test_all_that_follows_the_first_word_is_kubectls_own(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    class Found:
        kubectl = Kubectl(("true", "kubectl"), Path("/config"))
        kubeconfig = Path("/config")

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        called.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(Cluster, "find", lambda _name, _settings: Found)
    monkeypatch.setattr(subprocess, "run", run)
    words = ["exec", "pod", "-n", "x", "--", "ls", "--help", "--name", "y"]
    done = RUNNER.invoke(app, ["kubectl", "--name", "demo", *words])
    assert called == [["true", "kubectl", *words]]
    assert done.exit_code == 7


@pytest.mark.integration
class TestAsRoot:
    """These look at control groups and links, which takes root on Linux."""

    def test_status_of_nothing_is_down(self) -> None:
        done = RUNNER.invoke(app, ["status", "--name", "absent", "--json"])
        assert done.exit_code == EXIT_NOT_UP
        seen = json.loads(done.stdout)
        assert (seen["name"], seen["state"], seen["processes"]) == ("absent", "down", 0)

    def test_down_of_nothing_succeeds_and_makes_nothing(self, tmp_path: Path) -> None:
        done = RUNNER.invoke(app, ["down", "--name", "absent"])
        assert done.exit_code == 0
        assert "There is no cluster absent" in done.stderr
        assert not (tmp_path / "clusters").exists()

    @pytest.mark.parametrize("command", [["kubeconfig"], ["load", "runtime"]])
    def test_commands_on_a_cluster_that_is_not_up_name_the_command_that_starts_it(
        self, command: list[str]
    ) -> None:
        done = RUNNER.invoke(app, [*command, "--name", "absent"])
        assert done.exit_code == 1
        assert "headrace cluster up --name absent" in done.stderr
