"""Options of Headrace's own engine and of its REST server."""

from __future__ import annotations

from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import DURATION, STRING, integer

_SECTION: Final = Section.ENGINE

EPOCH_TARGET: Final = Option(
    "headrace.epoch.target-duration",
    DURATION,
    1_000,
    _SECTION,
    "Duration that epochs are sized for: rows per epoch are adapted so that one takes about this "
    "long. Shorter is lower latency, longer is higher throughput.",
)
EPOCH_MAX_ROWS: Final = Option(
    "headrace.epoch.max-rows",
    integer(1),
    2_000_000,
    _SECTION,
    "Most rows that one epoch reads from all sources.",
)
EPOCH_INITIAL_ROWS: Final = Option(
    "headrace.epoch.initial-rows",
    integer(1),
    50_000,
    _SECTION,
    "Rows of the first epochs after a start, before the size has adapted.",
)
EPOCH_TIMEOUT: Final = Option(
    "headrace.epoch.timeout",
    DURATION,
    600_000,
    _SECTION,
    "An epoch that takes longer is aborted and the job fails over.",
)
HEARTBEAT_EPOCH: Final = Option(
    "headrace.heartbeat.interval",
    DURATION,
    1_000,
    _SECTION,
    "Time between epochs when sources are idle, so that timers fire and checkpoints go on.",
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
REST_BIND_ADDRESS: Final = Option(
    "rest.bind-address",
    STRING,
    "127.0.0.1",
    Section.REST,
    "Address that the REST server listens on. In a pod it is the pod's address.",
)

OPTIONS: Final = (
    EPOCH_TARGET,
    EPOCH_MAX_ROWS,
    EPOCH_INITIAL_ROWS,
    EPOCH_TIMEOUT,
    HEARTBEAT_EPOCH,
    SLOT_HEARTBEAT_INTERVAL,
    SLOT_HEARTBEAT_TIMEOUT,
    SLOT_REQUEST_TIMEOUT,
    REST_PORT,
    REST_BIND_ADDRESS,
)
