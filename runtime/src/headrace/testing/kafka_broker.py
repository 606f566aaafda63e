"""A real single-node Kafka broker (KRaft) as a child process, for tests and benchmarks.

Real parts only: the jars are Apache Kafka's own, started through its own main classes. The broker
listens on free loopback ports, keeps its data in the directory it is given, and can be killed with
SIGKILL and started again on the same data and ports. It dies with the process that started it: on
Linux the kernel does that (`DIES_WITH_PARENT`), elsewhere `stop` has to be reached.

The broker answers a request only once it is registered and unfenced, so a reply to ApiVersions is
what "ready" means here; no client library is needed for it.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.cli.jars import find_pyspark, resolve_jars
from headrace.errors import InternalError, InvalidConfigError
from headrace.testing.processes import DIES_WITH_PARENT

_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""``<size:i32><api key 18:i16><version 0:i16><correlation id:i32><null client id:i16>``."""

_LOG_TAIL_CHARS: Final = 4000


@dataclass(frozen=True, slots=True)
class KafkaBrokerConfig:
    """How the broker is set up.

    Attributes:
        heap_mb: JVM heap; the process needs about 150 MB beside it.
        sasl_users: name -> password; not empty adds a SASL/PLAIN listener.
        properties: server properties that win over ours.
        start_timeout_s: how long `start` waits for the first answer.
    """

    heap_mb: int = 384
    sasl_users: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 60.0


def resolve_broker_class_path(cache: Path) -> list[Path]:
    """Return the broker's jars, fetched into a cache once.

    Spark's resolver leaves out what Spark itself has; the broker takes that from pyspark.

    Raises:
        InvalidConfigError, StorageUnavailableError, InternalError: as `resolve_jars`.
    """
    from_spark = sorted((find_pyspark() / "jars").glob("scala-library-*.jar"))
    return [*resolve_jars("kafka-broker", cache), *from_spark]


DEFAULT_BROKER_CONFIG: Final = KafkaBrokerConfig()


class KafkaBroker:
    """Context manager around one broker process.

    Usage::

        with KafkaBroker(tmp_path, jars) as broker:
            client = connect(broker.bootstrap_servers)
            broker.kill()
            broker.start()
    """

    def __init__(
        self,
        directory: Path,
        jars: Sequence[Path],
        config: KafkaBrokerConfig = DEFAULT_BROKER_CONFIG,
    ) -> None:
        """Choose ports; nothing is started.

        Args:
            directory: for configuration, data and log; made when missing.
            jars: class path of ``org.apache.kafka:kafka_2.13`` with its dependencies.
            config: see `KafkaBrokerConfig`.

        Raises:
            InvalidConfigError: no jars, or no ``java`` on PATH.
        """
        java = shutil.which("java")
        if java is None:
            msg = "the broker needs Java 17 or later on PATH; found=none"
            raise InvalidConfigError(msg)
        if not jars:
            msg = "the broker's class path is empty, resolve the kafka-broker jars first"
            raise InvalidConfigError(msg)
        self._java = java
        self._directory = directory
        self._class_path = ":".join(str(jar) for jar in jars)
        self._config = config
        self._port, self._controller_port, self._sasl_port = _free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._formatted = False
        # The kernel's parent-death signal follows the *thread* that started the child, and tests
        # restart a broker from short-lived ones: one thread, alive until the end, starts them all.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="kafka-broker-spawner")

    @property
    def bootstrap_servers(self) -> str:
        """Address of the listener without authentication."""
        return f"127.0.0.1:{self._port}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """Address of the SASL/PLAIN listener (``security.protocol=SASL_PLAINTEXT``).

        Raises:
            InvalidConfigError: the broker has no users.
        """
        if not self._config.sasl_users:
            msg = "the broker has no SASL listener; set KafkaBrokerConfig.sasl_users"
            raise InvalidConfigError(msg)
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def pid(self) -> int | None:
        """Process id, None when it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def log_path(self) -> Path:
        """What the broker printed."""
        return self._directory / "broker.log"

    def start(self) -> None:
        """Start the process and wait until it answers; formats the data directory once.

        Raises:
            InternalError: it ended or did not answer in time; holds the end of its log.
        """
        if self._process is not None:
            msg = f"the broker already runs; pid={self._process.pid}"
            raise InternalError(msg)
        if not self._formatted:
            self._format()
        self._process = self._spawner.submit(self._spawn).result()
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the process with SIGKILL, as a lost machine would; the data stays."""
        self._end(signal.SIGKILL, timeout_s=10.0)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process in good order, by force after 15 s; does nothing when it is down."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            try:
                self._end(signal.SIGTERM, timeout_s=15.0)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nothing of a test's broker is worth a clean shutdown.
        if self._process is not None:
            self.kill()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the command is built here
                [*DIES_WITH_PARENT, *self._command("kafka.Kafka", str(self._properties_path))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def _properties_path(self) -> Path:
        return self._directory / "server.properties"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            msg = "the broker does not run"
            raise InternalError(msg)
        self._process.send_signal(number)

    def _end(self, number: signal.Signals, *, timeout_s: float) -> None:
        self._signal(number)
        assert self._process is not None  # noqa: S101 - `_signal` has checked it
        self._process.wait(timeout_s)
        self._process = None

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        return [
            self._java,
            f"-Xmx{self._config.heap_mb}m",
            # Short-lived brokers spend most of their life starting: client compiler, serial GC.
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-cp",
            self._class_path,
            main_class,
            *arguments,
        ]

    def _format(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._properties_path.write_text(
            "".join(f"{name}={value}\n" for name, value in self._properties().items())
        )
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        result = subprocess.run(  # noqa: S603 - the command is built here
            self._command(
                "kafka.tools.StorageTool",
                "format",
                "--ignore-formatted",
                f"--cluster-id={cluster_id}",  # may begin with a hyphen
                "--config",
                str(self._properties_path),
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=self._config.start_timeout_s,
        )
        if result.returncode != 0:
            msg = f"the broker's storage cannot be formatted; output={result.stdout}{result.stderr}"
            raise InternalError(msg)
        self._formatted = True

    def _properties(self) -> dict[str, str]:
        listeners = [
            f"PLAINTEXT://127.0.0.1:{self._port}",
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
        ]
        users = self._config.sasl_users
        sasl: dict[str, str] = {}
        if users:
            listeners.append(f"SASL_PLAINTEXT://127.0.0.1:{self._sasl_port}")
            accounts = " ".join(f'user_{name}="{users[name]}"' for name in users)
            sasl = {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {accounts};"
                ),
            }
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self._directory / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker registers again only when its old session has ended; 9 s by default.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
            # One node, few partitions: what a test reads is the same, it starts sooner.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Timed-out transactions are aborted at the next look; 10 s by default.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            **sasl,
            **self._config.properties,
        }

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._config.start_timeout_s
        while not _answers(self._port):
            if process.poll() is not None:
                msg = f"the broker ended while starting; code={process.returncode}"
                raise InternalError(f"{msg} log={self._log_tail()}")
            if time.monotonic() > deadline:
                msg = f"the broker does not answer; waited_s={self._config.start_timeout_s}"
                raise InternalError(f"{msg} log={self._log_tail()}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)

    def _log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(_API_VERSIONS)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    """Return distinct free loopback ports; they are held together, then released together."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
