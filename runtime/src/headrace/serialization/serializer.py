"""The contract of a type serializer (B34, E6).

A serializer turns values of one declared type into bytes and back, and describes itself in a
JSON-able snapshot that is stored with the state. On restore the declared serializer is asked about
the stored snapshot: whether old bytes stay, are rewritten, or are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.compatibility import Compatibility

T = TypeVar("T")


class TypeSerializer(Protocol[T]):
    """Bytes of values of one type; stateless and usable from any thread."""

    @property
    def immutable(self) -> bool:
        """Whether no value of this type can change in place, so that objects may be shared."""
        ...

    def coerce(self, value: object) -> T:
        """Return ``value`` as the declared type's Python value (e.g. ``np.int64`` -> int).

        Complete when the type is `immutable`; of a mutable container only the outermost type is
        looked at, `serialize` checks the rest. A key serializer's result is canonical:
        ``coerce(key) == deserialize(serialize(key))``.

        Raises:
            TypeError: the value is not of the declared type; names type and value's type.
        """
        ...

    def serialize(self, value: T) -> bytes:
        """Return the value's bytes.

        Raises:
            TypeError: the value is not of the declared type; names type and value's type.
        """
        ...

    def deserialize(self, data: bytes) -> T:
        """Return the value of ``data``.

        Raises:
            CorruptStateError: the bytes are not of this type.
        """
        ...

    def snapshot(self) -> dict[str, object]:
        """Return a JSON-able description, e.g. ``{"type": "row", "fields": [...]}``."""
        ...

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of bytes of snapshot ``stored`` under this type.

        Raises:
            IncompatibleStateError: the snapshot is not understood; a newer release wrote it.
        """
        ...

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function bytes of snapshot ``stored`` -> bytes of this type.

        For `Verdict.AFTER_MIGRATION`. The function raises IncompatibleStateError for a value that
        has no counterpart, e.g. an integer that no double is equal to.
        """
        ...


class KeySerializer(TypeSerializer[T], Protocol[T]):
    """A serializer whose bytes are canonical: equal keys have equal bytes, in every process.

    Keys that are equal in Python but differ in type (1, 1.0, True) are equal exactly when the
    declared type makes them so; without a declared type they differ (T10).
    """

    @property
    def cache_key_is_key(self) -> bool:
        """Whether `cache_key` returns its argument for every key, so that it need not be called."""
        ...

    def cache_key(self, key: T) -> object:
        """Return a hashable that is equal for two keys exactly when their bytes are."""
        ...

    def hash64(self, key: T) -> int:
        """Return the key's 64-bit hash, unsigned: Spark's ``xxhash64`` of the same value.

        STRING hashes its UTF-8, BYTES its bytes, every integer type as a bigint (8 bytes LE),
        FLOAT and DOUBLE as a double (8 bytes LE, -0.0 as 0.0, one NaN), BOOLEAN as int 0/1
        (4 bytes LE); everything else hashes ``serialize(key)`` as binary.
        """
        ...

    def spark_expression(self, column: str) -> str | None:
        """Return the Spark SQL expression of `hash64` over a column, or None if there is none."""
        ...
