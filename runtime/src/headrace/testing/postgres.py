"""A real PostgreSQL server as a child process, for tests and benchmarks.

The programs are Debian's (``make postgres`` installs them). The server listens on a free loopback
port alone, keeps its data in a directory of its own that goes with it, can be killed and started
again on the same data, and dies with the thread that started it, see `DIES_WITH_PARENT`. It refuses
to run as root, so for root it runs as another user, who must be able to reach its directory:
that is why the directory is not the caller's.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.errors import InternalError, InvalidConfigError
from headrace.testing.processes import DIES_WITH_PARENT

USER: Final = "headrace"
PASSWORD: Final = "s3cret pass"  # noqa: S105 - of a server that only a test reaches
DATABASE: Final = "postgres"
_UNPRIVILEGED: Final = ("postgres", "nobody")
_PROGRAMS: Final = ("initdb", "pg_isready", "postgres")
_START_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05
_LOG_TAIL_CHARS: Final = 2000
_SETTINGS: Final = {
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # data need not outlive the machine; it outlives a killed server all the same
    "max_connections": "40",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "lc_messages": "C",
}


def find_postgres() -> Path:
    """Return the directory of the server's programs, the newest where there are several.

    Raises:
        InvalidConfigError: there is none.
    """
    installed = Path("/usr/lib/postgresql").glob("*/bin")  # not on PATH: Debian keeps versions
    newest_first = sorted(installed, key=lambda path: int(path.parts[-2]), reverse=True)
    on_path = [Path(directory) for directory in os.get_exec_path()]
    for directory in (*newest_first, *on_path):
        if all((directory / name).exists() for name in _PROGRAMS):
            return directory
    msg = "PostgreSQL's programs are missing, run 'make postgres' or install them; found=none"
    raise InvalidConfigError(msg)


class PostgresServer:
    """Context manager around one server.

    Usage::

        with PostgresServer() as server:
            connect(server.url)
            server.kill()
            server.start()
    """

    def __init__(self) -> None:
        """Make a database cluster in a directory of its own; nothing is started."""
        self._bin = find_postgres()
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel's parent-death signal follows the thread that started a child, and tests
        # restart servers from short-lived ones: one thread, alive until the end, starts them all.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="postgres-spawner")
        self.port = _free_port()
        if os.geteuid() == 0:
            account = _unprivileged_account()
            os.chown(self._directory, account.pw_uid, account.pw_gid)
            self._as_user = [
                "setpriv",
                f"--reuid={account.pw_uid}",
                f"--regid={account.pw_gid}",
                "--clear-groups",
                "--",
            ]
        else:
            self._as_user = []
        try:
            self._make_cluster()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """JDBC URL of the database, without user and password (`USER`, `PASSWORD`)."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        """Start the server and wait until it takes connections.

        Raises:
            InternalError: it ended, or did not answer in time; holds the end of its log.
        """
        if self._process is not None:
            raise InternalError(f"PostgreSQL already runs; pid={self._process.pid}")
        log = self._directory / "server.log"
        deadline = time.monotonic() + _START_TIMEOUT_S
        process = self._process = self._spawner.submit(self._spawn, log).result()
        while not self._answers():
            if time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
                self.kill()
                raise InternalError(f"PostgreSQL does not start; log={tail}")
            time.sleep(_POLL_S)  # noqa: TID251 - of a real process
            if process.poll() is not None:
                # Children of a killed server hold its memory for a moment, and it waits for none.
                process = self._process = self._spawner.submit(self._spawn, log).result()

    def kill(self) -> None:
        """End the server with SIGKILL; its children notice and end too. The data stays."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server, its connections first."""
        self._end(signal.SIGINT)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._spawner.shutdown()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _spawn(self, log: Path) -> subprocess.Popen[bytes]:
        options = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        with log.open("ab") as output:
            # The parent-death signal is lost with a change of user, so it is asked for after it.
            return subprocess.Popen(  # noqa: S603 - the command is built here
                [*self._as_user, *DIES_WITH_PARENT, *command, *options],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _make_cluster(self) -> None:
        secret = self._directory / "password"
        secret.write_text(f"{PASSWORD}\n")
        secret.chmod(0o644)
        self._run(
            [
                str(self._bin / "initdb"),
                f"--pgdata={self._data}",
                f"--username={USER}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )

    def _run(self, command: Sequence[str]) -> None:
        result = subprocess.run(  # noqa: S603 - the command is built here
            [*self._as_user, *command],
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60.0,
        )
        if result.returncode != 0:
            msg = f"PostgreSQL's data cannot be made; output={result.stdout}{result.stderr}"
            raise InternalError(msg)

    def _answers(self) -> bool:
        result = subprocess.run(  # noqa: S603 - the command is built here
            [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
            check=False,
            timeout=10.0,
        )
        return result.returncode == 0

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(20.0)


def _unprivileged_account() -> pwd.struct_passwd:
    for name in _UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    msg = f"the server needs an account that is not root's; tried={','.join(_UNPRIVILEGED)}"
    raise InvalidConfigError(msg)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
