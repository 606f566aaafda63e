"""How a program is run, as ``pyflink.datastream.execution_mode``."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """Streaming, batch, or by the boundedness of the sources. Only STREAMING is supported yet."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
