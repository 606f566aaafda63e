"""The physical shape of a job: levels of chained operators with one exchange between two levels.

Level 0 runs in Spark's own Python tasks (sources and what is chained to them); level k >= 1 runs
in the slots. Between level k-1 and level k there is exactly one exchange, which carries every edge
that crosses the border, told apart by tag (docs/adr/0001: the physical plan is a line). An edge
that skips a level is relayed by the slots of the levels between: its rows are in the right slot
after its first exchange, and every later one keeps them there.

Source: Flink's ``StreamingJobGraphGenerator`` (chaining) and ``ExecutionJobVertex``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.graph.stream_graph import (
    BroadcastState,
    OperatorKind,
    Partitioning,
    WatermarkSpec,
)
from headrace.ids import EdgeTag, Level, OperatorUid
from headrace.serialization.serializer import KeySerializer, TypeSerializer


class InputPort(NamedTuple):
    """One input of one operator; operators with a single input have port 0."""

    operator: int
    input: int = 0


@dataclass(frozen=True, slots=True)
class JobOperator:
    """One operator with its identity for ever and its place.

    Attributes:
        id: node id of the stream graph.
        uid: the user's uid or one derived from the structure.
        uid_is_generated: whether ``uid`` was derived (unsafe for upgrades, E7).
        key_serializer: for keyed operators, the type of the key.
        chained: inputs of operators in the same level that get its output by function call.
        exits: tags of the edges of the next exchange that get its output.
        broadcast_states: see `StreamNode`.
        parallelism: how many slots it runs in at most, the first ones; None for all.
    """

    id: int
    uid: OperatorUid
    uid_is_generated: bool
    name: str
    kind: OperatorKind
    function: object
    output_serializer: TypeSerializer[object]
    watermarks: WatermarkSpec
    key_serializer: KeySerializer[object] | None
    chained: tuple[InputPort, ...]
    exits: tuple[EdgeTag, ...]
    broadcast_states: tuple[BroadcastState, ...] = ()
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class ExchangeEdge:
    """Rows of one operator, partitioned in one way, as they cross the exchange into a level.

    However many operators take them, they cross it once.

    Attributes:
        tag: place among the edges of this exchange.
        partitioning: `HashByKey`, `Rebalance`, or `Forward` for rows that need no particular slot
            but must keep their order: all rows of one sender go to one slot, those of a slot to
            itself.
        value_serializer: type of the values.
        targets: inputs of operators of this level that get the values, in topological order; empty
            when the level only relays.
        relay_to: tag in the next exchange, when operators of later levels get them too.
        parallelism: of the targets, as theirs.
    """

    tag: EdgeTag
    partitioning: Partitioning
    value_serializer: TypeSerializer[object]
    targets: tuple[InputPort, ...]
    relay_to: EdgeTag | None
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class JobLevel:
    """Operators of one level, in topological order, and the edges that enter it."""

    level: Level
    operators: tuple[JobOperator, ...]
    inputs: tuple[ExchangeEdge, ...]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A planned job. ``levels[0]`` holds the sources and has no inputs.

    Attributes:
        name: job name.
        parallelism: number of slots.
        max_parallelism: number of key groups, fixed for the life of the job.
        levels: level 0 .. n.
    """

    name: str
    parallelism: int
    max_parallelism: int
    levels: tuple[JobLevel, ...]

    def operators(self) -> list[JobOperator]:
        """All operators, level by level."""
        return [operator for level in self.levels for operator in level.operators]

    def parallelism_of(self, part: JobOperator | ExchangeEdge) -> int:
        """Return in how many slots, the first ones, an operator runs or an edge ends."""
        return min(part.parallelism or self.parallelism, self.parallelism)

    def own_parallelism(self, operator: JobOperator) -> int:
        """Return in how many slots an operator runs that does not run in all, 0 for others."""
        parallelism = self.parallelism_of(operator)
        return parallelism if parallelism < self.parallelism else 0

    def operators_in(self, slot: int) -> list[JobOperator]:
        """All operators of a slot; those of level 0 count as in all slots."""
        return [operator for operator in self.operators() if slot < self.parallelism_of(operator)]

    def without_sources(self) -> JobGraph:
        """Return the same graph as far as state is concerned, without descriptions of sources.

        A description may hold what never leaves the driver, such as a DataFrame.
        """
        first = self.levels[0]
        stripped = tuple(
            replace(operator, function=None) if operator.kind is OperatorKind.SOURCE else operator
            for operator in first.operators
        )
        return replace(self, levels=(replace(first, operators=stripped), *self.levels[1:]))

    def sources(self) -> list[JobOperator]:
        """The sources."""
        return [o for o in self.levels[0].operators if o.kind is OperatorKind.SOURCE]
