"""``headrace state``: a look into checkpoints and savepoints, without the program (C10).

On a terminal results are tables; elsewhere they are lines of tab-separated values, or, with
``--json``, one JSON object a line.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.config.file import read_settings
from headrace.state.rows import END_OF_ROWS
from headrace.state_processor.columns import BATCH_ROWS
from headrace.state_processor.compare import changes_of, pair_tables
from headrace.state_processor.reading import StateFiles, local_rows, read_stored_state
from headrace.state_processor.text import EntryTexts, list_texts, parse_key, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.state.entries import StoredEntry
    from headrace.state_processor.catalog import OperatorStateList, StateTable, StoredState
    from headrace.state_processor.compare import EntryChange, TablePair
    from headrace.state_processor.text import Plain

app = typer.Typer(help="Look into the state of a checkpoint or savepoint.", no_args_is_help=True)

LIMIT_DEFAULT: Final = 20

StatePath = Annotated[
    str, typer.Argument(metavar="PATH", help="Checkpoint or savepoint: a directory or URI.")
]
OtherPath = Annotated[str, typer.Argument(metavar="OTHER", help="The later one.")]
Conf = Annotated[
    Path | None, typer.Option("--conf", help="Options of the storage, one 'key: value' a line.")
]
UidOption = Annotated[str | None, typer.Option("--operator", "-o", help="Uid of the operator.")]
StateName = Annotated[str | None, typer.Option("--state", "-s", help="Name of the state.")]
Limit = Annotated[
    int, typer.Option("--limit", min=0, help="Entries shown of each state; 0 for all.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@app.command("ls")
def list_states(path: StatePath, conf: Conf = None, as_json: AsJson = False) -> None:
    """List operators by uid and their states."""
    stored = read_stored_state(path, _options(conf))
    rows = [*_keyed_rows(stored), *_list_rows(stored)]
    metadata = stored.metadata
    head: Plain = {
        "path": stored.path,
        "kind": metadata.kind,
        "job": metadata.job_id,
        "checkpoint": metadata.checkpoint_id,
        "created": dt.datetime.fromtimestamp(metadata.created_ms / 1000, dt.UTC).isoformat(),
        "parallelism": metadata.parallelism,
        "max_parallelism": metadata.max_parallelism,
        "watermark_ms": metadata.watermark_ms,
        "finished": metadata.finished,
    }
    if as_json:
        _line({**head, "states": rows})
        return
    sys.stdout.writelines(f"{name}: {shown(value)}\n" for name, value in head.items())
    _table("states", rows)


@app.command("show")
def show(
    path: StatePath,
    operator: UidOption = None,
    state: StateName = None,
    limit: Limit = LIMIT_DEFAULT,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show entries of keyed state, and items of state without keys."""
    options = _options(conf)
    stored = read_stored_state(path, options)
    tables, lists = _chosen(stored, operator, state)
    with StateFiles(options) as files:
        for table in tables:
            texts = EntryTexts(table)
            entries = texts.columns.entries(files.rows(table))
            _print(table.uid, table.name, table.kind, _plain(texts, entries, limit), as_json)
    for one in lists:
        _print(one.uid, one.name, one.mode, list_texts(one, limit or None), as_json)


