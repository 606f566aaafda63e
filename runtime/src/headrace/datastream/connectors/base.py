"""What a program names as source or sink, as ``pyflink.datastream.connectors.base``.

A connector's builder makes a `Source` or `Sink`; its ``description`` is plain data that stands in
the graph and that engine and slots understand.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from headrace.common.typeinfo import Types
from headrace.connectors.sink import DeliveryGuarantee

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

__all__ = ["DeliveryGuarantee", "Sink", "Source"]


class Source(abc.ABC):
    """Something that records come from."""

    @abc.abstractmethod
    def description(self) -> object:
        """Return the source as a frozen dataclass.

        Raises:
            InvalidConfigError: a required setting is missing.
        """

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class Sink(abc.ABC):
    """Something that records go to."""

    @abc.abstractmethod
    def description(self) -> object:
        """Return the sink as a frozen dataclass.

        Raises:
            InvalidConfigError: a required setting is missing.
        """
