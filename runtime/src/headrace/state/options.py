"""Options as backends read them: text by key, with defaults and types from `headrace.config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.config.options.state import CACHE_SIZE
from headrace.config.registry import OPTIONS
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config.option import Option

T = TypeVar("T")

_PREFIXES: Final = ("state.backend.", "headrace.state.")


def check_known(given: Mapping[str, str]) -> None:
    """Assert that every key of the state backend exists; keys of other groups are left alone.

    Raises:
        InvalidConfigError: names the key.
    """
    known = {key for option in OPTIONS for key in option.keys}
    for key in given:
        if key.startswith(_PREFIXES) and key not in known:
            msg = f"no such option of the state backend, check its spelling; key={key}"
            raise InvalidConfigError(msg)


def read_option(given: Mapping[str, str], option: Option[T]) -> T:
    """Return an option's value, its default when it is not given.

    Raises:
        InvalidConfigError: the text is not of the option's type.
    """
    text = next((given[key] for key in option.keys if key in given), None)
    if text is None:
        return option.default
    try:
        return option.type.parse(text)
    except ValueError as error:
        msg = f"expected {option.type.accepts}: {error}; key={option.key} value={text!r}"
        raise InvalidConfigError(msg) from error


def object_cache_bytes(given: Mapping[str, str], managed_memory_bytes: int) -> int:
    """Return the part of managed memory that the cache of deserialized values may take."""
    return int(managed_memory_bytes * read_option(given, CACHE_SIZE))
