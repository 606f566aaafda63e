"""Descriptions of the built-in sources and sinks: the ``function`` of such operators.

Plain data. The engine turns sources into Spark streams, slots turn sinks into writers; the
descriptions of Kafka and files live with their connectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FromCollection:
    """A bounded source of the elements of a list, in order, as one split.

    Attributes:
        items: the elements, already of the declared type.
    """

    items: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NumberSequence:
    """A bounded source of the whole numbers ``start..end``, both inclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class FromDataFrame:
    """The rows of a streaming DataFrame, each one a `Row`. Never leaves the driver."""

    frame: DataFrame


@dataclass(frozen=True, slots=True)
class PrintSink:
    """Prints every value on the driver's standard output.

    Attributes:
        prefix: shown before every line, None for none.
    """

    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class CollectSink:
    """Sends every value to the program that called ``execute_and_collect``.

    Attributes:
        channel: name of the output channel, unique in the job.
    """

    channel: str
