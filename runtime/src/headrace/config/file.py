"""Reads configuration files: one ``key: value`` a line, as Flink's ``flink-conf.yaml`` (L5).

Empty lines and ``#`` comments are allowed; a value may be quoted. Nothing else of YAML is: a line
that is not understood is an error with its number, never skipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from pathlib import Path

_LINE: Final = re.compile(
    r"""(?P<key>[^\s:#]+) :
    (?: \s+ (?: "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<plain>[^\s"'#].*?) ) )?
    (?: \s+ \#.* )? \s*""",
    re.VERBOSE,
)
"""One setting; a comment begins with ``#`` after a space."""


def parse_settings(text: str, *, origin: str) -> dict[str, str]:
    """Return the settings of a configuration file by key, as text.

    Args:
        text: content of the file.
        origin: its name, for messages.

    Raises:
        InvalidConfigError: a line is not ``key: value``, or a key comes twice.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            msg = f"expected one 'key: value' a line; file={origin} line={number}"
            raise InvalidConfigError(msg)
        key = match["key"]
        if key in settings:
            msg = f"option is set twice, keep one; file={origin} line={number} key={key}"
            raise InvalidConfigError(msg)
        settings[key] = match["double"] or match["single"] or match["plain"] or ""
    return settings


def read_settings(path: Path) -> dict[str, str]:
    """Read a configuration file.

    Raises:
        InvalidConfigError: it cannot be read, or see `parse_settings`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"configuration file cannot be read; path={path} reason={error.strerror}"
        raise InvalidConfigError(msg) from error
    return parse_settings(text, origin=str(path))
