"""The command line: own commands, commands of other packages, missing extras."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import pytest
import typer
from typer.testing import CliRunner

import headrace
from headrace.cli.commands import (
    Unavailable,
    extras_by_module,
    installed_commands,
    installed_extras,
    load_command,
)
from headrace.cli.main import build_app
from headrace.cli.programs import plan_program, run_program
from headrace.datastream.execution import ProgramContext
from headrace.errors import InvalidProgramError

EXTRAS = {"kopf": "operator", "confluent_kafka": "kafka"}


@dataclass
class Entry:
    """A command whose loading returns or raises what it is given."""

    name: str
    outcome: object
    loads: int = 0

    def load(self):
        self.loads += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def hello_app():
    app = typer.Typer(help="Says hello.")

    @app.command()
    def hello():
        typer.echo("hello")

    return app


def run(*arguments, entries=()):
    return CliRunner().invoke(build_app(arguments, entries, EXTRAS), list(arguments))


def test_the_version_is_the_package_s():
    result = run("version")

    assert (result.exit_code, result.stdout) == (0, f"headrace {headrace.__version__}\n")


def test_options_are_listed_by_key():
    result = run("config", "min-pause", "--keys")

    assert (result.exit_code, result.stdout) == (0, "execution.checkpointing.min-pause\n")


def test_an_option_is_shown_with_type_default_older_keys_and_meaning():
    assert run("config", "num-retained").stdout == (
        "execution.checkpointing.num-retained  [Integer, 1]\n"
        "  also state.checkpoints.num-retained\n"
        "  Completed checkpoints that are kept.\n"
    )


def test_a_word_that_no_option_has_is_an_error():
    result = run("config", "zzzz")

    assert result.exit_code == 1
    assert "error: no option has this in its key or meaning; word='zzzz'" in result.stderr


def test_a_command_of_another_package_joins():
    assert run("greet", "hello", entries=[Entry("greet", hello_app())]).stdout == "hello\n"


def test_only_the_called_command_is_loaded():
    greet, other = Entry("greet", hello_app()), Entry("other", ImportError("must not be loaded"))
    run("greet", entries=[greet, other])

    assert (greet.loads, other.loads) == (1, 0)


def test_own_commands_load_no_other_package():
    entry = Entry("greet", hello_app())
    run("version", entries=[entry])

    assert entry.loads == 0


def test_help_lists_what_is_there_and_what_is_missing():
    missing = Entry("operator", ModuleNotFoundError("no kopf", name="kopf"))
    result = run("--help", entries=[Entry("greet", hello_app()), missing])

    assert result.exit_code == 0
    assert "Says hello." in result.stdout
    assert "Not available: kopf is not installed" in result.stdout


def test_a_missing_extra_is_named_with_the_command_that_installs_it():
    missing = Entry("operator", ModuleNotFoundError("no kopf", name="kopf.testing"))
    result = run("operator", "install", "--namespace", "x", entries=[missing])

    assert result.exit_code == 1
    assert result.stderr == (
        "error: `headrace operator` is not available: kopf is not installed, "
        "run: pip install 'headrace[operator]'\n"
    )


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (
            ModuleNotFoundError("no demo", name="headrace_demo.cli"),
            "module headrace_demo.cli is not installed, `headrace x` needs it",
        ),
        (ImportError("cannot import name 'y'"), "its package cannot be imported: cannot import"),
        (AttributeError("no app"), "its entry point is broken, reinstall headrace: no app"),
        ("a string", "its entry point is no command, reinstall headrace"),
    ],
)
def test_a_broken_command_says_what_is_wrong(outcome, reason):
    loaded = load_command(Entry("x", outcome), EXTRAS)

    assert isinstance(loaded, Unavailable)
    assert loaded.reason.startswith(reason)


def test_extras_are_read_from_requirements():
    requirements = [
        "msgspec>=0.19",
        "confluent-kafka>=2.6; extra == 'kafka'",
        'kopf>=1.38; extra == "operator"',
        "typing-extensions; python_version < '3.12' and extra == 's3'",
    ]

    assert extras_by_module(requirements) == {
        "confluent_kafka": "kafka",
        "kopf": "operator",
        "typing_extensions": "s3",
    }


def test_the_installed_distribution_names_its_extras_and_commands():
    assert installed_extras()["kopf"] == "operator"
    assert {"cluster", "demo", "operator"} <= {entry.name for entry in installed_commands()}


PROGRAM = """
import sys
from headrace.datastream import StreamExecutionEnvironment
print("not part of the plan")
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(lambda v: v).print()
env.execute(sys.argv[1])
"""


def test_a_program_is_planned_without_running_its_job(tmp_path, capsys):
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)

    (text,) = plan_program(program, ["my job"], {})

    plan = json.loads(text)
    assert plan["name"] == "my job"
    assert [[o["kind"] for o in level["operators"]] for level in plan["levels"]] == [
        ["source", "map"],
        ["sink"],
    ]
    assert capsys.readouterr().out == ""


def test_a_program_without_execute_cannot_be_planned(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("print('hello')")

    with pytest.raises(InvalidProgramError, match="without running a job"):
        plan_program(program, [], {})


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(InvalidProgramError, match=r"cannot be read; program=.*absent\.py"):
        plan_program(tmp_path / "absent.py", [], {})


def test_options_come_from_a_file(tmp_path):
    program, conf = tmp_path / "job.py", tmp_path / "headrace.conf"
    program.write_text(PROGRAM)
    conf.write_text("parallelism.default: 4\nstate.checkpoints.dir: /tmp/x\n")

    result = run("plan", "--conf", str(conf), str(program), "my job")

    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert (plan["name"], plan["parallelism"]) == ("my job", 4)
    assert plan["options"]["execution.checkpointing.dir"] == "file:///tmp/x"


def test_a_program_runs_inside_its_surroundings(tmp_path):
    """What the program executes reaches the given executor, and its own globals stay its own."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    jobs = []

    def execute(job_graph, configuration, env, /):
        jobs.append(job_graph.name)

    run_program(program, ["ran"], ProgramContext(execute_job=execute))

    assert jobs == ["ran"]
    assert str(tmp_path) not in sys.path


def test_a_program_is_run_from_a_savepoint(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(
        "from headrace.datastream import StreamExecutionEnvironment as E\n"
        "from headrace.config.options.checkpointing import IGNORE_UNCLAIMED_STATE, RECOVERY_PATH\n"
        "options = E.get_execution_environment().options_in_effect()\n"
        "print(options.get(RECOVERY_PATH), options.get(IGNORE_UNCLAIMED_STATE))\n"
    )
    result = run("run", "-s", "/tmp/sp", "-n", str(program))

    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == ["file:///tmp/sp", "True"]


def test_what_follows_the_program_belongs_to_the_program(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("import sys\nprint(sys.argv[1:])\n")

    assert (
        run("run", str(program), "-n", "5", "--conf", "x").stdout == "['-n', '5', '--conf', 'x']\n"
    )
