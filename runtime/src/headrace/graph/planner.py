"""Turns what a program said (`StreamGraph`) into how it runs (`JobGraph`). Pure; knows no Spark.

Levels: level 0 runs in Spark's source tasks, level k >= 1 in the slots after the k-th exchange. An
operator's level is the greatest number of exchanges on any path to it, so an edge may have to
cross more exchanges than its own partitioning asks for; the levels between relay it. What lives
from epoch to epoch (sinks, functions with operator state or two inputs) lives in a slot: one that
would land in level 0 gets an order-keeping (`Forward`) exchange before it.

Chains: operators of one level that are joined by `Forward` edges run in one thread, object to
object (A11). An edge leaves a chain exactly when its target has a higher level.

Source: Flink's ``StreamingJobGraphGenerator``; chaining is by level instead of by vertex, because
one exchange carries all edges between two levels.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import FromDataFrame
from headrace.graph.job_graph import ExchangeEdge, InputPort, JobGraph, JobLevel, JobOperator
from headrace.graph.stream_graph import Forward, Rebalance
from headrace.graph.uids import assign_uids
from headrace.graph.validation import check_program
from headrace.graph.watermark_placement import place_watermarks
from headrace.ids import EdgeTag, Level

if TYPE_CHECKING:
    from headrace.graph.stream_graph import Partitioning, StreamEdge, StreamGraph
    from headrace.graph.uids import AssignedUid

REBALANCE: Final = Rebalance()
EDGE_TAGS_MAX: Final = 255
"""A tag is one byte, and the last value is kept free (`headrace.ids.EdgeTag`)."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What the planner must know besides the program.

    Attributes:
        name: job name.
        parallelism: slots of every operator.
        max_parallelism: key groups.
        auto_generate_uids: derive uids that are missing, instead of refusing the program.
    """

    name: str
    parallelism: int
    max_parallelism: int
    auto_generate_uids: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned job and what its author should know about it."""

    job_graph: JobGraph
    warnings: tuple[str, ...]


def plan_job(program: StreamGraph, settings: PlanSettings) -> Plan:
    """Plan a program.

    Raises:
        InvalidProgramError: the program cannot run; names the operator.
    """
    check_program(program, settings.parallelism, settings.max_parallelism)
    placed = place_watermarks(program)
    order = topological_order(placed)
    levels = assign_levels(placed, order)
    uids, warnings = assign_uids(placed, order, generate=settings.auto_generate_uids)
    crossings = _plan_crossings(placed, levels, order)
    depth = max(levels.values()) + 1
    graph = JobGraph(
        name=settings.name,
        parallelism=settings.parallelism,
        max_parallelism=settings.max_parallelism,
        levels=tuple(
            JobLevel(
                level=Level(level),
                operators=tuple(
                    _operator(placed, levels, uids, crossings, node_id)
                    for node_id in order
                    if levels[node_id] == level
                ),
                inputs=tuple(crossings.inputs.get(level, ())),
            )
            for level in range(depth)
        ),
    )
    return Plan(graph, tuple(warnings))


def topological_order(program: StreamGraph) -> list[int]:
    """Return all operators, each after its inputs; the order of creation decides ties.

    DataFrames come after all other sources: they may hold several streams, and nobody knows which
    line of Spark's offset log is whose after them.

    Raises:
        InvalidProgramError: the program has a cycle.
    """
    waiting = {node_id: len(program.incoming(node_id)) for node_id in program.nodes}
    beginnings = [node_id for node_id in sorted(waiting) if waiting[node_id] == 0]
    beginnings.sort(key=lambda i: isinstance(program.nodes[i].function, FromDataFrame))
    ready = deque(beginnings)
    order: list[int] = []
    while ready:
        node_id = ready.popleft()
        order.append(node_id)
        for edge in program.outgoing(node_id):
            waiting[edge.target] -= 1
            if waiting[edge.target] == 0:
                ready.append(edge.target)
    if len(order) != len(program.nodes):
        names = sorted(program.nodes[i].name for i in program.nodes if i not in order)
        msg = f"operators form a cycle, which no stream can; operators={names}"
        raise InvalidProgramError(msg)
    return order


def assign_levels(program: StreamGraph, order: list[int]) -> dict[int, int]:
    """Return the level of every operator."""
    levels: dict[int, int] = {}
    for node_id in order:
        reached = [levels[e.source] + _exchanges(program, e) for e in program.incoming(node_id)]
        level = max(reached, default=0)
        if program.nodes[node_id].needs_slot:
            level = max(level, 1)
        levels[node_id] = level
    return levels


