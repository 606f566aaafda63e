"""A plan as JSON for people and golden tests: operators as Flink lists them, levels (A10)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.graph.stream_graph import Broadcast, Forward, HashByKey, Rebalance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.graph.job_graph import JobGraph, JobLevel
    from headrace.graph.planner import Plan
    from headrace.graph.stream_graph import Partitioning, StreamGraph

_SHIP_STRATEGIES: Final[dict[type, str]] = {
    Forward: "FORWARD",
    Rebalance: "REBALANCE",
    Broadcast: "BROADCAST",
    HashByKey: "HASH",
}
"""Names of partitionings in Flink's plans."""


def plan_as_json(program: StreamGraph, plan: Plan) -> str:
    """Return program and plan as indented JSON; the same program gives the same text."""
    job_graph = plan.job_graph
    view = {
        **_head(job_graph),
        "nodes": _nodes(program, job_graph.parallelism),
        "levels": [_level(level) for level in job_graph.levels],
        "warnings": list(plan.warnings),
    }
    return json.dumps(view, indent=2)


def job_graph_as_json(
    job_graph: JobGraph, options: Mapping[str, str], warnings: Sequence[str]
) -> str:
    """Return a planned job with its options as indented JSON."""
    view = {
        **_head(job_graph),
        "options": dict(options),
        "levels": [_level(level) for level in job_graph.levels],
        "warnings": list(warnings),
    }
    return json.dumps(view, indent=2)


def _head(job_graph: JobGraph) -> dict[str, object]:
    return {
        "name": job_graph.name,
        "parallelism": job_graph.parallelism,
        "maxParallelism": job_graph.max_parallelism,
    }


def describe_partitioning(partitioning: Partitioning) -> str:
    """Return Flink's name of a partitioning, with the field when it is known."""
    name = _SHIP_STRATEGIES[type(partitioning)]
    if isinstance(partitioning, HashByKey) and partitioning.field_name is not None:
        return f"{name}({partitioning.field_name})"
    return name


def _nodes(program: StreamGraph, parallelism: int) -> list[dict[str, object]]:
    return [
        {
            "id": node.id,
            "type": node.name,
            "pact": node.kind.value,
            "parallelism": node.parallelism or parallelism,
            "predecessors": [
                {"id": edge.source, "ship_strategy": describe_partitioning(edge.partitioning)}
                for edge in program.incoming(node.id)
            ],
        }
        for node in program.nodes.values()
    ]


def _level(level: JobLevel) -> dict[str, object]:
    return {
        "level": level.level,
        "inputs": [
            {
                "tag": edge.tag,
                "partitioning": describe_partitioning(edge.partitioning),
                "targets": [port.operator for port in edge.targets],
                "relayTo": edge.relay_to,
            }
            for edge in level.inputs
        ],
        "operators": [
            {
                "id": operator.id,
                "uid": operator.uid,
                "uidIsGenerated": operator.uid_is_generated,
                "name": operator.name,
                "kind": operator.kind.value,
                "chained": [port.operator for port in operator.chained],
                "exits": list(operator.exits),
            }
            for operator in level.operators
        ],
    }
