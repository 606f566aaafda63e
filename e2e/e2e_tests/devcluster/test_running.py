"""Running and ending commands, certificates and waiting: against the machine itself."""

import base64
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace_devcluster.commands import run_logged
from headrace_devcluster.errors import BuildFailedError, ClusterFailedError
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.layout import Addresses
from headrace_devcluster.pki import build_tokens, write_pki
from headrace_devcluster.polling import poll_until
from headrace_devcluster.processes import observe_process

pytestmark = pytest.mark.integration

STARTS_A_BUILD = """
import sys
from pathlib import Path
from headrace_devcluster.commands import run_logged
run_logged("x", ["sh", "-c", "echo $$ > {pid}; exec sleep 600"], Path("{log}"))
"""


def test_a_failed_command_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "build.log"
    with pytest.raises(BuildFailedError, match="the reason") as raised:
        run_logged("the thing", ["sh", "-c", "echo the reason; exit 3"], log)
    assert "exit_code=3" in str(raised.value)
    assert str(log) in str(raised.value)


def test_a_build_ends_with_the_command_that_started_it_even_when_that_is_killed(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "pid"
    program = STARTS_A_BUILD.format(pid=pid_file, log=tmp_path / "log")
    with subprocess.Popen([sys.executable, "-c", program]) as starter:
        assert poll_until(lambda: pid_file.exists() and pid_file.read_text() != "", 10)
        build = observe_process(int(pid_file.read_text()))
        assert build is not None
        starter.kill()
    assert poll_until(lambda: observe_process(build.pid) != build, 10)


def test_certificates_are_signed_by_the_clusters_own_authority(tmp_path: Path) -> None:
    directory = tmp_path / "pki"
    addresses = Addresses(3)
    ca_data = write_pki(directory, addresses)
    assert (directory / "ca.crt").read_bytes() == base64.b64decode(ca_data)
    for name, address in (("apiserver", "10.213.3.2"), ("kubelet", "10.213.3.2")):
        done = subprocess.run(
            ["openssl", "verify", "-CAfile", "ca.crt", "-verify_ip", address, f"{name}.crt"],
            cwd=directory,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert directory.stat().st_mode & 0o077 == 0


def test_tokens_are_never_the_same_twice() -> None:
    assert set() == set(build_tokens().values()) & set(build_tokens().values())


def test_waiting_ends_with_the_condition_or_with_the_time() -> None:
    event = threading.Event()
    threading.Timer(0.1, event.set).start()
    assert poll_until(event.is_set, 5, 0.01)
    assert not poll_until(lambda: False, 0.05, 0.01)


def test_a_condition_may_give_up_early() -> None:
    def condition() -> bool:
        raise ClusterFailedError("gone")

    with pytest.raises(ClusterFailedError):
        poll_until(condition, 5)


def test_kubectl_that_hangs_is_an_error_that_names_the_command(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(ClusterFailedError, match="get pods"):
        Kubectl((str(program),), tmp_path / "config").run("get", "pods", timeout_s=0.1)
