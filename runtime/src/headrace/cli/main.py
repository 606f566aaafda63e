"""``headrace``: the command line. Own commands are here, others join as entry points.

Exit codes: 0 done, 1 an error that is shown with its next step, 2 wrong usage.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import headrace
from headrace.cli.commands import (
    Unavailable,
    installed_commands,
    installed_extras,
    load_command,
)
from headrace.cli.jobs import savepoint, stop
from headrace.config.file import read_settings
from headrace.config.options import checkpointing
from headrace.config.registry import OPTIONS
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.cli.commands import CommandEntry
    from headrace.config.option import Option

EXIT_ERROR: Final = 1
TEXT_WIDTH: Final = 80

_PASS_ALL: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,  # what follows the program is the program's
}


def build_app(
    arguments: Sequence[str], entries: Sequence[CommandEntry], extras: Mapping[str, str]
) -> typer.Typer:
    """Return the whole command line.

    Args:
        arguments: command line without the program; only the command that it names is loaded, all
            when it names none.
        entries: commands of other packages.
        extras: top-level module -> extra that brings it.
    """
    app = typer.Typer(
        name="headrace",
        help="Flink-grade stateful streaming for PySpark on Kubernetes.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.command("version")(version)
    app.command("config")(config)
    app.command("run", context_settings=_PASS_ALL)(run)
    app.command("plan", context_settings=_PASS_ALL)(plan)
    app.command("driver")(driver)
    app.command("savepoint")(savepoint)
    app.command("stop")(stop)
    called = next((word for word in arguments if not word.startswith("-")), None)
    if called in {None, "state"}:
        from headrace.cli.state import app as state  # noqa: PLC0415 - loads Arrow

        app.add_typer(state, name="state")
    for entry in entries:
        if called in {None, entry.name}:
            _add(app, entry, extras)
    return app


def _add(app: typer.Typer, entry: CommandEntry, extras: Mapping[str, str]) -> None:
    command = load_command(entry, extras)
    if not isinstance(command, Unavailable):
        app.add_typer(command, name=entry.name)
        return
    reason = command.reason

    def explain() -> None:
        _fail(f"`headrace {entry.name}` is not available: {reason}")

    app.command(entry.name, help=f"Not available: {reason}", context_settings=_PASS_ALL)(explain)


def version() -> None:
    """Print the version."""
    sys.stdout.write(f"headrace {headrace.__version__}\n")


def config(
    word: Annotated[
        str | None, typer.Argument(help="Show only options whose key or meaning has this in it.")
    ] = None,
    *,
    keys: Annotated[bool, typer.Option("--keys", help="Print the keys alone, one a line.")] = False,
) -> None:
    """List all options with type, default and meaning."""
    wanted = (word or "").lower()
    shown = [
        option
        for option in OPTIONS
        if wanted in " ".join((*option.keys, option.description)).lower()
    ]
    if not shown:
        _fail(f"no option has this in its key or meaning; word={word!r}")
    if keys:
        sys.stdout.writelines(f"{option.key}\n" for option in shown)
        return
    sys.stdout.write("\n\n".join(_described(option) for option in shown) + "\n")


def _described(option: Option[object]) -> str:
    """Return an option as text; keys are never broken, so that they can be copied."""
    default = "no default" if option.default is None else option.type.format(option.default)
    lines = [f"{option.key}  [{option.type.name}, {default}]"]
    lines += [f"  also {alias}" for alias in option.aliases]
    lines += textwrap.wrap(
        option.description, TEXT_WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    return "\n".join(lines)


ProgramFile = Annotated[Path, typer.Argument(help="A program that ends in env.execute().")]
SettingsFile = Annotated[
    Path | None, typer.Option("--conf", help="Options, one 'key: value' a line.")
]


RestorePath = Annotated[
    str | None,
    typer.Option("--from-savepoint", "-s", help="Checkpoint or savepoint to start from."),
]
IgnoreUnclaimed = Annotated[
    bool,
    typer.Option("--allow-non-restored-state", "-n", help="Drop state without an owner."),
]


def run(
    context: typer.Context,
    program: ProgramFile,
    conf: SettingsFile = None,
    from_savepoint: RestorePath = None,
    allow_non_restored_state: IgnoreUnclaimed = False,
) -> None:
    """Run a program on this machine, with options from a file."""
    from headrace.cli.programs import run_program  # noqa: PLC0415 - loads the job API
    from headrace.datastream.execution import ProgramContext  # noqa: PLC0415

    settings = _settings(conf)
    if from_savepoint is not None:
        settings[checkpointing.RECOVERY_PATH.key] = from_savepoint
    if allow_non_restored_state:
        settings[checkpointing.IGNORE_UNCLAIMED_STATE.key] = "true"
    run_program(program, context.args, ProgramContext(settings=settings))


def plan(context: typer.Context, program: ProgramFile, conf: SettingsFile = None) -> None:
    """Show how a program would run, as JSON, without running it."""
    from headrace.cli.programs import plan_program  # noqa: PLC0415 - loads the job API

    for text in plan_program(program, context.args, _settings(conf)):
        sys.stdout.write(f"{text}\n")


def _settings(conf: Path | None) -> dict[str, str]:
    return {} if conf is None else read_settings(conf)


def driver(
    config_file: Annotated[
        Path, typer.Option("--config", help="The job as the operator describes it (job.json).")
    ],
) -> None:
    """Run a job's driver; the operator starts this in a pod."""
    from headrace.driver.main import main as run_driver  # noqa: PLC0415 - loads Spark

    run_driver(config_file)


def _fail(message: str) -> None:
    sys.stderr.write(f"error: {message}\n")
    raise typer.Exit(EXIT_ERROR)


def main() -> None:
    """Run the command line of this process."""
    app = build_app(sys.argv[1:], installed_commands(), installed_extras())
    try:
        app()
    except HeadraceError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
