"""A program that uses every kind of keyed state, for golden files and comparisons of backends."""

from headrace.serialization.types import (
    BYTES,
    DOUBLE,
    INT,
    LONG,
    PICKLED,
    STRING,
    ListType,
    TupleType,
)
from headrace.state.access import StateTraits, TimeToLive
from headrace.state.list_state import TAIL_BYTES_MAX
from headrace.state.rows import window_namespace

from .bench_of_state import StateBench
from .test_folding_contract import MEAN, Mean, add_numbers

NAMES = ("acc-1", "", "né")
"""Keys; the last one is not ASCII."""

EXPIRING = StateTraits(TimeToLive(86_400_000))
WINDOWS = StateTraits(namespaced=True)
WINDOW = window_namespace(-60_000, 0)


class EveryKind:
    """All states of one backend, declared."""

    def __init__(self, bench: StateBench) -> None:
        self.bench = bench
        self.count = bench.values("count", LONG)
        self.pair = bench.values("pair", TupleType((STRING, DOUBLE)))
        self.items = bench.lists("items", STRING)
        self.blobs = bench.lists("blobs", PICKLED)
        self.by_number = bench.maps("by_number", (INT, LONG))
        self.by_pair = bench.maps("by_pair", (TupleType((STRING, LONG)), ListType(BYTES)))
        self.total = bench.reducing(add_numbers, "total", LONG)
        self.mean = bench.aggregating(Mean(), "mean", MEAN)
        self.seen = bench.values("seen", LONG, EXPIRING)
        self.recent = bench.lists("recent", LONG, EXPIRING)
        self.flags = bench.maps("flags", (STRING, LONG), EXPIRING)
        self.window_items = bench.lists("window_items", LONG, WINDOWS)
        self.event_timers = bench.timers("_event_timers")
        self.window_timers = bench.timers("_window_timers", namespaced=True)

    def fill(self) -> None:
        """Two rounds with a flush between, so that lists have sealed chunks and tails."""
        for _ in range(2):
            for number, name in enumerate(NAMES):
                self.bench.enter(name, WINDOW)
                self._fill_key(number, name)
            self.bench.backend.flush()

    def _fill_key(self, number: int, name: str) -> None:
        self.count.update(number - 1)
        self.pair.update((name, number / 2))
        self.items.add_all([name, "x" * TAIL_BYTES_MAX] if number == 1 else [name])
        self.blobs.add({"n": number})
        self.by_number.put_all({-1: number, 300: number, number: 0})
        self.by_number.remove(1)
        self.by_pair.put(("a", number), [b"\x00", b""])
        self.by_pair.put(("b", number), None)
        self.total.add(number)
        self.mean.add(number)
        self.seen.update(number)
        self.recent.add(number)
        self.flags.put_all({"on": number, "off": None})
        self.window_items.add_all([number, number])
        self.event_timers.register(-number)
        self.window_timers.register(number)

    def check(self) -> None:
        """Assert what `fill` has left; consumes the timers."""
        for number, name in enumerate(NAMES):
            self.bench.enter(name, WINDOW)
            self._check_key(number, name)
        fired = [(t.timestamp_ms, t.key, t.namespace) for t in self.event_timers.due(10)]
        assert fired == [(-number, name, b"") for number, name in reversed([*enumerate(NAMES)])]
        fired = [(t.timestamp_ms, t.key, t.namespace) for t in self.window_timers.due(10)]
        assert fired == [(number, name, WINDOW) for number, name in enumerate(NAMES)]

    def _check_key(self, number: int, name: str) -> None:
        assert self.count.value() == number - 1
        assert self.pair.value() == (name, number / 2)
        once = [name, "x" * TAIL_BYTES_MAX] if number == 1 else [name]
        assert self.items.get() == once * 2
        assert self.blobs.get() == [{"n": number}] * 2
        expected = {-1: number, number: 0, 300: number}
        if number == 1:
            del expected[1]
        assert list(self.by_number.items()) == list(expected.items())
        assert list(self.by_pair.items()) == [
            (("a", number), [b"\x00", b""]),
            (("b", number), None),
        ]
        assert (self.total.get(), self.mean.get()) == (2 * number, number)
        assert self.seen.value() == number
        assert self.recent.get() == [number, number]
        assert list(self.flags.items()) == [("off", None), ("on", number)]
        assert self.window_items.get() == [number] * 4


def stored_form(bench: StateBench) -> dict[str, object]:
    """Rows and schemas of a backend as JSON."""
    schemas = bench.backend._states.schemas()
    return {
        "key": bench.config.key_serializer.snapshot(),
        "schemas": {schema.name: [schema.kind, schema.serializer] for schema in schemas},
        "rows": {
            schema.name: [[row.hex(), value.hex()] for row, value in bench.rows(schema.name)]
            for schema in schemas
        },
    }
