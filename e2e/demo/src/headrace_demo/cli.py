"""``headrace demo``: shows, on a real Kubernetes, that kills cost a StreamJob nothing.

The result goes to standard output, everything else to standard error. Exit codes: 0 the output is
exact, 1 it is not or the run failed, 2 wrong usage, 130 interrupted. Whatever happens, nothing is
left behind, unless ``--keep`` asks for it.
"""

from __future__ import annotations

import os
import signal
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace_demo.demonstration import Demonstration, Options
from headrace_demo.report import Report, render_json
from headrace_devcluster.images import REGISTRY
from headrace_devcluster.settings import Settings

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="demo",
    help="Count payments on a real Kubernetes, kill every part, compare with the truth.",
    no_args_is_help=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def demo(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    check: Annotated[
        bool, typer.Option("--check", help="Plain lines instead of a live table.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one line of JSON, last.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running and say how to reach it.")
    ] = False,
    use_kubeconfig: Annotated[
        bool,
        typer.Option("--use-kubeconfig", help="Run on the cluster that KUBECONFIG names."),
    ] = False,
    name: Annotated[str, typer.Option(help="Name of the embedded cluster.")] = "demo",
    namespace: Annotated[str, typer.Option(help="Namespace of servers and job.")] = "demo",
    registry: Annotated[
        str, typer.Option(help="Where the cluster of KUBECONFIG takes the images from.")
    ] = REGISTRY,
    events: Annotated[int, typer.Option(min=1000, help="Payments to write.")] = 120_000,
    rate: Annotated[int, typer.Option(min=100, help="Payments a second, at most.")] = 2_000,
    merchants: Annotated[int, typer.Option(min=1, help="Merchants to pay.")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the payments.")] = 1,
) -> None:
    """Count payments on a real Kubernetes, kill every part, compare with the truth."""
    console = Console(stderr=True, highlight=False)
    options = Options(
        live=console.is_terminal and not check,
        keep=keep,
        use_kubeconfig=use_kubeconfig,
        cluster=name,
        namespace=namespace,
        registry=registry,
        events=events,
        rate_per_s=rate,
        merchants=merchants,
        seed=seed,
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    settings = Settings.from_environment(os.environ)
    demonstration = Demonstration(options, settings, console, SystemClock())
    try:
        report = demonstration.run()
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except HeadraceError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(EXIT_FAILED) from error
    _print_report(report, console)
    if as_json:
        typer.echo(render_json(report))
    if not report.exact:
        raise typer.Exit(EXIT_FAILED)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """Being asked to end is the same as Ctrl-C: it cleans up."""
    raise KeyboardInterrupt


def _print_report(report: Report, console: Console) -> None:
    verdict = "exact" if report.exact else "NOT EXACT"
    recoveries = ", ".join(f"{target} {s} s" for target, s in report.recovery_s.items())
    console.print(
        f"\n{report.events:,} payments of {report.keys:,} merchants, {report.kills} kills, "
        f"{report.checkpoints} checkpoints: the output is {verdict} "
        f"(missing {report.missing}, duplicates {report.duplicates}, "
        f"unexpected {report.unexpected})\n"
        f"recovery: {recoveries}; {report.events_per_s:,.0f} payments/s; "
        f"{report.wall_s:.0f} s in all",
        style="green" if report.exact else "red",
        markup=False,
        soft_wrap=True,
    )
