"""Shows what takes time: a live line on a terminal, plain lines elsewhere.

Library code gets a `Progress` as an argument and never prints by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status


class Progress:
    """Reports steps to a console; a step that ends quickly takes one line and no more.

    Thread-safe: steps that run at the same time share the live line.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._live: Status | None = None

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
        with self._lock:
            self._running.append(title)
            self._show(title)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(title)
                self._refresh()
        elapsed_s = time.monotonic() - started_s
        self._console.print(
            f"[green]✓[/green] {title} [dim]({elapsed_s:.1f} s)[/dim]", soft_wrap=True
        )

    def note(self, text: str) -> None:
        """Says one thing that is done."""
        self._console.print(f"[green]✓[/green] {text}", soft_wrap=True)

    def _show(self, title: str) -> None:
        if self._console.is_terminal:
            self._refresh()
        else:
            self._console.print(f"… {title}", markup=False, soft_wrap=True)

    def _refresh(self) -> None:
        if not self._console.is_terminal:
            return
        if self._live is not None and not self._running:
            self._live.stop()
            self._live = None
        elif self._running and self._live is None:
            self._live = self._console.status(self._running[0])
            self._live.start()
        elif self._live is not None:
            self._live.update(" and ".join(self._running))
