"""State backends by the name that ``state.backend.type`` gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import InvalidConfigError
from headrace.state.hashmap.factory import HashmapBackendFactory

if TYPE_CHECKING:
    from headrace.state.contract import KeyedStateBackendFactory


def backend_factory(name: str) -> KeyedStateBackendFactory:
    """Return the factory of backend ``name``: ``rocksdb`` or ``hashmap``.

    Raises:
        InvalidConfigError: there is no such backend.
    """
    if name == "rocksdb":
        # Imported here so that a hashmap slot does not load the native library.
        from headrace.state.rocksdb.factory import RocksDBBackendFactory  # noqa: PLC0415

        return RocksDBBackendFactory()
    if name == "hashmap":
        return HashmapBackendFactory()
    msg = f"no such state backend, use rocksdb or hashmap; state.backend.type={name!r}"
    raise InvalidConfigError(msg)
