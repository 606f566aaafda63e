"""The coordinator's end of the control channel: a gRPC server that slot processes connect to.

One bidirectional stream a slot process (see `headrace.slot.messages`). The service knows who is
registered, delivers orders, and hands every message to one `SlotListener`. It decides nothing. A
slot whose stream ends is lost; a second process for a slot that has a live one is told to end.

Slots come in *layouts*, numbered sets of one parallelism. One layout is current; during a rescale
the next one stands beside it until one of the two is dropped. A layout's number is never used
again, so a slot of one is never taken for a slot of another.
"""

from __future__ import annotations

import hmac
import logging
import queue
import threading
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import msgspec

from headrace.errors import InvalidConfigError
from headrace.slot.messages import FromSlot, Heartbeat, Register, Shutdown, ToSlot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.clock import Clock
    from headrace.ids import AttemptId, JobId

log = logging.getLogger(__name__)

SERVICE: Final = "headrace.v1.Slots"
METHOD: Final = "Control"
MESSAGE_BYTES_MAX: Final = 256 << 20
"""A restore order holds the pickled job graph and the handles of one slot."""

KEEPALIVE: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)
"""A peer that does not answer for 20 s is gone, also when its node vanished without a FIN."""


class SlotListener(Protocol):
    """Gets everything that slots say; called on gRPC threads, must not block."""

    def slot_message(self, slot: int, attempt: AttemptId, message: FromSlot) -> None:
        """Take a message of a registered slot."""
        ...

    def slot_lost(self, slot: int, attempt: AttemptId) -> None:
        """Learn that a registered slot's stream has ended."""
        ...


@dataclass(slots=True)
class RegisteredSlot:
    """A live slot process."""

    registration: Register
    orders: queue.SimpleQueue[ToSlot | None] = field(default_factory=queue.SimpleQueue)
    metrics: dict[str, float] = field(default_factory=dict)
    heard_s: float = 0.0
    """Monotonic time of its last message."""


