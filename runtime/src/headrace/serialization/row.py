"""`Row`: ordered values with optional names, as PyFlink's ``pyflink.common.Row``.

It lives here, below the job API, because serializers must know it; ``headrace.common`` exports it.

A row is a ``list`` of its values, and the names belong to its class: one subclass for each tuple of
names, made by `row_class`. So decoders build rows of known names in C
(``map(row_class(names), zip(*columns))``), which is four times as fast as setting attributes one by
one; rows are the hot path of every typed stream.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final, SupportsIndex, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class RowKind(enum.Enum):
    """What a row says about a changing table; numbers are Flink's."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT_STRINGS[self]


_SHORT_STRINGS: Final = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}


class Row(list[object]):
    """Ordered values, reached by position or, when named, by name.

    ``Row("Alice", 11)`` has positions only, ``Row(name="Alice", age=11)`` has names too, and
    ``Row("name", "age")("Alice", 11)`` uses a row of strings as a factory for named rows.
    Two rows are equal when kind, names and values are.
    """

    __slots__ = ("_kind",)

    _fields: ClassVar[tuple[str, ...] | None] = None
    _kind: RowKind

    def __init__(self, *args: object, **kwargs: object) -> None:
        if args and kwargs:
            msg = "a row takes positional or named values, not both"
            raise ValueError(msg)
        super().__init__(kwargs.values() if kwargs else args)
        if kwargs:
            self.__class__ = _subclass(tuple(kwargs))

    @classmethod
    def of_names(cls, names: tuple[str, ...] | None, values: Iterable[object]) -> Row:
        """Return a row of ``values`` under ``names`` (serializers use this)."""
        return _positional(values) if names is None else row_class(names)(values)

    @property
    def field_names(self) -> tuple[str, ...] | None:
        """The names, or None when the row has positions only."""
        return self._fields

    def get_row_kind(self) -> RowKind:
        """Return the kind of change."""
        return getattr(self, "_kind", RowKind.INSERT)

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change."""
        self._kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields.

        Raises:
            ValueError: there is not exactly one name for each value.
        """
        if len(field_names) != len(self):
            msg = f"a row needs one name a value; names={len(field_names)} values={len(self)}"
            raise ValueError(msg)
        self.__class__ = _subclass(tuple(field_names))

    def get_fields_by_names(self, names: Sequence[str]) -> list[object]:
        """Return the values of ``names`` in that order."""
        return [self[name] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, object]:
        """Return name -> value; with ``recursive``, rows inside become dicts too.

        Raises:
            TypeError: the row has no names.
        """
        if self._fields is None:
            msg = "a row without field names cannot become a dict, call set_field_names first"
            raise TypeError(msg)
        values = [_as_dicts(v) for v in self] if recursive else self
        return dict(zip(self._fields, values, strict=True))

    def __call__(self, *args: object) -> Row:
        """Return a row that has this row's values as names and ``args`` as values."""
        if len(args) != len(self):
            msg = f"a row needs one value a name; names={len(self)} values={len(args)}"
            raise TypeError(msg)
        return Row.of_names(tuple(str(name) for name in self), args)

    def __getitem__(self, item: Any) -> Any:  # noqa: ANN401 - position, slice or name
        if isinstance(item, str):
            return list.__getitem__(self, self._index(item))
        return list.__getitem__(self, item)

    def __setitem__(self, item: Any, value: Any) -> None:  # noqa: ANN401 - position, slice or name
        list.__setitem__(self, self._index(item) if isinstance(item, str) else item, value)

    def _index(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            msg = f"no such field; name={name!r} fields={list(self._fields or ())}"
            raise KeyError(msg)
        return self._fields.index(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return (
            self._fields == other._fields
            and list.__eq__(self, other)
            and self.get_row_kind() is other.get_row_kind()
        )

    def __ne__(self, other: object) -> bool:
        return not self == other  # list has a __ne__ of its own

    def __hash__(self) -> int:  # type: ignore[override]  # rows of hashable values may be keys
        return hash((self.get_row_kind(), self._fields, tuple(self)))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._fields, list(self), self.get_row_kind().value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return self.__reduce__()

    def __copy__(self) -> Row:
        return _rebuild(self._fields, list(self), self.get_row_kind().value)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"Row({', '.join(map(repr, self))})"
        pairs = zip(self._fields, self, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def row_class(names: tuple[str, ...]) -> Callable[[Iterable[object]], Row]:
    """Return the class of rows with these names; called with an iterable of the values.

    The same class for the same names, so that ``type(row) is row_class(names)`` asks for them.

    Its fields are attributes, also those that are named like a method of lists or rows.
    """
    return cast("Callable[[Iterable[object]], Row]", _subclass(names))


@functools.cache
def _subclass(names: tuple[str, ...]) -> type[Row]:
    fields = {name: _field(position) for position, name in enumerate(names)}
    own = {"__slots__": (), "__module__": __name__, "_fields": names, "__init__": list.__init__}
    return type("Row", (Row,), {**fields, **own})


def _field(position: int) -> property:
    def get(row: Row) -> object:
        return list.__getitem__(row, position)

    def set_(row: Row, value: object) -> None:
        list.__setitem__(row, position, value)

    return property(get, set_)


def _positional(values: Iterable[object]) -> Row:
    row = Row()
    row.extend(values)
    return row


def _rebuild(names: tuple[str, ...] | None, values: list[object], kind: int) -> Row:
    row = Row.of_names(names, values)
    if kind != RowKind.INSERT.value:
        row.set_row_kind(RowKind(kind))
    return row


def _as_dicts(value: object) -> object:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_as_dicts(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_as_dicts(item) for item in value)
    if isinstance(value, dict):
        return {key: _as_dicts(item) for key, item in value.items()}
    return value
