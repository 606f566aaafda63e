"""The slot's end of the control channel: one gRPC stream to the coordinator.

Orders arrive on a thread of their own and go to the main thread's queue; messages to the
coordinator may be sent from any thread. When the stream ends for any reason, the process ends: it
cannot know what became of its job, and a new process is started when the job goes on (T30).
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Final

import grpc
import msgspec

from headrace.slot.messages import FromSlot, Register, ToSlot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

METHOD_PATH: Final = "/headrace.v1.Slots/Control"
CONNECT_TIMEOUT_S: Final = 30.0
_MESSAGE_BYTES_MAX: Final = 256 << 20
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),
)


class ControlChannel:
    """Connection of one slot process to its coordinator."""

    def __init__(
        self,
        coordinator: str,
        token: str,
        on_order: Callable[[ToSlot], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Prepare the channel; nothing is sent before `open`.

        Args:
            coordinator: ``host:port``.
            token: the job's token.
            on_order: takes orders, on the channel's thread.
            on_end: told why the stream has ended, on the channel's thread.
        """
        self._channel = grpc.insecure_channel(coordinator, options=_OPTIONS)
        self._token = token
        self._on_order = on_order
        self._on_end = on_end
        self._outgoing: queue.SimpleQueue[FromSlot | None] = queue.SimpleQueue()

    def open(self, registration: Register) -> None:
        """Register and begin to take orders."""
        call = self._channel.stream_stream(
            METHOD_PATH,
            request_serializer=msgspec.msgpack.Encoder().encode,
            response_deserializer=msgspec.msgpack.Decoder(ToSlot).decode,
        )
        self._outgoing.put(registration)
        orders = call(self._requests(), metadata=(("authorization", f"Bearer {self._token}"),))
        threading.Thread(target=self._read, args=(orders,), name="orders", daemon=True).start()

    def send(self, message: FromSlot) -> None:
        """Send a message; never blocks."""
        self._outgoing.put(message)

    def _requests(self) -> Iterator[FromSlot]:
        while (message := self._outgoing.get()) is not None:
            yield message

    def _read(self, orders: Iterator[ToSlot]) -> None:
        reason = "the coordinator closed the stream"
        try:
            for order in orders:
                self._on_order(order)
        except grpc.RpcError as error:
            reason = f"the stream to the coordinator broke: {error.code().name}"
        self._on_end(reason)
