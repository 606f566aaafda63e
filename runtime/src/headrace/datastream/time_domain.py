"""The two notions of time of timers, as ``pyflink.datastream.time_domain``."""

from __future__ import annotations

import enum


class TimeDomain(enum.Enum):
    """Whether a timer fires on event time or on processing time."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
