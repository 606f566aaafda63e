"""Small stream graphs for planner tests, built without the job API."""

from __future__ import annotations

from headrace.common.typeinfo import Types
from headrace.graph.endpoints import NumberSequence, PrintSink
from headrace.graph.job_graph import InputPort
from headrace.graph.planner import PlanSettings, plan_job
from headrace.graph.stream_graph import (
    Forward,
    HashByKey,
    OperatorKind,
    Rebalance,
    StreamEdge,
    StreamGraph,
    StreamNode,
)

FORWARD = Forward()
REBALANCE = Rebalance()


def by_key(key_type=None):
    return HashByKey(lambda value: value, (key_type or Types.LONG()).key_serializer())


class GraphBuilder:
    """Adds nodes by kind; ids count from 1."""

    def __init__(self):
        self.graph = StreamGraph()

    def add(self, kind, *inputs, function=None, **fields):
        """Add a node; each input is a node id (forward) or (node id, partitioning)."""
        node = StreamNode(
            id=len(self.graph.nodes) + 1,
            kind=kind,
            name=fields.pop("name", f"{kind.value}-{len(self.graph.nodes) + 1}"),
            function=function,
            output_serializer=Types.LONG().value_serializer(),
            **fields,
        )
        self.graph.nodes[node.id] = node
        for upstream in inputs:
            source, partitioning = upstream if isinstance(upstream, tuple) else (upstream, FORWARD)
            self.graph.edges.append(StreamEdge(source, node.id, partitioning))
        return node.id

    def source(self, **fields):
        return self.add(OperatorKind.SOURCE, **{"function": NumberSequence(1, 3), **fields})

    def map(self, *inputs, **fields):
        return self.add(OperatorKind.MAP, *inputs, **fields)

    def keyed(self, *inputs, partitioning=None, **fields):
        edges = [(i, partitioning or by_key()) for i in inputs]
        return self.add(OperatorKind.KEYED_PROCESS, *edges, **fields)

    def sink(self, *inputs, **fields):
        return self.add(OperatorKind.SINK, *inputs, function=PrintSink(), **fields)

    def plan(self, parallelism=2, max_parallelism=128, **settings):
        return plan_job(self.graph, PlanSettings("test", parallelism, max_parallelism, **settings))


def level_of(plan):
    """Return operator id -> level."""
    return {
        operator.id: int(level.level)
        for level in plan.job_graph.levels
        for operator in level.operators
    }


def ports(*operator_ids):
    """Return the first inputs of operators."""
    return tuple(InputPort(operator_id) for operator_id in operator_ids)


def operator_of(plan, operator_id):
    return next(o for o in plan.job_graph.operators() if o.id == operator_id)


def arrivals(job_graph, operator):
    """Follow every exit tag of an operator through the exchanges: [(target, exchanges), ...]."""
    start = next(int(level.level) for level in job_graph.levels if operator in level.operators)
    found = []
    for exit_tag in operator.exits:
        level, tag, hops = start + 1, exit_tag, 1
        while True:
            edge = job_graph.levels[level].inputs[tag]
            found += [(port.operator, hops) for port in edge.targets]
            if edge.relay_to is None:
                break
            level, tag, hops = level + 1, edge.relay_to, hops + 1
    return found
