"""`Row`: ordered values with optional names, as PyFlink's ``pyflink.common.Row``.

It lives here, below the job API, because serializers must know it; ``headrace.common`` exports it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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


class Row:
    """Ordered values, reached by position or, when named, by name.

    ``Row("Alice", 11)`` has positions only, ``Row(name="Alice", age=11)`` has names too, and
    ``Row("name", "age")("Alice", 11)`` uses a row of strings as a factory for named rows.
    Two rows are equal when kind, names and values are.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[object]

    def __init__(self, *args: object, **kwargs: object) -> None:
        if args and kwargs:
            msg = "a row takes positional or named values, not both"
            raise ValueError(msg)
        self._fields = tuple(kwargs) if kwargs else None
        self._values = list(kwargs.values()) if kwargs else list(args)
        self._row_kind = RowKind.INSERT

    @classmethod
    def of_names(cls, names: tuple[str, ...] | None, values: list[object]) -> Row:
        """Return a row over ``values`` without copying them (serializers use this)."""
        row = cls.__new__(cls)
        row._fields = names
        row._values = values  # noqa: SLF001
        row._row_kind = RowKind.INSERT  # noqa: SLF001
        return row

    @property
    def field_names(self) -> tuple[str, ...] | None:
        """The names, or None when the row has positions only."""
        return self._fields

    def get_row_kind(self) -> RowKind:
        """Return the kind of change."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields.

        Raises:
            ValueError: there is not exactly one name for each value.
        """
        if len(field_names) != len(self._values):
            msg = f"a row needs one name a value; names={len(field_names)} values={len(self)}"
            raise ValueError(msg)
        self._fields = tuple(field_names)

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
        values = [_as_dicts(v) for v in self._values] if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def __call__(self, *args: object) -> Row:
        """Return a row that has this row's values as names and ``args`` as values."""
        if len(args) != len(self._values):
            msg = f"a row needs one value a name; names={len(self)} values={len(args)}"
            raise TypeError(msg)
        return Row.of_names(tuple(str(name) for name in self._values), list(args))

    def __getattr__(self, name: str) -> object:
        # Only called when normal lookup fails; dunder lookups (copy, pickle) must not reach names.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @overload
    def __getitem__(self, item: int | str) -> object: ...
    @overload
    def __getitem__(self, item: slice) -> list[object]: ...
    def __getitem__(self, item: int | str | slice) -> object:
        if isinstance(item, str):
            return self._values[self._index(item)]
        return self._values[item]

    def __setitem__(self, item: int | str, value: object) -> None:
        index = self._index(item) if isinstance(item, str) else item
        self._values[index] = value

    def _index(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            msg = f"no such field; name={name!r} fields={list(self._fields or ())}"
            raise KeyError(msg)
        return self._fields.index(name)

    def __iter__(self) -> Iterator[object]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return (self._row_kind, self._fields, self._values) == (
            other._row_kind,
            other._fields,
            other._values,
        )

    def __hash__(self) -> int:
        return hash((self._row_kind, self._fields, tuple(self._values)))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._fields, self._values, self._row_kind.value)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"Row({', '.join(map(repr, self._values))})"
        pairs = zip(self._fields, self._values, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _rebuild(names: tuple[str, ...] | None, values: list[object], kind: int) -> Row:
    row = Row.of_names(names, list(values))
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
