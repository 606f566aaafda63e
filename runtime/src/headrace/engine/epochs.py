"""One epoch as one Spark action: the exchanges and pumps of every level, in a line.

Source: Spark's ``foreachBatch``; docs/adr/0001 for the shape of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.engine.exchange import EXCHANGE_SCHEMA, SlotExchange
from headrace.engine.pump import Pump, SlotStarter, decode_result
from headrace.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.ids import Epoch, Generation, JobId
    from headrace.slot.messages import EpochResult


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """What is the same in every epoch of a generation.

    Attributes:
        levels: number of slot levels (>= 1).
        slots: for each slot (TCP address, abstract Unix name).
    """

    job_id: JobId
    generation: Generation
    levels: int
    slots: tuple[tuple[str, str], ...]


class EpochRunner:
    """Runs epochs of one generation."""

    def __init__(self, exchange: SlotExchange, plan: EpochPlan) -> None:
        self._exchange = exchange
        self._plan = plan
        self._representatives = tuple(exchange.representatives)

    def run(
        self,
        rows: DataFrame,
        epoch: Epoch,
        processing_time_ms: int,
        *,
        ended_sources: frozenset[int],
        final: bool = False,
    ) -> list[EpochResult]:
        """Run one epoch to its end.

        Args:
            rows: (slot, chunk) rows of level 0.
            epoch: its number.
            processing_time_ms: processing time of the whole epoch.
            ended_sources: sources that have been read to their end with this epoch.
            final: input is over for good: event time moves to its end.

        Returns:
            one result for each slot, in slot order.
        """
        plan = self._plan
        for level in range(1, plan.levels + 1):
            pump = Pump(
                job_id=plan.job_id,
                generation=plan.generation,
                epoch=epoch,
                level=level,
                processing_time_ms=processing_time_ms,
                final=final,
                ended_sources=tuple(sorted(ended_sources)),
                slots=plan.slots,
                representatives=self._representatives,
                last=level == plan.levels,
            )
            rows = self._exchange.route(rows).mapInArrow(pump, EXCHANGE_SCHEMA)
        collected = rows.collect()
        by_slot = {value: slot for slot, value in enumerate(self._representatives)}
        results: dict[int, EpochResult] = {}
        for row in collected:
            result = decode_result(bytes(row["chunk"]))
            if result is None:
                msg = f"rows left the last level; epoch={epoch}"
                raise InternalError(msg)
            results[by_slot[row["slot"]]] = result
        if len(results) != len(plan.slots):
            msg = f"not every slot answered; epoch={epoch} slots={sorted(results)}"
            raise InternalError(msg)
        return [results[slot] for slot in range(len(plan.slots))]


def empty_rows(spark: SparkSession) -> DataFrame:
    """Return a batch frame of the exchange's schema without rows, for a final epoch."""
    return spark.createDataFrame([], EXCHANGE_SCHEMA)


def start_slots(exchange: SlotExchange, starter: SlotStarter) -> None:
    """Run the task that starts missing slot processes, one a slot, where its anchor is cached."""
    exchange.anchor.mapInArrow(starter, EXCHANGE_SCHEMA).collect()  # no rows; a count costs a stage
