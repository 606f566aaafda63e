"""Rows as bytes of a spool and as parameters of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from headrace.connectors.jdbc.parameters import check_row, row_binder
from headrace.errors import CorruptStateError
from headrace.serialization.registry import (
    described_type,
    serializer_from_snapshot,
    value_serializer,
)
from headrace.serialization.serializer import TypeSerializer
from headrace.serialization.types import RowType


class RowCodec:
    """Rows of one type."""

    def __init__(self, row: RowType, serializer: TypeSerializer[object]) -> None:
        """Use `of_type` or `of_snapshot`."""
        self._serializer = serializer
        self._bind = row_binder(row)

    @classmethod
    def of_type(cls, row: RowType) -> RowCodec:
        """Return the codec of a program's rows."""
        return cls(row, value_serializer(row))

    @classmethod
    def of_snapshot(cls, snapshot: dict[str, object]) -> RowCodec:
        """Return the codec of rows that an earlier program may have written.

        Raises:
            IncompatibleStateError: a newer release wrote them.
            CorruptStateError: the snapshot is not one of rows.
        """
        row = described_type(snapshot)
        if not isinstance(row, RowType):
            raise CorruptStateError(f"a spool of a JDBC sink holds no rows; {snapshot=}")
        return cls(row, serializer_from_snapshot(snapshot))

    def snapshot(self) -> dict[str, object]:
        """Return the stored form of the type."""
        return self._serializer.snapshot()

    def encode(self, value: object) -> bytes:
        """Return a row, or a tuple of its fields, as bytes.

        Raises:
            TypeError: the value is not of the type.
            UserCodeError: the database would refuse it, see `check_row`.
        """
        row = self._serializer.coerce(value)
        data = self._serializer.serialize(row)
        check_row(row)
        return data

    def parameters(self, data: bytes) -> list[object]:
        """Return the parameters of an encoded row."""
        return self._bind(cast("Sequence[object]", self._serializer.deserialize(data)))
