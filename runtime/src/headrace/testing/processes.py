"""Child processes of tests and of the embedded cluster."""

from __future__ import annotations

import sys
from typing import Final

DIES_WITH_PARENT: Final = (
    ("setpriv", "--pdeathsig", "KILL", "--") if sys.platform == "linux" else ()
)
"""Prefix of a command that the kernel kills when its caller ends, however that happens.

A killed caller leaves no short command or build behind; children of the command do not inherit
it. A prefix rather than ``preexec_fn``: that would run Python, and the fork handlers of every
library of a caller with threads, in the child.
"""
