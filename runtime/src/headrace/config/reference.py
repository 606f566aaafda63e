"""Writes docs/configuration.md from the options: ``python -m headrace.config.reference``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.config.option import Section
from headrace.config.registry import OPTIONS, UNSUPPORTED_PREFIXES

if TYPE_CHECKING:
    from headrace.config.option import Option

_INTRODUCTION: Final = """\
# Configuration

<!-- Written by `python -m headrace.config.reference`; change the options, not this page. -->

Options keep Flink's keys and notations: durations as `30 s`, `1 min` or plain milliseconds, sizes
as `64mb` in powers of 1024. They stand in `spec.config` of a StreamJob, in a file of `key: value`
lines (`headrace run --conf FILE job.py`, `Configuration.from_file`), or in the program
(`Configuration.set_string`, `env.enable_checkpointing`, ...).
Later layers win: default, file, `spec.config`, program; `spec.parallelism` wins over all.
An unknown key is refused, and the nearest known one is named. Older keys of Flink are accepted, but
one option may not be set to two values through two keys.
"""


def render_reference() -> str:
    """Return the whole page as Markdown."""
    parts = [_INTRODUCTION]
    for section in Section:
        parts.append(
            f"\n## {section.value}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
        )
        parts.extend(_row(option) for option in OPTIONS if option.section is section)
    parts.append(
        "\n## Keys of Flink that are refused\n\n| Key starts with | Instead |\n|---|---|\n"
    )
    parts.extend(f"| `{prefix}` | {text} |\n" for prefix, text in UNSUPPORTED_PREFIXES.items())
    return "".join(parts)


def _row(option: Option[object]) -> str:
    older = "".join(f"<br>also `{alias}`" for alias in option.aliases)
    default = "(none)" if option.default is None else f"`{option.type.format(option.default)}`"
    accepts = (
        f": {option.type.accepts}" if option.type.name in {"Enum", "Integer", "Double"} else ""
    )
    return (
        f"| `{option.key}`{older} | {option.type.name}{accepts} | {default} "
        f"| {option.description} |\n"
    )


if __name__ == "__main__":
    sys.stdout.write(render_reference())
