"""Where files that are fetched or built once are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return ``$HEADRACE_CACHE``, else ``headrace`` in the user's cache directory."""
    explicit = os.environ.get("HEADRACE_CACHE")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headrace"
