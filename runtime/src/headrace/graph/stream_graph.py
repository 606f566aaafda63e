"""The logical graph that the job API builds: what the program said, before any planning (A10).

Nodes are operators, edges carry a partitioning. Nothing here knows Spark. `headrace.graph.planner`
turns it into levels and chains.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.graph.endpoints import CollectSink, PrintSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.serializer import KeySerializer, TypeSerializer

LOCAL_SINKS: Final = (PrintSink, CollectSink)
"""Sinks that keep nothing in checkpoints."""


class OperatorKind(enum.Enum):
    """What an operator does with a record; the slot has one runner for each."""

    SOURCE = "source"
    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"
    PROCESS = "process"
    TIMESTAMPS = "timestamps"
    KEYED_PROCESS = "keyed_process"
    KEYED_REDUCE = "keyed_reduce"
    CO_PROCESS = "co_process"
    KEYED_CO_PROCESS = "keyed_co_process"
    BROADCAST_PROCESS = "broadcast_process"
    KEYED_BROADCAST_PROCESS = "keyed_broadcast_process"
    SINK = "sink"

    @property
    def is_keyed(self) -> bool:
        """Whether the operator owns keyed state and so needs a hash exchange before it."""
        return self in _KEYED

    @property
    def takes_broadcast(self) -> bool:
        """Whether the second input is a broadcast stream, which the state of all slots follows."""
        return self in {OperatorKind.BROADCAST_PROCESS, OperatorKind.KEYED_BROADCAST_PROCESS}

    @property
    def inputs(self) -> int:
        """Number of inputs that the function tells apart."""
        return 2 if self in _TWO_INPUTS else 1


_KEYED: Final = frozenset(
    {
        OperatorKind.KEYED_PROCESS,
        OperatorKind.KEYED_REDUCE,
        OperatorKind.KEYED_CO_PROCESS,
        OperatorKind.KEYED_BROADCAST_PROCESS,
    }
)
_TWO_INPUTS: Final = frozenset(
    {
        OperatorKind.CO_PROCESS,
        OperatorKind.KEYED_CO_PROCESS,
        OperatorKind.BROADCAST_PROCESS,
        OperatorKind.KEYED_BROADCAST_PROCESS,
    }
)


@dataclass(frozen=True, slots=True)
class Forward:
    """Records stay where they are: the two operators may be chained."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Records are spread over the slots, whole batches at a time, in no particular place."""


@dataclass(frozen=True, slots=True)
class HashByKey:
    """Records go to the slot that owns their key's group.

    Attributes:
        selector: value -> key.
        serializer: canonical serializer of the key.
        field_name: the value's field when the selector is exactly that field, found by tracing;
            lets the key hash be computed in the JVM.
    """

    selector: Callable[[object], object]
    serializer: KeySerializer[object]
    field_name: str | None = None


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every slot gets every record, all in the same order within an epoch (B19, T28)."""


Partitioning = Forward | Rebalance | HashByKey | Broadcast


@dataclass(frozen=True, slots=True)
class BroadcastState:
    """A map that every slot holds alike; only the broadcast input changes it.

    Attributes:
        name: of its descriptor.
        key, value: types of the entries.
    """

    name: str
    key: KeySerializer[object]
    value: TypeSerializer[object]


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """Event-time strategy of a source or of an assigner in the middle of the graph (B5).

    Attributes:
        kind: ``none`` | ``bounded`` (out of orderness) | ``monotonous``.
        out_of_orderness_ms: delay of the watermark behind the greatest timestamp, >= 0.
        idleness_ms: a split without records for this long leaves the minimum, None = never.
        timestamp_assigner: (value, record timestamp in ms or a negative number) -> timestamp in
            ms; None keeps the record's own.
        assigned_by: on a source, the `OperatorKind.TIMESTAMPS` operator in its chain that sets the
            timestamps of its records and reports the greatest; None when the source does.
    """

    kind: str = "none"
    out_of_orderness_ms: int = 0
    idleness_ms: int | None = None
    timestamp_assigner: Callable[[object, int], int] | None = None
    assigned_by: int | None = None

    @property
    def is_event_time(self) -> bool:
        """Whether there are watermarks at all."""
        return self.kind != "none"


NO_WATERMARKS: Final = WatermarkSpec()


@dataclass(slots=True)
class StreamNode:
    """One operator of the program.

    Attributes:
        id: unique, increasing in the order of creation.
        kind: see `OperatorKind`.
        name: shown to people.
        uid: the user's ``uid``, None when not set.
        function: the user's function object (a source or sink description for those kinds).
        parallelism: None = the job's, and whatever that becomes.
        max_parallelism: None = the job's.
        output_serializer: type of what it emits.
        watermarks: strategy, for sources and for `OperatorKind.TIMESTAMPS`.
        broadcast_states: what a broadcast function keeps, of kinds that take a broadcast stream.
        keeps_operator_state: the function has the hooks for state of its own (B18).
    """

    id: int
    kind: OperatorKind
    name: str
    function: object
    output_serializer: TypeSerializer[object]
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    watermarks: WatermarkSpec = NO_WATERMARKS
    broadcast_states: tuple[BroadcastState, ...] = ()
    keeps_operator_state: bool = False

    @property
    def is_stateful(self) -> bool:
        """Whether checkpoints keep something under the operator's uid."""
        return (
            self.kind.is_keyed
            or self.keeps_operator_state
            or bool(self.broadcast_states)
            or (self.kind is OperatorKind.SINK and not isinstance(self.function, LOCAL_SINKS))
        )

    @property
    def needs_slot(self) -> bool:
        """Whether the operator lives from epoch to epoch, which tasks of sources do not."""
        return (
            self.kind is OperatorKind.SINK
            or self.keeps_operator_state
            or self.kind.inputs > 1
            or self.slots is not None
        )

    @property
    def slots(self) -> int | None:
        """How many slots it wants, None for all; what belongs to sources wants none."""
        at_source = self.kind in {OperatorKind.SOURCE, OperatorKind.TIMESTAMPS}
        return None if at_source else self.parallelism


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """Records of ``source`` go to input ``input`` of ``target``."""

    source: int
    target: int
    partitioning: Partitioning
    input: int = 0


@dataclass(slots=True)
class StreamGraph:
    """All operators and edges of one program."""

    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)

    def key_serializer(self, node_id: int) -> KeySerializer[object] | None:
        """Return the key type of a keyed operator, None for others."""
        if not self.nodes[node_id].kind.is_keyed:
            return None
        for edge in self.incoming(node_id):
            if isinstance(edge.partitioning, HashByKey):
                return edge.partitioning.serializer
        return None

    def outgoing(self, node_id: int) -> list[StreamEdge]:
        """Edges that leave ``node_id``, in the order in which they were made."""
        return [edge for edge in self.edges if edge.source == node_id]

    def incoming(self, node_id: int) -> list[StreamEdge]:
        """Edges that enter ``node_id``, in the order in which they were made."""
        return [edge for edge in self.edges if edge.target == node_id]
