"""Commands of other packages: entry points of the group ``headrace.commands``.

A package that cannot be imported must not break the rest of the command line: its command stays
listed and says which extra to install. Only the command that is called is loaded, so that
``headrace version`` does not import an operator.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENTRY_POINT_GROUP: Final = "headrace.commands"
DISTRIBUTION: Final = "headrace"

_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+).*extra == ['\"](?P<extra>[\w-]+)['\"]")


class CommandEntry(Protocol):
    """What is needed of `importlib.metadata.EntryPoint`."""

    @property
    def name(self) -> str:
        """Name of the command."""
        ...

    def load(self) -> object:
        """Import and return the `typer.Typer`."""
        ...


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A command whose package cannot be used, and what to do about it."""

    name: str
    reason: str


def load_command(entry: CommandEntry, extras: Mapping[str, str]) -> typer.Typer | Unavailable:
    """Import a command.

    Args:
        entry: its entry point.
        extras: top-level module -> extra of this distribution that brings it.
    """
    try:
        loaded = entry.load()
    except ImportError as error:
        return Unavailable(entry.name, _missing(entry.name, error, extras))
    except AttributeError as error:
        return Unavailable(entry.name, f"its entry point is broken, reinstall headrace: {error}")
    if not isinstance(loaded, typer.Typer):
        return Unavailable(entry.name, "its entry point is no command, reinstall headrace")
    return loaded


def _missing(command: str, error: ImportError, extras: Mapping[str, str]) -> str:
    module = (error.name or "").partition(".")[0]
    extra = extras.get(module)
    if extra is not None:
        return f"{module} is not installed, run: pip install 'headrace[{extra}]'"
    if module and isinstance(error, ModuleNotFoundError):
        return f"module {error.name} is not installed, `headrace {command}` needs it"
    return f"its package cannot be imported: {error}"


def extras_by_module(requirements: Iterable[str]) -> dict[str, str]:
    """Return top-level module -> extra, from the requirements of a distribution.

    A module is taken to be named as its distribution, with ``_`` for ``-``.
    """
    found: dict[str, str] = {}
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is not None:
            found[match["name"].replace("-", "_")] = match["extra"]
    return found


def installed_extras() -> dict[str, str]:
    """Return `extras_by_module` of the installed headrace."""
    return extras_by_module(importlib.metadata.requires(DISTRIBUTION) or [])


def installed_commands() -> list[CommandEntry]:
    """Return the entry points of all commands, by name."""
    entries = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return sorted(entries, key=lambda entry: entry.name)
