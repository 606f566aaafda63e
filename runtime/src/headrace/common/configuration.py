"""Options as text, as ``pyflink.common.configuration``. Checked when the program is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.config.file import read_settings
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Configuration:
    """A mutable mapping of keys to text with typed access."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._settings: dict[str, str] = {} if other is None else other.to_dict()

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:  # noqa: A002 - PyFlink's name
        """Return a configuration with these settings."""
        configuration = cls()
        for key, value in map.items():
            configuration.set_string(key, value)
        return configuration

    @classmethod
    def from_file(cls, path: Path) -> Configuration:
        """Return the settings of a file of ``key: value`` lines.

        Raises:
            InvalidConfigError: the file cannot be read or understood.
        """
        return cls.from_dict(read_settings(path))

    def get_string(self, key: str, default_value: str) -> str:
        """Return the text of ``key``."""
        return self._settings.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set ``key`` to a text."""
        self._settings[key] = str(value)
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the whole number of ``key``.

        Raises:
            InvalidConfigError: the text is not a whole number.
        """
        text = self._settings.get(key)
        if text is None:
            return default_value
        try:
            return int(text)
        except ValueError as error:
            raise _wrong(key, text, "a whole number") from error

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set ``key`` to a whole number."""
        return self.set_string(key, str(int(value)))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the boolean of ``key``.

        Raises:
            InvalidConfigError: the text is neither true nor false.
        """
        text = self._settings.get(key)
        if text is None:
            return default_value
        if text.lower() not in {"true", "false"}:
            raise _wrong(key, text, "true or false")
        return text.lower() == "true"

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set ``key`` to a boolean."""
        return self.set_string(key, "true" if value else "false")

    def get_float(self, key: str, default_value: float) -> float:
        """Return the number of ``key``.

        Raises:
            InvalidConfigError: the text is not a number.
        """
        text = self._settings.get(key)
        if text is None:
            return default_value
        try:
            return float(text)
        except ValueError as error:
            raise _wrong(key, text, "a number") from error

    def set_float(self, key: str, value: float) -> Configuration:
        """Set ``key`` to a number."""
        return self.set_string(key, repr(float(value)))

    def key_set(self) -> set[str]:
        """Return the keys that are set."""
        return set(self._settings)

    def contains_key(self, key: str) -> bool:
        """Return whether ``key`` is set."""
        return key in self._settings

    def remove_config(self, key: str) -> bool:
        """Remove ``key``; return whether it was set."""
        return self._settings.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all settings of ``other``, with ``prefix`` before their keys."""
        for key, value in other.to_dict().items():
            self.set_string(f"{prefix or ''}{key}", value)
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Copy all settings into ``target_dict``."""
        target_dict.update(self._settings)

    def to_dict(self) -> dict[str, str]:
        """Return a copy of all settings."""
        return dict(self._settings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Configuration):
            return NotImplemented
        return self._settings == other._settings

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._settings.items())))

    def __repr__(self) -> str:
        return f"Configuration(keys={sorted(self._settings)})"


def _wrong(key: str, text: str, expected: str) -> InvalidConfigError:
    return InvalidConfigError(f"option is not {expected}; key={key} value={text!r}")
