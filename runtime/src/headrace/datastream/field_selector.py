"""Selects a named field of a row as its key."""

from __future__ import annotations

from typing import Any, Final

from headrace.datastream.functions import KeySelector
from headrace.serialization.row import Row

_ITEM: Final = list.__getitem__


class FieldSelector(KeySelector):
    """Reads one field by name; the place of the name is looked up once for each class of rows."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._places: dict[type, int] = {}

    def get_key(self, value: Any) -> Any:  # noqa: ANN401 - the base class's
        """Return the field.

        Raises:
            KeyError: the row has no such field.
            TypeError: the value is no row with names.
        """
        place = self._places.get(type(value))
        if place is None:
            place = self._learn(value)
        return _ITEM(value, place)

    def _learn(self, value: object) -> int:
        names = value.field_names if isinstance(value, Row) else None
        if names is None:
            msg = f"not a row with names; field={self._field!r} type={type(value).__name__}"
            raise TypeError(msg)
        if self._field not in names:
            msg = f"row has no such field; field={self._field!r} fields={list(names)}"
            raise KeyError(msg)
        place = names.index(self._field)
        self._places[type(value)] = place
        return place

    def __getstate__(self) -> str:
        # Classes of rows belong to their process and do not travel.
        return self._field

    def __setstate__(self, state: str) -> None:
        self._field = state
        self._places = {}
