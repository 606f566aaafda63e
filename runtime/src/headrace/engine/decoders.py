# ruff: noqa: ARG002 - a decoder uses of a batch what its source has
"""Decoders: Spark rows of each kind of source -> records, inside Spark's Python tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa

from headrace.serialization.row import row_class
from headrace.slot.columns import column_values

if TYPE_CHECKING:
    from collections.abc import Sequence


class Deserializer(Protocol):
    """A value-only deserialization schema."""

    def deserialize(self, message: bytes) -> object:
        """Return the value of one message."""
        ...


@dataclass(frozen=True)
class SequenceDecoder:
    """Records of a bounded sequence driven by Spark's ``rate-micro-batch`` source.

    Attributes:
        first: the number that index 0 means, when there are no items.
        items: the elements, None for the numbers from ``first`` on.
    """

    first: int
    items: Sequence[object] | None

    none_is_skipped: ClassVar[bool] = False

    def values(self, batch: pa.RecordBatch) -> list[object]:
        """Return the elements whose index the batch holds."""
        indexes = batch.column(0).to_numpy().tolist()
        if self.items is None:
            return [self.first + i for i in indexes]
        return [self.items[i] for i in indexes]

    def timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        """Elements have no timestamps of their own."""
        return None

    def split(self, batch: pa.RecordBatch) -> str:
        """Return the only split."""
        return "0"


@dataclass(frozen=True)
class KafkaDecoder:
    """Records of Spark's Kafka source: columns value, topic, partition, timestamp (ms)."""

    schema: Deserializer

    none_is_skipped: ClassVar[bool] = True

    def values(self, batch: pa.RecordBatch) -> list[object]:
        """Return the deserialized values."""
        deserialize = self.schema.deserialize
        return [deserialize(message) for message in batch.column("value").to_pylist()]

    def timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        """Return the broker's timestamps in ms."""
        return batch.column("timestamp").to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]

    def split(self, batch: pa.RecordBatch) -> str:
        """Return ``topic-partition``."""
        return f"{batch.column('topic')[0].as_py()}-{batch.column('partition')[0].as_py()}"


@dataclass(frozen=True)
class LineDecoder:
    """Records of Spark's text source: column value, the line as UTF-8 bytes without its end."""

    schema: Deserializer

    none_is_skipped: ClassVar[bool] = True

    def values(self, batch: pa.RecordBatch) -> list[object]:
        """Return the deserialized lines."""
        deserialize = self.schema.deserialize
        return [deserialize(line) for line in batch.column("value").to_pylist()]

    def timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        """Lines have no timestamps of their own; assign them."""
        return None

    def split(self, batch: pa.RecordBatch) -> str:
        """Return the only split: files come and go."""
        return "0"


@dataclass(frozen=True)
class FrameDecoder:
    """Records of a DataFrame: one `Row` a row, or the bare value when there is one column."""

    single: bool

    none_is_skipped: ClassVar[bool] = False

    def values(self, batch: pa.RecordBatch) -> list[object]:
        """Return one `Row` a row."""
        columns = [column_values(column) for column in batch.columns]
        if self.single:
            return columns[0]
        make = row_class(tuple(batch.schema.names))
        return list(map(make, zip(*columns, strict=True)))

    def timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        """Rows of a DataFrame have no timestamps of their own; assign them."""
        return None

    def split(self, batch: pa.RecordBatch) -> str:
        """Return the only split: Spark does not say which one a task reads."""
        return "0"
