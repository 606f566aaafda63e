"""The node: a set of namespaces held by one process, and the daemons inside.

The node is to the host what a container is: own processes, mounts, network, host name. Its
holder is started first and joins the cluster's control group before anything else; killing the
holder makes the kernel end every process of the node, which releases its mounts and network.
The daemons are started from outside, are nobody's children and outlive the ``up`` that made them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from headrace.testing.processes import DIES_WITH_PARENT
from headrace_devcluster.components import Component
from headrace_devcluster.errors import ClusterFailedError
from headrace_devcluster.layout import NODE_NAME, Layout
from headrace_devcluster.polling import poll_until
from headrace_devcluster.processes import (
    PROC,
    ProcessId,
    is_running,
    observe_process,
)

START_TIMEOUT_S = 20.0


def read_log_tail(log: Path, lines: int = 8) -> str:
    """The end of a component's log, for error messages."""
    if not log.exists():
        return "(empty)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _script(name: str) -> Path:
    with as_file(files("headrace_devcluster") / "scripts" / name) as path:
        return path


def start_node(layout: Layout, pause: Path, procs_files: Sequence[Path]) -> ProcessId:
    """Starts the holder and waits until its namespaces are furnished.

    Args:
        layout: Of the cluster.
        pause: The program that waits and collects orphans, as process 1 of the node.
        procs_files: Control-group files that the holder joins first.

    Raises:
        ClusterFailedError: It ended, or was not ready within 20 s.
    """
    layout.data.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    ready = layout.data / "node.ready"
    ready.unlink(missing_ok=True)
    log = layout.logs / "node.log"
    with log.open("wb") as output:
        started = subprocess.Popen(
            [
                "/bin/sh", str(_script("node-init.sh")), "join", NODE_NAME, str(pause),
                str(layout.data), str(ready), *map(str, procs_files),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )  # fmt: skip
    holder = observe_process(started.pid)
    poll_until(lambda: ready.exists() or started.poll() is not None, START_TIMEOUT_S, 0.02)
    if holder is not None and ready.exists():
        return holder
    raise ClusterFailedError(
        "the node's namespaces could not be made: unshare needs CAP_SYS_ADMIN; run 'headrace "
        f"cluster down', then try again log={log}\n{read_log_tail(log)}"
    )


def enter_command(holder: ProcessId) -> list[str]:
    """The prefix that runs a command inside the node."""
    namespaces = PROC / str(holder.pid) / "ns"
    return [
        "nsenter",
        f"--mount={namespaces}/mnt",
        f"--net={namespaces}/net",
        f"--uts={namespaces}/uts",
        f"--ipc={namespaces}/ipc",
        # The holder itself stays outside of the process-id namespace that it made.
        f"--pid={namespaces}/pid_for_children",
        "--",
    ]


def start_component(
    layout: Layout,
    holder: ProcessId,
    procs_files: Sequence[Path],
    component: Component,
    environment: dict[str, str],
) -> ProcessId:
    """Starts a daemon inside the node; it becomes a child of the node's process 1.

    Returns:
        The daemon's identity as the host sees it.

    Raises:
        ClusterFailedError: The node is gone.
    """
    log = layout.logs / f"{component.name}.log"
    number_file = layout.data / f"{component.name}.pid"
    number_file.unlink(missing_ok=True)
    with log.open("ab") as output:
        done = subprocess.run(
            [
                *DIES_WITH_PARENT,
                "/bin/sh", str(_script("join.sh")), *map(str, procs_files), "--",
                *enter_command(holder), "/bin/sh", str(_script("daemon.sh")), str(number_file),
                *component.command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            check=False,
        )  # fmt: skip
    process = _find_in_node(holder, int(number_file.read_text())) if done.returncode == 0 else None
    if process is None:
        raise ClusterFailedError(
            f"{component.name} could not be started: read its log, then run 'headrace cluster "
            f"down' log={log}\n{read_log_tail(log)}"
        )
    return process


def _find_in_node(holder: ProcessId, number: int) -> ProcessId | None:
    """Translates a process id of the node's namespace to the host's."""
    namespace = (PROC / str(holder.pid) / "ns/pid_for_children").readlink()
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
            if (
                _number_in_namespace(status) == number
                and (entry / "ns/pid").readlink() == namespace
            ):
                return observe_process(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # It ended meanwhile, or it is outside of this container.
            continue
    return None


def _number_in_namespace(status: str) -> int | None:
    """Reads a process's number in its innermost process-id namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def run_in_node(
    holder: ProcessId, command: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs a short command inside the node and returns what it printed."""
    return subprocess.run(
        [*DIES_WITH_PARENT, *enter_command(holder), *command],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def require_running(layout: Layout, name: str, process: ProcessId) -> None:
    """Fails early when a daemon has ended, instead of waiting for it in vain.

    Raises:
        ClusterFailedError: It is gone; the message ends with the last lines of its log.
    """
    if not is_running(process):
        log = layout.logs / f"{name}.log"
        raise ClusterFailedError(
            f"{name} ended: read its log, then run 'headrace cluster down' and try again "
            f"log={log}\n{read_log_tail(log)}"
        )
