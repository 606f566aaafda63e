"""Write ``crds/``, or with ``--check`` exit 1 when it differs from what the models say."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from headrace.api.crd.definitions import build_definitions, render_definition
from headrace.api.names import GROUP


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m headrace.api.crd", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("crds"))
    parser.add_argument("--check", action="store_true", help="compare only, change nothing")
    options = parser.parse_args(arguments)
    wanted = {name: render_definition(crd) for name, crd in build_definitions().items()}
    directory: Path = options.directory
    present = {path.name: path for path in directory.glob(f"{GROUP}_*.yaml")}
    stale = sorted(
        [name for name, text in wanted.items() if _content(directory / name) != text]
        + [name for name in present if name not in wanted]
    )
    if options.check:
        for name in stale:
            sys.stderr.write(f"differs from the models: {directory / name}\n")
        if stale:
            sys.stderr.write("run: python -m headrace.api.crd\n")
        return 1 if stale else 0
    directory.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (directory / name).write_text(wanted[name], encoding="utf-8")
        else:
            present[name].unlink()
        sys.stdout.write(f"written: {directory / name}\n")
    return 0


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
