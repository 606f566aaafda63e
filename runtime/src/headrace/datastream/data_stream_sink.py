"""The end of a stream, as ``pyflink.datastream.data_stream.DataStreamSink``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamNode


class DataStreamSink:
    """A sink operator of the program."""

    def __init__(self, node: StreamNode) -> None:
        """Made by ``sink_to`` and ``print``."""
        self._node = node

    def name(self, name: str) -> DataStreamSink:
        """Name the sink; names are for people and change nothing."""
        self._node.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink the identity under which checkpoints keep its pending output."""
        self._node.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Let the sink run in so many slots, the first ones, instead of all."""
        self._node.parallelism = parallelism
        return self
