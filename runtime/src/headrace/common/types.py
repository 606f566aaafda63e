"""`Row` and `RowKind`, under PyFlink's module path."""

from headrace.serialization.row import Row, RowKind

__all__ = ["Row", "RowKind"]
