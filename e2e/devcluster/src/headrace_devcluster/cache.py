"""The cache of things that take minutes to make and depend only on their inputs.

Entries are named by a hash of everything that they are made from, so they are never wrong and
never updated: a changed input has another name. Safe to delete at any time when nothing runs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

KEY_LENGTH = 16
"""Hexadecimal digits kept of a SHA-256 sum: 64 bits, for a few hundred entries."""


def locate_cache(environment: Mapping[str, str]) -> Path:
    """Where the cache is: ``$HEADRACE_CACHE``, else ``headrace`` in the user's cache directory."""
    explicit = environment.get("HEADRACE_CACHE")
    if explicit:
        return Path(explicit)
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headrace"


@dataclass(frozen=True, slots=True)
class Source:
    """A file or directory that something is made from."""

    path: Path
    suffixes: tuple[str, ...] = ()
    """Only files with one of these endings count; empty means all."""

    def files(self) -> list[Path]:
        """The files that count, in an order that does not depend on the file system."""
        if self.path.is_file():
            return [self.path]
        found = (path for path in self.path.rglob("*") if path.is_file())
        return sorted(
            path
            for path in found
            if "__pycache__" not in path.parts
            and (not self.suffixes or path.name.endswith(self.suffixes))
        )


def compute_key(sources: Iterable[Source], words: Iterable[str] = ()) -> str:
    """Hashes what an entry is made from: names, modes and contents of files, and plain words.

    Args:
        sources: Files and directories; their order counts, where they are does not.
        words: Further inputs, such as a tool's version or the key of a parent.
    """
    digest = hashlib.sha256()
    for source in sources:
        for path in source.files():
            relative = path.relative_to(source.path) if path != source.path else Path(path.name)
            executable = os.access(path, os.X_OK)
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{relative}\0{executable}\0{content}\n".encode())
        digest.update(b"\n")
    for word in words:
        digest.update(f"{word}\0".encode())
    return digest.hexdigest()[:KEY_LENGTH]
