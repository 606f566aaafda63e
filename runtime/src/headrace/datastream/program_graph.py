"""The graph of one environment while its program builds it; streams are views on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.graph.stream_graph import (
    NO_WATERMARKS,
    Forward,
    OperatorKind,
    Partitioning,
    StreamEdge,
    StreamGraph,
    StreamNode,
    WatermarkSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.typeinfo import TypeInformation

FORWARD = Forward()


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where records of a stream come from: an operator, and how they are to be partitioned."""

    node_id: int
    partitioning: Partitioning = FORWARD


class ProgramGraph:
    """Collects the operators of a program."""

    def __init__(self) -> None:
        self._next_id = 1
        self.graph = StreamGraph()

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        function: object,
        output_type: TypeInformation,
        inputs: Iterable[Upstream] = (),
        *,
        watermarks: WatermarkSpec = NO_WATERMARKS,
    ) -> StreamNode:
        """Add an operator with its incoming edges and return it."""
        node = StreamNode(
            id=self._next_id,
            kind=kind,
            name=name,
            function=function,
            output_serializer=output_type.value_serializer(),
            watermarks=watermarks,
        )
        self._next_id += 1
        self.graph.nodes[node.id] = node
        self.graph.edges.extend(
            StreamEdge(upstream.node_id, node.id, upstream.partitioning) for upstream in inputs
        )
        return node

    def take(self) -> StreamGraph:
        """Return what was built and begin anew, as ``execute`` does in Flink."""
        built, self.graph = self.graph, StreamGraph()
        return built
