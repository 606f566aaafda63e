"""A proxy between client and server that cuts the connection at a chosen message."""

from __future__ import annotations

import contextlib
import socket
import threading


class CuttingProxy:
    """Forwards until the client sends ``marker``; then cuts, before or after the server has it.

    "after" waits until the server has answered, and throws the answer away: the client cannot know
    whether its message was acted on.
    """

    def __init__(self, port):
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.marker = None
        self.moment = "before"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, marker, moment):
        """Cut once, at the next message that holds ``marker``."""
        self.marker, self.moment = marker, moment

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            cutting = threading.Event()
            threads = [(client, server, self._may_cut), (server, client, _forwards)]
            for source, target, judge in threads:
                threading.Thread(
                    target=_pump, args=(source, target, judge, cutting), daemon=True
                ).start()

    def _may_cut(self, data):
        if self.marker is None or self.marker not in data:
            return None
        self.marker = None
        self.cuts += 1
        return self.moment


def _forwards(data):
    return None


def _pump(source, target, judge, cutting):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            verdict = judge(data)
            if verdict == "after":
                cutting.set()
                target.sendall(data)
                continue
            if verdict == "before" or (cutting.is_set() and judge is _forwards):
                break
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
