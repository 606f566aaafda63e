"""Shows what takes time: a live line on a terminal, plain lines elsewhere.

Library code gets a `Progress` as an argument and never prints by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Progress:
    """Reports steps to a console; a step that ends quickly takes one line and no more."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @classmethod
    def to_stderr(cls) -> Progress:
        """The usual one: standard output stays free for results."""
        return cls(Console(stderr=True, highlight=False))

    @classmethod
    def silent(cls) -> Progress:
        """One that shows nothing."""
        return cls(Console(quiet=True))

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Shows a step while it runs, and its duration when it has succeeded."""
        started_s = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(title):
                yield
        else:
            self._console.print(f"… {title}", markup=False, soft_wrap=True)
            yield
        elapsed_s = time.monotonic() - started_s
        self._console.print(
            f"[green]✓[/green] {title} [dim]({elapsed_s:.1f} s)[/dim]", soft_wrap=True
        )

    def note(self, text: str) -> None:
        """Says one thing that is done."""
        self._console.print(f"[green]✓[/green] {text}", soft_wrap=True)
