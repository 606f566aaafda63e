"""A sequence of whole numbers, as ``pyflink.datastream.connectors.number_seq``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.typeinfo import Types
from headrace.datastream.connectors.base import Source
from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import NumberSequence

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


class NumberSequenceSource(Source):
    """The whole numbers ``start..end``, both inclusive; bounded."""

    def __init__(self, start: int, end: int) -> None:
        if end < start:
            msg = f"a number sequence must not end before it starts; start={start} end={end}"
            raise InvalidProgramError(msg)
        self._start = start
        self._end = end

    def description(self) -> NumberSequence:
        """Return the source as data."""
        return NumberSequence(self._start, self._end)

    def get_produced_type(self) -> TypeInformation:
        """Return LONG."""
        return Types.LONG()
