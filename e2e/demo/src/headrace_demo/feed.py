"""The producer: writes the payments at a steady rate, up to where the scenario allows.

One thread. Records are keyed by merchant, so that a merchant's payments stay in one partition and
in order; the producer is idempotent, so its own retries neither repeat nor reorder.
"""

from __future__ import annotations

import threading
from typing import Final

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from headrace.clock import Clock
from headrace_demo.broker import client_settings
from headrace_demo.errors import DemoFailedError
from headrace_demo.payments import PaymentStream

_PACE_EVERY: Final = 50
"""Records between two looks at the clock."""
_IDLE_S: Final = 0.05
_FLUSH_TIMEOUT_S: Final = 30.0


class PaymentFeed:
    """Writes a stream to a topic in the background."""

    def __init__(
        self, stream: PaymentStream, servers: str, topic: str, rate_per_s: float, clock: Clock
    ) -> None:
        """Prepares the feed; nothing is written before `start` and `allow`.

        Args:
            stream: What to write.
            servers: Bootstrap servers.
            topic: An existing topic.
            rate_per_s: Most payments a second.
            clock: For the pace.
        """
        self._stream = stream
        self._topic = topic
        self._rate_per_s = rate_per_s
        self._clock = clock
        self._producer = Producer(
            {**client_settings(servers), "enable.idempotence": True, "linger.ms": 20}
        )
        self._allowed = 0
        self._stopping = threading.Event()
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="payments", daemon=True)
        self.sent = 0
        """Payments handed to Kafka's client so far; written by the thread alone."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def allow(self, events: int) -> None:
        """Lets the feed go on up to this number of payments since the start."""
        self._allowed = max(self._allowed, events)

    @property
    def is_complete(self) -> bool:
        """Whether everything is written and acknowledged; raises if a payment was refused."""
        self.check()
        return self.sent == self._stream.events and not self._thread.is_alive()

    def check(self) -> None:
        """Raises `DemoFailedError` if the broker refused a payment."""
        if self._failure is not None:
            raise DemoFailedError(
                f"the broker refused a payment: look at its log topic={self._topic} "
                f"cause={self._failure!r}"
            )

    def stop(self) -> None:
        """Ends the thread; idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_TIMEOUT_S)

    def _run(self) -> None:
        encoder = msgspec.json.Encoder()
        pace_from_s, pace_from = self._clock.monotonic_s(), 0
        while self.sent < self._stream.events and not self._stopping.is_set():
            if self.sent >= self._allowed:
                self._producer.poll(0)
                self._clock.wait(self._stopping, _IDLE_S)
                # Time spent waiting is not made up for by a burst.
                pace_from_s, pace_from = self._clock.monotonic_s(), self.sent
                continue
            payment = self._stream.payment(self.sent)
            self._produce(payment.merchant, encoder.encode(payment))
            self.sent += 1
            if self.sent % _PACE_EVERY == 0:
                due_s = pace_from_s + (self.sent - pace_from) / self._rate_per_s
                self._clock.wait(self._stopping, max(0.0, due_s - self._clock.monotonic_s()))
        if self._producer.flush(_FLUSH_TIMEOUT_S) and not self._stopping.is_set():
            self._failure = f"no acknowledgement within {_FLUSH_TIMEOUT_S:.0f} s"

    def _produce(self, key: str, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, key=key.encode(), value=value, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = str(error)
