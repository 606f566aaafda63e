"""Points of the checkpoint protocol at which a test can kill the process that reaches them.

A crash between two given steps cannot be brought about from outside with any certainty, so the
steps name themselves. Without the environment variable `ENV_FAILPOINTS` a point is one dict lookup
in an empty dict. With ``HEADRACE_FAILPOINTS="driver.before-publish=3"`` the third time a process
reaches the point it ends itself with
SIGKILL: nothing is flushed, no handler runs. ``point=3@/dir`` also creates ``/dir/point`` first and
does nothing when that exists, so that the process that takes over is spared.

Points: see `POINTS` and `SAVEPOINT_POINTS`. The technique is that of TiKV's fail-rs and FreeBSD's
fail(9).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

ENV_FAILPOINTS: Final = "HEADRACE_FAILPOINTS"

POINTS: Final = (
    "slot.before-sync",  # the order to freeze has come
    "slot.before-ack",  # everything is uploaded, the coordinator does not know
    "driver.before-publish",  # all slots have acknowledged, no metadata yet
    "driver.after-publish",  # the checkpoint exists, nobody was told
    "slot.before-commit",  # the checkpoint is complete, its output is not published
    "slot.after-commit",  # output is published, the coordinator does not know
    "driver.after-claim",  # a generation is claimed, nothing restored
    "slot.before-restored",  # state and output are recovered, the coordinator does not know
)

SAVEPOINT_POINTS: Final = (
    "driver.before-savepoint",  # every file is copied, no metadata yet
    "driver.after-savepoint",  # the savepoint exists, nobody was told
)
"""Reached only when a savepoint was ordered."""

_countdown: dict[str, int] = {}
_once: dict[str, Path] = {}


def _parse(text: str) -> None:
    for part in filter(None, text.split(",")):
        name, _, rest = part.partition("=")
        if name not in POINTS + SAVEPOINT_POINTS:
            known = ", ".join(POINTS + SAVEPOINT_POINTS)
            msg = f"no such failpoint; name={name!r} points={known}"
            raise ValueError(msg)
        count, _, directory = rest.partition("@")
        _countdown[name] = int(count or 1)
        if directory:
            _once[name] = Path(directory) / name


def reach(point: str) -> None:
    """Say that ``point`` is reached; ends the process when a test asked for it."""
    left = _countdown.get(point)
    if left is None:
        return
    _countdown[point] = left - 1
    if left != 1:
        return
    marker = _once.get(point)
    if marker is not None:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)


_parse(os.environ.get(ENV_FAILPOINTS, ""))