@app.command("get")
def get(
    path: StatePath,
    operator: Annotated[str, typer.Option("--operator", "-o", help="Uid of the operator.")],
    state: Annotated[str, typer.Option("--state", "-s", help="Name of the state.")],
    key: Annotated[str, typer.Option("--key", "-k", help="Text as it is, else as in JSON.")],
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show what one key has in a state; only the files of its slot are read."""
    options = _options(conf)
    table = read_stored_state(path, options).table(operator, state)
    texts = EntryTexts(table)
    with StateFiles(options) as files:
        rows = files.rows_of_key(table, parse_key(key, table.key_serializer))
        found = list(_plain(texts, texts.columns.entries(rows), 0))
    if not found:
        sys.stderr.write(
            f"error: the key has no entry; operator={operator} state={state} key={key!r}\n"
        )
        raise typer.Exit(1)
    _print(table.uid, table.name, table.kind, found, as_json)


@app.command("diff")
def diff(  # noqa: PLR0913, PLR0917  options of a command
    path: StatePath,
    other: OtherPath,
    operator: UidOption = None,
    state: StateName = None,
    limit: Limit = LIMIT_DEFAULT,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show entries that were added, removed and changed, by operator and state."""
    options = _options(conf)
    before, after = read_stored_state(path, options), read_stored_state(other, options)
    pairs = pair_tables(before, after)
    if operator is not None and all(operator != pair.uid for pair in pairs):
        before.operator(operator)
    summary = []
    with StateFiles(options) as old, StateFiles(options) as new:
        for pair in pairs:
            if operator in {None, pair.uid} and state in {None, pair.state}:
                changes = changes_of(pair, old, new) if pair.comparable else iter(())
                summary.append(_print_changes(pair, changes, limit, as_json))
    if not as_json:
        _table("summary", summary)


@app.command("local")
def show_local(  # noqa: PLR0913, PLR0917  options of a command
    directory: Annotated[Path, typer.Argument(help="A slot's working directory, or its db.")],
    types: Annotated[str, typer.Option("--types", help="A checkpoint of the job, for its types.")],
    operator: Annotated[str, typer.Option("--operator", "-o", help="Uid of the operator.")],
    state: StateName = None,
    limit: Limit = LIMIT_DEFAULT,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show entries of a database on this machine, as it was last flushed."""
    stored = read_stored_state(types, _options(conf))
    owner = stored.operator(operator)
    tables = owner.tables if state is None else (stored.table(operator, state),)
    with local_rows(directory, owner) as rows:
        for table in tables:
            texts = EntryTexts(table)
            found = rows.rows(table.name).scan(b"", END_OF_ROWS)
            entries = texts.columns.entries(found)
            _print(table.uid, table.name, table.kind, _plain(texts, entries, limit), as_json)


def _print_changes(
    pair: TablePair, changes: Iterator[EntryChange], limit: int, as_json: bool
) -> Plain:
    """Print the first changes of a state; returns how many there are."""
    counts = {"added": 0, "removed": 0, "changed": 0}
    printed: list[Plain] = []
    for change in changes:
        counts[change.change] += 1
        if not limit or sum(counts.values()) <= limit:
            entry: Plain = {"change": change.change, "before": change.before, "after": change.after}
            if as_json:
                _line({"operator": pair.uid, "state": pair.state, **entry})
            else:
                printed.append(entry)
    if printed:
        _table(f"{pair.uid} {pair.state}", printed)
    total: Plain = {"operator": pair.uid, "state": pair.state, **counts, "note": pair.note}
    if as_json:
        _line(total)
    return total


def _keyed_rows(stored: StoredState) -> list[Plain]:
    return [
        {
            "operator": operator.uid,
            "name": operator.name,
            "state": table.name,
            "kind": table.kind,
            "key": table.key_type,
            "type": table.value_type,
            "notes": _notes(table, operator.uid_is_generated),
            "key_groups": _ranges(table),
            "backend": ",".join(operator.backends),
            "operator_bytes": operator.size_bytes,
        }
        for operator in stored.operators
        for table in operator.tables
    ]


def _list_rows(stored: StoredState) -> list[Plain]:
    return [
        {
            "operator": operator.uid,
            "name": operator.name,
            "state": one.name,
            "kind": f"operator, {one.mode}",
            "key": "",
            "type": one.value_type,
            "notes": f"{len(one.items)} items{', pickled' if one.pickled else ''}",
            "key_groups": "",
            "backend": "",
            "operator_bytes": one.size_bytes,
        }
        for operator in stored.operators
        for one in operator.lists
    ]


def _notes(table: StateTable, uid_is_generated: bool) -> str:
    facts = {
        "time to live": table.expires,
        "windows": table.windowed,
        "pickled": table.pickled,
        "generated uid": uid_is_generated,
    }
    return ", ".join(name for name, holds in facts.items() if holds)


def _ranges(table: StateTable) -> str:
    return " ".join(f"{h.key_group_start}-{h.key_group_end}" for h in table.handles)


def _chosen(
    stored: StoredState, operator: str | None, state: str | None
) -> tuple[list[StateTable], list[OperatorStateList]]:
    """Return the states that the options choose; a choice of nothing is an error."""
    operators = stored.operators if operator is None else (stored.operator(operator),)
    tables = [t for one in operators for t in one.tables if state in {None, t.name}]
    lists = [one for o in operators for one in o.lists if state in {None, one.name}]
    if not tables and not lists and state is not None:
        names = {t.name for o in operators for t in o.tables}
        names |= {one.name for o in operators for one in o.lists}
        msg = (
            "no state has this name, choose one that is stored; "
            f"path={stored.path} state={state!r} states={sorted(names)}"
        )
        raise typer.BadParameter(msg)
    return tables, lists


def _plain(texts: EntryTexts, entries: Iterable[StoredEntry], limit: int) -> Iterator[Plain]:
    left = itertools.islice(entries, limit or None)
    while chunk := list(itertools.islice(left, BATCH_ROWS)):
        yield from texts.plain(chunk)


def _print(uid: str, state: str, kind: str, entries: Iterable[Plain], as_json: bool) -> None:
    if as_json:
        for entry in entries:
            _line({"operator": uid, "state": state, **entry})
        return
    _table(f"{uid} {state} ({kind})", entries)


def _table(title: str, rows: Iterable[Plain]) -> None:
    """Print rows with the same columns: a table on a terminal, else tab-separated lines."""
    listed = iter(rows)
    first = next(listed, None)
    if first is None:
        sys.stdout.write(f"{title}: empty\n")
        return
    texts = ([shown(value) for value in row.values()] for row in itertools.chain([first], listed))
    if sys.stdout.isatty():
        _rich_table(title, list(first), texts)
        return
    sys.stdout.write(f"# {title}\n" + "\t".join(first) + "\n")
    sys.stdout.writelines("\t".join(map(_one_line, row)) + "\n" for row in texts)


def _rich_table(title: str, columns: Sequence[str], rows: Iterable[list[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, for terminals alone
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    console.print(Text(title, style="bold"))
    console.print(table)


def _one_line(text: str) -> str:
    """Return a text that stays in its place between tabs."""
    return text.translate({9: "\\t", 10: "\\n", 13: "\\r"})


def _line(value: Plain) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _options(conf: Path | None) -> dict[str, str]:
    return {} if conf is None else read_settings(conf)