class SlotService:
    """Server and registry of slots; thread-safe."""

    def __init__(self, job_id: JobId, token: str, listener: SlotListener, clock: Clock) -> None:
        self._job_id = job_id
        self._token = f"Bearer {token}"
        self._listener = listener
        self._clock = clock
        self._changed = threading.Condition()
        self._slots: dict[tuple[int, int], RegisteredSlot] = {}
        self._layout = 0
        self._last_layout = 0
        self._layouts = {0}
        self._server: grpc.Server | None = None
        self._stopping = False
        self.port = 0

    def start(self, host: str, port: int) -> None:
        """Listen on ``host:port`` (0 = any free port).

        Raises:
            InvalidConfigError: the port is taken.
        """
        pool = futures.ThreadPoolExecutor(max_workers=512, thread_name_prefix="slot-control")
        server = grpc.server(pool, options=KEEPALIVE)
        handler = grpc.stream_stream_rpc_method_handler(
            self._control,
            request_deserializer=msgspec.msgpack.Decoder(FromSlot).decode,
            response_serializer=msgspec.msgpack.Encoder().encode,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )
        try:
            self.port = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            msg = f"the control port is taken, end the other driver; address={host}:{port}"
            raise InvalidConfigError(msg) from error
        server.start()
        self._server = server

    def stop(self) -> None:
        """Tell every slot to end and close the server."""
        self._stopping = True
        with self._changed:
            slots = list(self._slots.values())
        for slot in slots:
            slot.orders.put(Shutdown(reason="the job has ended"))
            slot.orders.put(None)
        if self._server is not None:
            self._server.stop(grace=2.0).wait()

    @property
    def layout(self) -> int:
        """Number of the current layout."""
        return self._layout

    def new_layout(self) -> int:
        """Return the number of a layout that stands beside the current one."""
        with self._changed:
            self._last_layout += 1
            self._layouts.add(self._last_layout)
            return self._last_layout

    def switch(self, layout: int) -> None:
        """Make a layout the current one; slots of the other stay registered."""
        with self._changed:
            self._layout = layout

    def drop_layout(self, layout: int, reason: str) -> None:
        """Tell every process of a layout to end and forget them."""
        with self._changed:
            self._layouts.discard(layout)
        for slot in self.live(layout):
            self.drop(slot, reason, layout)

    def live(self, layout: int | None = None) -> dict[int, Register]:
        """Return the registered slots of a layout, by default the current one."""
        return {index: slot.registration for index, slot in self._of(layout).items()}

    def metrics(self) -> dict[int, dict[str, float]]:
        """Return the last heartbeat's gauges of every slot."""
        return {index: dict(slot.metrics) for index, slot in self._of(None).items()}

    def silent(self, timeout_s: float) -> list[int]:
        """Return the registered slots that have said nothing for ``timeout_s`` seconds."""
        limit = self._clock.monotonic_s() - timeout_s
        return [index for index, slot in self._of(None).items() if slot.heard_s < limit]

    def send(self, slot: int, order: ToSlot, layout: int | None = None) -> bool:
        """Queue an order; returns False when the slot is not registered."""
        registered = self._of(layout).get(slot)
        if registered is None:
            return False
        registered.orders.put(order)
        return True

    def drop(self, slot: int, reason: str, layout: int | None = None) -> None:
        """Tell a slot's process to end and forget it."""
        with self._changed:
            key = (self._layout if layout is None else layout, slot)
            registered = self._slots.pop(key, None)
        if registered is not None:
            registered.orders.put(Shutdown(reason=reason))
            registered.orders.put(None)

    def _of(self, layout: int | None) -> dict[int, RegisteredSlot]:
        with self._changed:
            wanted = self._layout if layout is None else layout
            return {slot: found for (of, slot), found in self._slots.items() if of == wanted}

    def _control(
        self, requests: Iterator[FromSlot], context: grpc.ServicerContext
    ) -> Iterator[ToSlot]:
        metadata = dict(context.invocation_metadata())
        if not hmac.compare_digest(str(metadata.get("authorization", "")), self._token):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
        first = next(requests)
        if not isinstance(first, Register) or first.job_id != self._job_id:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a stream begins with Register")
            return
        registered = RegisteredSlot(first, heard_s=self._clock.monotonic_s())
        refusal = self._admit(registered)
        if refusal is not None:
            yield Shutdown(reason=refusal)
            return
        reader = threading.Thread(
            target=self._read, args=(requests, registered), name=f"slot-{first.slot}", daemon=True
        )
        reader.start()
        while (order := registered.orders.get()) is not None:
            yield order

    def _admit(self, registered: RegisteredSlot) -> str | None:
        """Enter a slot; returns why not, if so."""
        registration = registered.registration
        key = (registration.layout, int(registration.slot))
        with self._changed:
            if registration.layout not in self._layouts:
                return "its layout is gone"
            if key in self._slots:
                return "another process owns this slot"
            self._slots[key] = registered
            self._changed.notify_all()
        log.info(
            "slot registered slot=%s layout=%s attempt=%s executor=%s address=%s",
            registration.slot,
            registration.layout,
            registration.attempt,
            registration.executor_id,
            registration.address,
        )
        return None

    def _read(self, requests: Iterator[FromSlot], registered: RegisteredSlot) -> None:
        registration = registered.registration
        try:
            for message in requests:
                registered.heard_s = self._clock.monotonic_s()
                if isinstance(message, Heartbeat):
                    registered.metrics = message.metrics
                self._listener.slot_message(registration.slot, registration.attempt, message)
        except Exception as error:  # noqa: BLE001 - gRPC raises bare Exceptions when a stream breaks
            log.info("slot stream broke slot=%s cause=%r", registration.slot, error)
        finally:
            self._forget(registered)

    def _forget(self, registered: RegisteredSlot) -> None:
        registration = registered.registration
        with self._changed:
            key = (registration.layout, int(registration.slot))
            lost = self._slots.get(key) is registered
            if lost:
                del self._slots[key]
                self._changed.notify_all()
        registered.orders.put(None)
        if lost and not self._stopping:
            log.warning("slot lost slot=%s attempt=%s", registration.slot, registration.attempt)
            self._listener.slot_lost(registration.slot, registration.attempt)
