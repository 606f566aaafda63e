"""What fills the keyed state of a new savepoint: a function over rows, or columns (E9).

`KeyedStateBootstrapFunction` is Flink's: it gets state from its runtime context in ``open`` and
writes state and timers of the current key for each row. `FillColumns` is one that says for each
state which columns it is made of, in the names in which the data source ``headrace-state`` reads.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.datastream.functions import Function
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.datastream.time_domain import TimeDomain
from headrace.errors import InvalidProgramError
from headrace.state_processor.columns import MAP_KEY, TIMESTAMP, VALUE
from headrace.state_processor.declared import converter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.datastream.functions import RuntimeContext
    from headrace.datastream.state import MapState, StateDescriptor, ValueState
    from headrace.datastream.timerservice import TimerService
    from headrace.serialization.row import Row

# ruff: noqa: ANN401 - values are the user's


class KeyedStateBootstrapFunction(Function):
    """Writes keyed state and timers, one row at a time."""

    class Context(abc.ABC):
        """What is known about the row at hand."""

        @abc.abstractmethod
        def get_current_key(self) -> Any:
            """Return the row's key."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service of the current key."""

        @abc.abstractmethod
        def set_last_access(self, timestamp_ms: int | None) -> None:
            """Let what is written next, for this row, expire as if written then; None: now."""

    @abc.abstractmethod
    def process_element(self, value: Row, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Write the state of a row.

        Args:
            value: the row; inside its columns a struct is a dict, a map a list of pairs.
            ctx: its key and timers.
        """


@dataclass(frozen=True, slots=True)
class StateColumns:
    """Columns that one state is made of. A row whose value is null has nothing for this state.

    Attributes:
        descriptor: the state, as the job declares it. Of value and map state there may be one row
            for each entry; list state gets an element, reducing and aggregating state an input of
            its function a row.
        value: column of the value.
        map_key: column of a map's key; a map's value may be null, its key may not.
        last_access_ms: column of the time of the last access, for state that expires; None: now.
    """

    descriptor: StateDescriptor
    value: str = VALUE
    map_key: str = MAP_KEY
    last_access_ms: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns."""
        names = [self.value]
        if isinstance(self.descriptor, MapStateDescriptor):
            names.append(self.map_key)
        return names if self.last_access_ms is None else [*names, self.last_access_ms]


@dataclass(frozen=True, slots=True)
class TimerColumns:
    """Column that timers are made of; a row whose time is null has none.

    Attributes:
        time_domain: of event time or of processing time.
        timestamp_ms: column of the time.
    """

    time_domain: TimeDomain
    timestamp_ms: str = TIMESTAMP

    @property
    def names(self) -> list[str]:
        """The column."""
        return [self.timestamp_ms]


Columns = StateColumns | TimerColumns

Write = Callable[["Row", object], None]
"""Writes a row's value under its key, which is current."""


class FillColumns(KeyedStateBootstrapFunction):
    """Writes states and timers from columns. Rows of one key must come one after the other.

    Args:
        columns: one for each state.

    Raises:
        InvalidProgramError: of a kind that cannot be made of columns.
    """

    def __init__(self, columns: Sequence[Columns]) -> None:
        self.columns = tuple(columns)
        for one in self.columns:
            if isinstance(one, StateColumns) and type(one.descriptor) not in _WRITERS:
                msg = f"state of this kind cannot be made of columns; state={one.descriptor!r}"
                raise InvalidProgramError(msg)
        self._writes: list[tuple[Columns, Write | None]] = []

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [name for one in self.columns for name in one.names]

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states."""
        self._writes = [
            (one, _WRITERS[type(one.descriptor)](one, runtime_context))
            if isinstance(one, StateColumns)
            else (one, None)
            for one in self.columns
        ]

    def process_element(self, value: Row, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Write what the row has for each state."""
        for columns, write in self._writes:
            if isinstance(columns, TimerColumns):
                _register(columns, value, ctx)
            elif write is not None and _has_entry(columns, value):
                accessed = columns.last_access_ms
                ctx.set_last_access(None if accessed is None else value[accessed])
                try:
                    write(value, ctx.get_current_key())
                except (TypeError, ValueError, KeyError) as error:
                    msg = (
                        f"a row has no value of the state's type: {error}; "
                        f"state={columns.descriptor.name} key={ctx.get_current_key()!r}"
                    )
                    raise InvalidProgramError(msg) from error


def _has_entry(columns: StateColumns, row: Row) -> bool:
    is_map = isinstance(columns.descriptor, MapStateDescriptor)
    return row[columns.map_key if is_map else columns.value] is not None


def _register(columns: TimerColumns, row: Row, ctx: KeyedStateBootstrapFunction.Context) -> None:
    timestamp_ms = row[columns.timestamp_ms]
    if timestamp_ms is None:
        return
    if columns.time_domain is TimeDomain.EVENT_TIME:
        ctx.timer_service().register_event_time_timer(timestamp_ms)
    else:
        ctx.timer_service().register_processing_time_timer(timestamp_ms)


class _Once:
    """Refuses a second row for one entry, which would replace the first in silence.

    Remembers the entries of one key: rows of a key come one after the other.
    """

    def __init__(self) -> None:
        self._key: tuple[type, object] | None = None
        self._seen: set[object] = set()

    def check(self, key: object, entry: object) -> None:
        if (type(key), key) != self._key:
            self._key, self._seen = (type(key), key), set()
        if entry in self._seen:
            msg = f"two rows are one entry; map_key={entry!r}"
            raise ValueError(msg)
        self._seen.add(entry)


def _value_writer(columns: StateColumns, context: RuntimeContext) -> Write:
    descriptor = columns.descriptor
    assert isinstance(descriptor, ValueStateDescriptor)  # noqa: S101 - chosen by this type
    state: ValueState[Any] = context.get_state(descriptor)
    convert = converter(descriptor.type_info.description)

    once = _Once()

    def write(row: Row, key: object) -> None:
        once.check(key, None)
        state.update(convert(row[columns.value]))

    return write


def _list_writer(columns: StateColumns, context: RuntimeContext) -> Write:
    descriptor = columns.descriptor
    assert isinstance(descriptor, ListStateDescriptor)  # noqa: S101
    state = context.get_list_state(descriptor)
    convert = converter(descriptor.elem_type_info.description)
    return lambda row, _: state.add(convert(row[columns.value]))


def _map_writer(columns: StateColumns, context: RuntimeContext) -> Write:
    descriptor = columns.descriptor
    assert isinstance(descriptor, MapStateDescriptor)  # noqa: S101
    state: MapState[Any, Any] = context.get_map_state(descriptor)
    of_key = converter(descriptor.key_type_info.description)
    of_value = converter(descriptor.value_type_info.description)

    once = _Once()

    def write(row: Row, key: object) -> None:
        map_key = of_key(row[columns.map_key])
        once.check(key, map_key)
        state.put(map_key, of_value(row[columns.value]))

    return write


def _reducing_writer(columns: StateColumns, context: RuntimeContext) -> Write:
    descriptor = columns.descriptor
    assert isinstance(descriptor, ReducingStateDescriptor)  # noqa: S101
    state = context.get_reducing_state(descriptor)
    convert = converter(descriptor.type_info.description)
    return lambda row, _: state.add(convert(row[columns.value]))


def _aggregating_writer(columns: StateColumns, context: RuntimeContext) -> Write:
    descriptor = columns.descriptor
    assert isinstance(descriptor, AggregatingStateDescriptor)  # noqa: S101
    state = context.get_aggregating_state(descriptor)
    return lambda row, _: state.add(row[columns.value])


_WRITERS: Final[dict[type, Callable[[StateColumns, RuntimeContext], Write]]] = {
    ValueStateDescriptor: _value_writer,
    ListStateDescriptor: _list_writer,
    MapStateDescriptor: _map_writer,
    ReducingStateDescriptor: _reducing_writer,
    AggregatingStateDescriptor: _aggregating_writer,
}