def _exchanges(program: StreamGraph, edge: StreamEdge) -> int:
    return 0 if isinstance(_partitioning(program, edge), Forward) else 1


def _partitioning(program: StreamGraph, edge: StreamEdge) -> Partitioning:
    """Return how an edge is partitioned; as in Flink, other parallelism cannot be forward.

    What counts is what the program says, not what it comes to at today's parallelism of the job:
    a live rescale changes that, and not the plan.
    """
    same = program.nodes[edge.source].slots == program.nodes[edge.target].slots
    if isinstance(edge.partitioning, Forward) and not same:
        return REBALANCE
    return edge.partitioning


@dataclass(frozen=True, slots=True)
class _Crossings:
    """Edges that leave their level.

    Attributes:
        inputs: level -> the edges of the exchange into it, in order of their tags.
        exits: operator -> tags in the exchange after its level.
    """

    inputs: dict[int, list[ExchangeEdge]]
    exits: dict[int, list[EdgeTag]]


def _plan_crossings(program: StreamGraph, levels: dict[int, int], order: list[int]) -> _Crossings:
    """Give rows that cross an exchange a tag in each exchange on their way, targets first in order.

    Edges of one operator with the same partitioning are one stream of rows: it goes as far as the
    farthest target, and the others take it on its way.
    """
    place = {node_id: index for index, node_id in enumerate(order)}
    crossing = [e for e in program.edges if levels[e.target] > levels[e.source]]
    crossing.sort(key=lambda e: (place[e.target], place[e.source]))
    result = _Crossings({}, {})
    for source, partitioning, slots, targets in _bundled(program, crossing):
        first, last = levels[source] + 1, max(levels[port.operator] for port in targets)
        tags = [EdgeTag(len(result.inputs.get(level, ()))) for level in range(first, last + 1)]
        for hop, level in enumerate(range(first, last + 1)):
            result.inputs.setdefault(level, []).append(
                ExchangeEdge(
                    tag=tags[hop],
                    partitioning=partitioning,
                    value_serializer=program.nodes[source].output_serializer,
                    targets=tuple(port for port in targets if levels[port.operator] == level),
                    relay_to=None if level == last else tags[hop + 1],
                    parallelism=slots,
                )
            )
        result.exits.setdefault(source, []).append(tags[0])
    for level, inputs in result.inputs.items():
        if len(inputs) > EDGE_TAGS_MAX:
            msg = (
                "too many streams cross one exchange, split the program; "
                f"level={level} edges={len(inputs)} max={EDGE_TAGS_MAX}"
            )
            raise InvalidProgramError(msg)
    return result


def _bundled(
    program: StreamGraph, edges: list[StreamEdge]
) -> list[tuple[int, Partitioning, int | None, list[InputPort]]]:
    """Return (source, partitioning, parallelism, targets) for edges with the same rows and slots.

    ``key_by`` called twice is two partitionings unless selector and type are the very same objects.
    """
    bundles: list[tuple[int, Partitioning, int | None, list[InputPort]]] = []
    for edge in edges:
        port = InputPort(edge.target, edge.input)
        wanted = (edge.source, _partitioning(program, edge), program.nodes[edge.target].slots)
        for source, partitioning, slots, targets in bundles:
            if (source, partitioning, slots) == wanted:
                targets.append(port)
                break
        else:
            bundles.append((*wanted, [port]))
    return bundles


def _operator(
    program: StreamGraph,
    levels: dict[int, int],
    uids: dict[int, AssignedUid],
    crossings: _Crossings,
    node_id: int,
) -> JobOperator:
    node = program.nodes[node_id]
    uid = uids[node_id]
    return JobOperator(
        id=node_id,
        uid=uid.uid,
        uid_is_generated=uid.is_generated,
        name=node.name,
        kind=node.kind,
        function=node.function,
        output_serializer=node.output_serializer,
        watermarks=node.watermarks,
        key_serializer=program.key_serializer(node_id),
        chained=tuple(
            InputPort(edge.target, edge.input)
            for edge in program.outgoing(node_id)
            if levels[edge.target] == levels[node_id]
        ),
        exits=tuple(crossings.exits.get(node_id, ())),
        broadcast_states=node.broadcast_states,
        parallelism=node.slots,
    )
