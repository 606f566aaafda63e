"""An HTTP proxy on loopback that makes a service fail as services on a network do.

Every request meets one `HttpFault`, drawn from a seeded generator: a refusal without effect, a
lost reply, a body that ends early, or silence for longer than the client waits.
"""

from __future__ import annotations

import enum
import http.client
import random  # noqa: TID251 - seeded by the caller
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding"})


class HttpFault(enum.Enum):
    """What goes wrong with one request."""

    NONE = "none"
    INTERNAL_ERROR = "500, not forwarded"
    SLOW_DOWN = "503, not forwarded"
    RESET = "connection closed, not forwarded"
    LOST_REPLY = "forwarded, no reply"
    LOST_REPLY_ERROR = "forwarded, 500"
    CUT_BODY = "forwarded, reply ends after half of its body"
    SILENCE = "forwarded, reply comes too late"


class FaultyProxy:
    """Forwards to ``upstream``; use as a context manager.

    Attributes:
        rates: share of requests that meet each fault; replaceable at any time.
        met: how often each fault happened.
    """

    def __init__(
        self,
        upstream: tuple[str, int],
        seed: int,
        rates: Mapping[HttpFault, float],
        silence_s: float = 2.0,
    ) -> None:
        """Create a proxy.

        Args:
            upstream: host and port of the service.
            seed: of all randomness.
            rates: see the attribute.
            silence_s: how late a reply comes that comes too late.
        """
        self.rates = dict(rates)
        self.met = dict.fromkeys(HttpFault, 0)
        self.upstream = upstream
        self.silence_s = silence_s
        self.closing = threading.Event()
        self._random = random.Random(seed)  # noqa: S311 - not cryptography
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Return where the proxy listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def draw(self) -> HttpFault:
        """Return the fault of the next request."""
        with self._lock:
            left = self._random.random()
            for fault, rate in self.rates.items():
                left -= rate
                if left < 0:
                    self.met[fault] += 1
                    return fault
            self.met[HttpFault.NONE] += 1
            return HttpFault.NONE

    def __enter__(self) -> Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop serving."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up; that is what they do here."""


def _handler_of(proxy: FaultyProxy) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - a class in it
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.draw()
            if fault in {HttpFault.INTERNAL_ERROR, HttpFault.SLOW_DOWN}:
                return self._refuse(fault)
            if fault is HttpFault.RESET:
                return self._close()
            status, headers, content = self._forward(body)
            if fault is HttpFault.LOST_REPLY:
                return self._close()
            if fault is HttpFault.LOST_REPLY_ERROR:
                return self._refuse(HttpFault.INTERNAL_ERROR)
            if fault is HttpFault.SILENCE:
                proxy.closing.wait(proxy.silence_s)
                return self._close()
            return self._reply(status, headers, content, cut=fault is HttpFault.CUT_BODY)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - names of the base

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(*proxy.upstream, timeout=30)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer.status, answer.getheaders(), content

        def _reply(
            self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool
        ) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP | {"content-length"}:
                    self.send_header(name, value)
            length = {k.lower(): v for k, v in headers}.get("content-length", "0")
            self.send_header(
                "Content-Length", length if self.command == "HEAD" else str(len(content))
            )
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self._close()

        def _refuse(self, fault: HttpFault) -> None:
            slow = fault is HttpFault.SLOW_DOWN
            code = "SlowDown" if slow else "InternalError"
            content = f"<Error><Code>{code}</Code><Message>x</Message></Error>".encode()
            headers = [("Content-Type", "application/xml")]
            self._reply(503 if slow else 500, headers, content, cut=False)

        def _close(self) -> None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base
            """Log nothing."""

    return Handler
