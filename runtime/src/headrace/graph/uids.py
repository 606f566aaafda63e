"""Operator uids: the user's own, and those derived from the structure of the program (E7).

A generated uid depends on the operator's kind, on the uids of its inputs with their partitioning,
and, among operators that are alike in that, on the order of creation. Names, types and unrelated
parts of the program do not matter, so it survives more edits than Flink's
(``StreamGraphHasherV2``), which counts operators. It still changes when an operator is put before
it: state needs a uid of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from headrace.errors import InvalidProgramError
from headrace.ids import OperatorUid

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamGraph


@dataclass(frozen=True, slots=True)
class AssignedUid:
    """The uid of an operator and where it comes from."""

    uid: OperatorUid
    is_generated: bool


def assign_uids(
    program: StreamGraph, order: list[int], *, generate: bool
) -> tuple[dict[int, AssignedUid], list[str]]:
    """Return the uid of every operator, and warnings about those that should have their own.

    Args:
        program: the program.
        order: its operators in topological order.
        generate: derive missing uids; otherwise they are refused.

    Raises:
        InvalidProgramError: two operators share a uid, or one has none and ``generate`` is off.
    """
    assigned: dict[int, AssignedUid] = {}
    alike: Counter[str] = Counter()
    owners: dict[OperatorUid, str] = {}
    warnings: list[str] = []
    for node_id in order:
        node = program.nodes[node_id]
        if node.uid is not None:
            uid = AssignedUid(OperatorUid(node.uid), is_generated=False)
        elif not generate:
            msg = (
                "operator has no uid and pipeline.auto-generate-uids is false, call uid(...); "
                f"operator={node.name!r}"
            )
            raise InvalidProgramError(msg)
        else:
            signature = _signature(program, assigned, node_id)
            uid = AssignedUid(_derived_uid(signature, alike[signature]), is_generated=True)
            alike[signature] += 1
            if node.is_stateful:
                warnings.append(
                    "stateful operator has a generated uid, its state is lost when the program "
                    f"changes before it, call uid(...); operator={node.name!r} uid={uid.uid}"
                )
        if uid.uid in owners:
            msg = (
                f"two operators have the same uid; uid={uid.uid!r} "
                f"operators={owners[uid.uid]!r},{node.name!r}"
            )
            raise InvalidProgramError(msg)
        owners[uid.uid] = node.name
        assigned[node_id] = uid
    return assigned, warnings


def _signature(program: StreamGraph, assigned: dict[int, AssignedUid], node_id: int) -> str:
    inputs = ",".join(
        f"{type(edge.partitioning).__name__}:{assigned[edge.source].uid}"
        for edge in sorted(program.incoming(node_id), key=lambda edge: edge.input)
    )
    return f"{program.nodes[node_id].kind.value}({inputs})"


def _derived_uid(signature: str, ordinal: int) -> OperatorUid:
    """Return 32 hexadecimal digits, as Flink's operator ids have."""
    return OperatorUid(xxhash.xxh3_128_hexdigest(f"{signature}#{ordinal}".encode()))
