"""Options of Headrace's own engine and of its REST server."""

from __future__ import annotations

from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import DURATION, integer

_SECTION: Final = Section.ENGINE

EPOCH_MAX_ROWS: Final = Option(
    "headrace.epoch.max-rows",
    integer(1),
    2_000_000,
    _SECTION,
    "Most rows that one epoch reads from all sources that take a limit.",
)
EPOCH_TARGET_DURATION: Final = Option(
    "headrace.epoch.target-duration",
    DURATION,
    1_000,
    _SECTION,
    "How long an epoch takes while there is more to read: its rows are adapted to it, up to "
    "`headrace.epoch.max-rows`. 0: they are not, every epoch may read the most.",
)
EPOCH_TIMEOUT: Final = Option(
    "headrace.epoch.timeout",
    DURATION,
    600_000,
    _SECTION,
    "An epoch that takes longer is aborted and the job fails over.",
)
RESCALE_TIMEOUT: Final = Option(
    "headrace.rescale.timeout",
    DURATION,
    600_000,
    _SECTION,
    "Time that the slots of a live rescale have to get ready; then it is given up and the job goes "
    "on as it is.",
)
SLOT_HEARTBEAT_INTERVAL: Final = Option(
    "heartbeat.interval",
    DURATION,
    2_000,
    _SECTION,
    "Time between two heartbeats of a slot process. Flink's default is 10 s.",
)
SLOT_HEARTBEAT_TIMEOUT: Final = Option(
    "heartbeat.timeout",
    DURATION,
    20_000,
    _SECTION,
    "A slot process that is silent for longer is lost. Flink's default is 50 s.",
)
SLOT_REQUEST_TIMEOUT: Final = Option(
    "slot.request.timeout",
    DURATION,
    300_000,
    _SECTION,
    "Time that a job waits for all of its slots before it fails over.",
)
REST_PORT: Final = Option(
    "rest.port", integer(0, 65535), 8081, Section.REST, "Port of the driver's REST server; 0: any."
)

OPTIONS: Final = (
    EPOCH_MAX_ROWS,
    EPOCH_TARGET_DURATION,
    EPOCH_TIMEOUT,
    RESCALE_TIMEOUT,
    SLOT_HEARTBEAT_INTERVAL,
    SLOT_HEARTBEAT_TIMEOUT,
    SLOT_REQUEST_TIMEOUT,
    REST_PORT,
)
