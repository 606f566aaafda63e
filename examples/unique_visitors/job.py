"""Counts, for every ad, its clicks by country and its different visitors.

Shows four kinds of keyed state: an aggregating state with a HyperLogLog accumulator (different
visitors in 4 KiB, whatever their number, to about 1.6 %), a map state (clicks by country), a
reducing state (the last click's time) and a list state (the last clicks). Visitors who come back
within a day are recognised by a map whose entries expire.

``python job.py`` runs it on this machine over some made-up clicks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import xxhash

from headrace.common import Row, Time, Types
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.functions import AggregateFunction, RuntimeContext
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
)

CLICK = Types.ROW_NAMED(
    ["ad", "user", "country", "at_ms"],
    [Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()],
)
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())

INDEX_BITS = 12
REGISTERS = 1 << INDEX_BITS
RANK_BITS = 64 - INDEX_BITS
ENTRY_BYTES = 3
SPARSE_BYTES_MAX = REGISTERS // 2 // ENTRY_BYTES * ENTRY_BYTES


class HyperLogLog(AggregateFunction):
    """Number of different strings (Flajolet et al. 2007), estimated as by Ertl, 2017.

    The accumulator is immutable bytes: few entries ``<register:u16><rank:u8>``, sorted, until they
    are half as long as all registers; then one byte for each register.
    """

    def create_accumulator(self) -> bytes:
        return b""

    def add(self, value: str, accumulator: bytes) -> bytes:
        hashed = xxhash.xxh64_intdigest(value.encode())
        register = hashed >> RANK_BITS
        rank = RANK_BITS - (hashed & ((1 << RANK_BITS) - 1)).bit_length() + 1
        if len(accumulator) == REGISTERS:
            if accumulator[register] >= rank:
                return accumulator
            return accumulator[:register] + bytes((rank,)) + accumulator[register + 1 :]
        ranks = _sparse(accumulator)
        if ranks.get(register, 0) >= rank:
            return accumulator
        ranks[register] = rank
        return _stored(ranks)

    def get_result(self, accumulator: bytes) -> float:
        counts = [0] * (RANK_BITS + 2)
        for rank in _dense(accumulator):
            counts[rank] += 1
        total = REGISTERS * _tau(1 - counts[RANK_BITS + 1] / REGISTERS)
        for rank in range(RANK_BITS, 0, -1):
            total = (total + counts[rank]) / 2
        total += REGISTERS * _sigma(counts[0] / REGISTERS)
        return REGISTERS * REGISTERS / (2 * math.log(2)) / total

    def merge(self, acc_a: bytes, acc_b: bytes) -> bytes:
        ranks = zip(_dense(acc_a), _dense(acc_b), strict=True)
        merged = {register: max(pair) for register, pair in enumerate(ranks) if any(pair)}
        return _stored(merged)


def _sparse(accumulator: bytes) -> dict[int, int]:
    entries = range(0, len(accumulator), ENTRY_BYTES)
    return {int.from_bytes(accumulator[i : i + 2], "big"): accumulator[i + 2] for i in entries}


def _dense(accumulator: bytes) -> bytes:
    if len(accumulator) == REGISTERS:
        return accumulator
    registers = bytearray(REGISTERS)
    for register, rank in _sparse(accumulator).items():
        registers[register] = rank
    return bytes(registers)


def _stored(ranks: dict[int, int]) -> bytes:
    entries = b"".join(
        register.to_bytes(2, "big") + bytes((ranks[register],)) for register in sorted(ranks)
    )
    return entries if len(entries) <= SPARSE_BYTES_MAX else _dense(entries)


def _sigma(x: float) -> float:
    """Return x + sum of x^(2^k) * 2^(k-1): what empty registers add to the estimate."""
    if x == 1:
        return math.inf
    total, factor = x, 1.0
    while True:
        x *= x
        before = total
        total += x * factor
        factor += factor
        if total == before:
            return total


def _tau(x: float) -> float:
    """Return what registers of the greatest rank add to the estimate."""
    if x in (0, 1):
        return 0.0
    total, factor = 1 - x, 1.0
    while True:
        x = math.sqrt(x)
        before = total
        factor /= 2
        total -= (1 - x) ** 2 * factor
        if total == before:
            return total / 3


class AdStatistics(KeyedProcessFunction):
    """Emits an ad's statistics after the first click of each visitor in a day."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visitors = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("visitors", HyperLogLog(), BYTES)
        )
        self.countries = runtime_context.get_map_state(
            MapStateDescriptor("clicks_by_country", Types.STRING(), Types.LONG())
        )
        self.latest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("latest_ms", max, Types.LONG())
        )
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.STRING()))
        today = MapStateDescriptor("seen_today", Types.STRING(), Types.BOOLEAN())
        today.enable_time_to_live(
            StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_create_and_write().build()
        )
        self.seen_today = runtime_context.get_map_state(today)

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        self.visitors.add(value.user)
        self.countries[value.country] = (self.countries[value.country] or 0) + 1
        self.latest.add(value.at_ms)
        self.recent.add(value.user)
        if value.user in self.seen_today:
            return
        self.seen_today[value.user] = True
        yield Row(
            ad=ctx.get_current_key(),
            visitors=round(self.visitors.get()),
            clicks_by_country=dict(self.countries.items()),
            latest_ms=self.latest.get(),
            recent=list(self.recent)[-3:],
        )


def clicks() -> Iterator[Row]:
    """Yields made-up clicks: of two ads, by eight users from three countries."""
    for number in itertools.islice(itertools.count(), 40):
        yield Row(
            ad=f"ad-{number % 2}",
            user=f"user-{number * 5 % 8}",
            country=("IN", "DE", "BR")[number % 3],
            at_ms=1_000 * number,
        )


def build(env: StreamExecutionEnvironment) -> None:
    """Adds the job to an environment."""
    (
        env.from_collection(list(clicks()), CLICK)
        .key_by(lambda click: click.ad, Types.STRING())
        .process(AdStatistics())
        .uid("ad-statistics")
        .name("Ad statistics")
        .print()
    )


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env)
    env.execute("unique-visitors")


if __name__ == "__main__":
    main()
