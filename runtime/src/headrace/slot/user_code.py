"""Turning exceptions of user functions into something a person can act on (OP10)."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

FRAMES_MAX: Final = 5
"""Frames that are kept of a traceback: enough to see the failing line and its callers."""

_PACKAGE_ROOT: Final = str(Path(__file__).resolve().parents[1])


def user_traceback(error: BaseException) -> str:
    """Return the last frames of the error's traceback outside Headrace itself, and its message."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGE_ROOT)]
    lines = traceback.format_list((own or frames)[-FRAMES_MAX:])
    lines += traceback.format_exception_only(error)
    return "".join(lines)
