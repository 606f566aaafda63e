"""The consumer: reads the output with ``read_committed`` while the job runs, from the beginning.

It is no part of the product on purpose: what it sees is what any consumer of the topic sees. One
thread; nothing is committed, no group is joined.
"""

from __future__ import annotations

import threading
from collections import Counter

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace_demo.broker import TIMEOUT_S, client_settings
from headrace_demo.errors import DemoFailedError
from headrace_demo.oracle import MerchantTotals


class OutputReader:
    """Reads a topic of `MerchantTotals` in the background."""

    def __init__(self, servers: str, topic: str) -> None:
        """Prepares the reader of an existing topic."""
        self._consumer = Consumer(
            {
                **client_settings(servers),
                "group.id": "headrace-demo",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._topic = topic
        self._records: Counter[MerchantTotals] = Counter()
        self._at_end: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self.count = 0
        """Records read so far, copies included; written by the thread alone."""

    def start(self) -> None:
        """Finds the partitions and starts the thread.

        Raises:
            DemoFailedError: The topic does not exist.
        """
        metadata = self._consumer.list_topics(self._topic, TIMEOUT_S).topics[self._topic]
        if metadata.error is not None:
            raise DemoFailedError(
                f"the output cannot be read topic={self._topic} cause={metadata.error}"
            )
        self._at_end = dict.fromkeys(metadata.partitions, False)
        self._consumer.assign([TopicPartition(self._topic, p, 0) for p in metadata.partitions])
        self._thread.start()

    def records(self) -> Counter[MerchantTotals]:
        """Returns a copy of what was read; raises `DemoFailedError` if reading failed."""
        self.check()
        with self._lock:
            return self._records.copy()

    @property
    def is_at_end(self) -> bool:
        """Whether everything visible now was read, in every partition."""
        self.check()
        with self._lock:
            return all(self._at_end.values())

    def check(self) -> None:
        """Raises `DemoFailedError` if reading failed."""
        if self._failure is not None:
            raise DemoFailedError(
                f"the output cannot be read topic={self._topic} cause={self._failure!r}"
            )

    def stop(self) -> None:
        """Ends the thread; idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        decoder = msgspec.json.Decoder(MerchantTotals)
        try:
            while not self._stopping.is_set():
                self._take(decoder)
        except (KafkaException, msgspec.MsgspecError) as error:
            self._failure = str(error)
        finally:
            self._consumer.close()

    def _take(self, decoder: msgspec.json.Decoder[MerchantTotals]) -> None:
        for message in self._consumer.consume(1000, 0.2):
            error, partition = message.error(), message.partition()
            if partition is None:
                raise KafkaException(error)
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
                    raise KafkaException(error)
                with self._lock:
                    self._at_end[partition] = True
                continue
            record = decoder.decode(message.value() or b"")
            with self._lock:
                self._at_end[partition] = False
                self._records[record] += 1
            self.count += 1
