"""Where event time begins: brings ``assign_timestamps_and_watermarks`` to the sources (B5, G6).

Watermarks follow the splits of sources, so an assigner may stand anywhere in level 0, that is,
before the first exchange. Directly after its source, it becomes part of it. After other operators
it stays, as an operator that sets timestamps, and the source carries the rest of its strategy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import InvalidProgramError
from headrace.graph.stream_graph import Forward, OperatorKind, StreamGraph

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamNode


def place_watermarks(program: StreamGraph) -> StreamGraph:
    """Return the program with the strategy of every assigner at its source.

    Raises:
        InvalidProgramError: an assigner stands after an exchange, or a source has two of them.
    """
    result = StreamGraph(
        {node_id: replace(node) for node_id, node in program.nodes.items()}, list(program.edges)
    )
    owners: dict[int, StreamNode] = {}
    for node in list(program.nodes.values()):
        if node.kind is not OperatorKind.TIMESTAMPS:
            continue
        source = _source_of(program, node)
        if source.id in owners:
            msg = (
                "a source can have one assigner of timestamps, assign them before the stream "
                f"branches; source={source.name!r} "
                f"operators={owners[source.id].name!r},{node.name!r}"
            )
            raise InvalidProgramError(msg)
        owners[source.id] = node
        if _is_right_after(program, node, source):
            result.nodes[source.id].watermarks = node.watermarks
            _remove(result, node, source)
        else:
            result.nodes[source.id].watermarks = replace(
                node.watermarks, timestamp_assigner=None, assigned_by=node.id
            )
    return result


def _source_of(program: StreamGraph, assigner: StreamNode) -> StreamNode:
    node = assigner
    while node.kind is not OperatorKind.SOURCE:
        incoming = program.incoming(node.id)
        is_forward = len(incoming) == 1 and isinstance(incoming[0].partitioning, Forward)
        if not is_forward or node.needs_slot:
            msg = (
                "timestamps must be assigned before key_by, rebalance, union, connect and "
                f"functions with operator state, next to the source; operator={assigner.name!r}"
            )
            raise InvalidProgramError(msg)
        node = program.nodes[incoming[0].source]
    return node


def _is_right_after(program: StreamGraph, assigner: StreamNode, source: StreamNode) -> bool:
    outgoing = program.outgoing(source.id)
    return len(outgoing) == 1 and outgoing[0].target == assigner.id


def _remove(result: StreamGraph, assigner: StreamNode, source: StreamNode) -> None:
    result.edges[:] = [
        replace(edge, source=source.id) if edge.source == assigner.id else edge
        for edge in result.edges
        if edge.target != assigner.id
    ]
    del result.nodes[assigner.id]
