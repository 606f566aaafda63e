"""Shows the run: a live table on a terminal, plain lines elsewhere; everything to standard error.

Standard output is left to the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from headrace.clock import Clock
from headrace_demo.observation import Observed

_REFRESH_PER_S = 4
_PLAIN_INTERVAL_S = 10.0
"""Without a terminal a line of figures appears this often."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is shown of a running job, beside what was observed of it."""

    events: int
    sent: int
    published: int
    """Records of the output that a read_committed consumer has seen."""

    checkpoints: int
    last_event: str
    doing: str


class Screen:
    """Where the run is shown."""

    def __init__(self, console: Console, clock: Clock, *, live: bool) -> None:
        """Prepares a screen.

        Args:
            console: Of standard error.
            clock: For the time stamps.
            live: Draw a table in place; lines otherwise.
        """
        self._console = console
        self._clock = clock
        self._is_live = live
        self._live: Live | None = None
        self._started_s = clock.monotonic_s()
        self._plain_due_s = 0.0
        self._state = ""

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draws the table in place for the length of the block, where it is live."""
        if not self._is_live:
            yield
            return
        with Live(console=self._console, refresh_per_second=_REFRESH_PER_S) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def say(self, text: str, style: str = "") -> None:
        """Says one thing that happened, with the time since the start."""
        elapsed_s = self._clock.monotonic_s() - self._started_s
        self._console.print(
            f"{elapsed_s:6.1f} s  {text}",
            style=style,
            markup=False,
            soft_wrap=True,
            highlight=False,
        )

    def show(self, seen: Observed, figures: Figures) -> None:
        """Shows the present state."""
        if self._live is not None:
            self._live.update(draw(seen, figures))
            return
        state = describe_state(seen)
        now_s = self._clock.monotonic_s()
        if state != self._state or now_s >= self._plain_due_s:
            self._state, self._plain_due_s = state, now_s + _PLAIN_INTERVAL_S
            self.say(
                f"{state:<20} sent {figures.sent:>7}  published {figures.published:>7}  "
                f"checkpoints {figures.checkpoints:>3}  {figures.doing}"
            )


def describe_state(seen: Observed) -> str:
    """Names the state of the job as the StreamJob does."""
    if seen.status is None:
        return "absent"
    state = seen.status.lifecycle_state.value
    return f"{state}, ready" if seen.is_ready else state


def draw(seen: Observed, figures: Figures) -> RenderableType:
    """Returns the table."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    state = describe_state(seen)
    colour = "green" if seen.is_ready else "yellow"
    table.add_row("state", f"[{colour}]{state}[/{colour}]")
    job = seen.job
    table.add_row(
        "epoch",
        "-" if job is None or job.epoch is None else f"{job.epoch}  (generation {job.generation})",
    )
    table.add_row("payments", _bar(figures.sent, figures.events))
    table.add_row("published", _bar(figures.published, figures.events))
    table.add_row("checkpoints", f"{figures.checkpoints}")
    restarts = seen.status.restarts if seen.status is not None else 0
    table.add_row("restarts", f"{restarts}")
    pods = [seen.driver, *seen.executors] if seen.driver is not None else list(seen.executors)
    table.add_row("pods", "  ".join(f"{p.name} {p.phase.lower()}" for p in pods if p) or "-")
    table.add_row("last event", figures.last_event or "-")
    table.add_row("now", f"[bold]{figures.doing}[/bold]")
    return Panel(table, title="UPI payments per merchant", title_align="left")


def _bar(done: int, total: int) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_column(width=40)
    row.add_column()
    row.add_row(ProgressBar(total=max(total, 1), completed=done, width=40), f"{done:,} / {total:,}")
    return row
