"""What makes a program impossible, found before anything runs; the first finding raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import FromCollection
from headrace.graph.stream_graph import Broadcast, HashByKey, OperatorKind
from headrace.keygroups import check_parallelism

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamGraph, StreamNode


def check_program(program: StreamGraph, parallelism: int, max_parallelism: int) -> None:
    """Check a program against what can be run.

    Raises:
        InvalidProgramError: it cannot; names the operator and what to change.
    """
    try:
        check_parallelism(parallelism, max_parallelism)
    except ValueError as error:
        raise InvalidProgramError(str(error)) from error
    _check_ends(program)
    for node in program.nodes.values():
        _check_place(program, node)
        _check_parallelism(node, parallelism, max_parallelism)
        _check_inputs(program, node)
        if node.kind.is_keyed:
            _check_keys(program, node)


def _check_ends(program: StreamGraph) -> None:
    kinds = {node.kind for node in program.nodes.values()}
    if OperatorKind.SOURCE not in kinds:
        msg = "the program has no source, begin with env.from_source or env.from_collection"
        raise InvalidProgramError(msg)
    if OperatorKind.SINK not in kinds:
        msg = "the program has no sink, end it with sink_to(...) or print()"
        raise InvalidProgramError(msg)


def _check_place(program: StreamGraph, node: StreamNode) -> None:
    has_inputs = bool(program.incoming(node.id))
    if node.kind is OperatorKind.SOURCE and has_inputs:
        msg = f"a source cannot have inputs; operator={node.name!r}"
        raise InvalidProgramError(msg)
    if node.kind is not OperatorKind.SOURCE and not has_inputs:
        msg = f"operator has no input; operator={node.name!r}"
        raise InvalidProgramError(msg)
    if node.kind is OperatorKind.SINK and program.outgoing(node.id):
        msg = f"a sink cannot have outputs; operator={node.name!r}"
        raise InvalidProgramError(msg)


def _check_parallelism(node: StreamNode, parallelism: int, max_parallelism: int) -> None:
    # A collection is read by one task whatever the job's parallelism, as in Flink.
    single = isinstance(node.function, FromCollection) and node.parallelism == 1
    is_source = node.kind is OperatorKind.SOURCE
    if is_source and node.parallelism not in {None, parallelism} and not single:
        msg = (
            "sources are read by as many tasks as they have partitions, remove set_parallelism; "
            f"operator={node.name!r} parallelism={node.parallelism} job={parallelism}"
        )
        raise InvalidProgramError(msg)
    if node.parallelism is not None and node.parallelism < 1:
        msg = (
            f"parallelism must be at least 1; operator={node.name!r} parallelism={node.parallelism}"
        )
        raise InvalidProgramError(msg)
    if node.max_parallelism not in {None, max_parallelism}:
        msg = (
            "operators with a max parallelism of their own are not supported yet, use the job's; "
            f"operator={node.name!r} max_parallelism={node.max_parallelism} job={max_parallelism}"
        )
        raise InvalidProgramError(msg)


def _check_inputs(program: StreamGraph, node: StreamNode) -> None:
    for edge in program.incoming(node.id):
        is_broadcast = isinstance(edge.partitioning, Broadcast)
        if node.kind.takes_broadcast and is_broadcast != (edge.input == 1):
            msg = (
                "one stream of the two must be broadcast and the other not; "
                f"operator={node.name!r} input={edge.input + 1}"
            )
            raise InvalidProgramError(msg)
        if is_broadcast and node.keeps_operator_state and not node.kind.takes_broadcast:
            # Every slot would hold the same, and a rescale deals state out as if it were not so.
            msg = (
                "state of a function on a broadcast stream would multiply when the job is "
                "rescaled, use broadcast(descriptor) and connect; "
                f"operator={node.name!r}"
            )
            raise InvalidProgramError(msg)


def _check_keys(program: StreamGraph, node: StreamNode) -> None:
    snapshots = []
    for edge in program.incoming(node.id):
        if isinstance(edge.partitioning, Broadcast) and node.kind.takes_broadcast:
            continue
        if not isinstance(edge.partitioning, HashByKey):
            msg = (
                "a keyed function needs a keyed stream, call key_by before it; "
                f"operator={node.name!r}"
            )
            raise InvalidProgramError(msg)
        snapshots.append(edge.partitioning.serializer.snapshot())
    if any(snapshot != snapshots[0] for snapshot in snapshots):
        msg = (
            "all inputs of a keyed function need the same key type; "
            f"operator={node.name!r} types={snapshots}"
        )
        raise InvalidProgramError(msg)
