"""The graph of one environment while its program builds it; streams are views on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.datastream.checkpointed_function import checkpointed
from headrace.graph.stream_graph import (
    NO_WATERMARKS,
    BroadcastState,
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
    """Collects the operators of a program.

    As in Flink, ``execute`` runs the operators that were added since the last one, with everything
    that they depend on; a stream may be used again in the next program.
    """

    def __init__(self) -> None:
        self._next_id = 1
        self._nodes: dict[int, StreamNode] = {}
        self._edges: list[StreamEdge] = []
        self._pending: list[int] = []

    def node(self, node_id: int) -> StreamNode:
        """Return an operator, for setting its name, uid or parallelism."""
        return self._nodes[node_id]

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        function: object,
        output_type: TypeInformation,
        *inputs: Iterable[Upstream],
        watermarks: WatermarkSpec = NO_WATERMARKS,
        broadcast_states: tuple[BroadcastState, ...] = (),
    ) -> StreamNode:
        """Add an operator with its incoming edges, input by input, and return it."""
        node = StreamNode(
            id=self._next_id,
            kind=kind,
            name=name,
            function=function,
            output_serializer=output_type.value_serializer(),
            watermarks=watermarks,
            broadcast_states=broadcast_states,
            keeps_operator_state=checkpointed(function) is not None,
        )
        self._next_id += 1
        self._nodes[node.id] = node
        self._edges.extend(
            StreamEdge(upstream.node_id, node.id, upstream.partitioning, index)
            for index, upstreams in enumerate(inputs)
            for upstream in upstreams
        )
        if kind is not OperatorKind.SOURCE:
            self._pending.append(node.id)
        return node

    def pending(self) -> StreamGraph:
        """Return the operators added since the last `take`, with all that they depend on."""
        needed: set[int] = set()
        frontier = list(self._pending)
        while frontier:
            node_id = frontier.pop()
            if node_id not in needed:
                needed.add(node_id)
                frontier += [edge.source for edge in self._edges if edge.target == node_id]
        return StreamGraph(
            {node_id: node for node_id, node in self._nodes.items() if node_id in needed},
            [edge for edge in self._edges if edge.target in needed],
        )

    def take(self) -> StreamGraph:
        """Return what `pending` does and begin anew."""
        program = self.pending()
        self._pending = []
        return program
