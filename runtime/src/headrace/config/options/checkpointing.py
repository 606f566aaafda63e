"""Options of checkpoints and of starting from one (D8, D12-D18)."""

from __future__ import annotations

import enum
from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import BOOLEAN, DURATION, STORAGE_URI, enumeration, integer, optional

_SECTION: Final = Section.CHECKPOINTING


class CheckpointMode(enum.Enum):
    """Guarantee of a checkpoint."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class CheckpointRetention(enum.Enum):
    """What happens to the retained checkpoints when a job is cancelled."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


class RestoreMode(enum.Enum):
    """Who owns the checkpoint or savepoint that a job starts from."""

    NO_CLAIM = "NO_CLAIM"


class SavepointFormat(enum.Enum):
    """What the files of a savepoint are."""

    NATIVE = "NATIVE"
    CANONICAL = "CANONICAL"


class CheckpointStorageKind(enum.Enum):
    """Where checkpoints are kept."""

    FILESYSTEM = "filesystem"


INTERVAL: Final = Option(
    "execution.checkpointing.interval",
    optional(DURATION),
    None,
    _SECTION,
    "Time between the starts of two checkpoints. Not set: checkpointing is off, and a crash "
    "loses all state (Flink's default). A StreamJob must set it.",
)
MODE: Final = Option(
    "execution.checkpointing.mode",
    enumeration(
        CheckpointMode,
        {
            "exactly-once": CheckpointMode.EXACTLY_ONCE,
            "at-least-once": CheckpointMode.AT_LEAST_ONCE,
        },
    ),
    CheckpointMode.EXACTLY_ONCE,
    _SECTION,
    "Guarantee of checkpoints. AT_LEAST_ONCE is accepted and saves nothing: a barrier is the end "
    "of an epoch, so there is no alignment to leave out, and state is exactly-once in both.",
)
TIMEOUT: Final = Option(
    "execution.checkpointing.timeout",
    DURATION,
    600_000,
    _SECTION,
    "A checkpoint that takes longer is aborted and counts as failed.",
)
MIN_PAUSE: Final = Option(
    "execution.checkpointing.min-pause",
    DURATION,
    0,
    _SECTION,
    "Least time between the end of a checkpoint and the start of the next.",
)
MAX_CONCURRENT: Final = Option(
    "execution.checkpointing.max-concurrent-checkpoints",
    integer(1, 1),
    1,
    _SECTION,
    "Checkpoints that may be under way at once. Headrace takes one at a time.",
)
TOLERABLE_FAILURES: Final = Option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    integer(0),
    0,
    _SECTION,
    "Failed checkpoints in a row that are tolerated; one more fails the job over.",
)
RETENTION: Final = Option(
    "execution.checkpointing.externalized-checkpoint-retention",
    enumeration(CheckpointRetention),
    CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
    _SECTION,
    "Whether retained checkpoints survive the cancellation of the job. "
    "NO_EXTERNALIZED_CHECKPOINTS deletes them, like DELETE_ON_CANCELLATION.",
)
DIRECTORY: Final = Option(
    "execution.checkpointing.dir",
    optional(STORAGE_URI),
    None,
    _SECTION,
    "Root of all checkpoints as a URI (`s3://bucket/path`, `file:///path`). Checkpoint n of a job "
    "is `<dir>/<job id>/chk-<n>`. Required when checkpointing is on.",
    aliases=("state.checkpoints.dir",),
)
SAVEPOINT_DIRECTORY: Final = Option(
    "execution.checkpointing.savepoint-dir",
    optional(STORAGE_URI),
    None,
    _SECTION,
    "Where savepoints go whose request names no directory. Each one gets a directory of its own "
    "below this, and is never deleted by Headrace.",
    aliases=("state.savepoints.dir",),
)
SAVEPOINT_FORMAT: Final = Option(
    "headrace.savepoint.format-type",
    enumeration(SavepointFormat),
    SavepointFormat.NATIVE,
    _SECTION,
    "Format of savepoints whose request names none. NATIVE copies the files of the state backend. "
    "CANONICAL writes the rows of all states as Parquet, which any other program can read, and is "
    "slower. Both are restored by every backend. Flink's default is CANONICAL.",
)
NUM_RETAINED: Final = Option(
    "execution.checkpointing.num-retained",
    integer(1),
    1,
    _SECTION,
    "Completed checkpoints that are kept.",
    aliases=("state.checkpoints.num-retained",),
)
INCREMENTAL: Final = Option(
    "execution.checkpointing.incremental",
    BOOLEAN,
    True,
    _SECTION,
    "Upload only files that the previous checkpoints do not hold. Flink's default is false.",
    aliases=("state.backend.incremental",),
)
STORAGE: Final = Option(
    "execution.checkpointing.storage",
    enumeration(CheckpointStorageKind),
    CheckpointStorageKind.FILESYSTEM,
    _SECTION,
    "Kind of checkpoint storage.",
    aliases=("state.checkpoint-storage",),
)
RECOVERY_PATH: Final = Option(
    "execution.state-recovery.path",
    optional(STORAGE_URI),
    None,
    _SECTION,
    "Checkpoint or savepoint to start from when the job has no checkpoint of its own.",
    aliases=("execution.savepoint.path",),
)
IGNORE_UNCLAIMED_STATE: Final = Option(
    "execution.state-recovery.ignore-unclaimed-state",
    BOOLEAN,
    False,
    _SECTION,
    "Start although the restored state holds operators or states that the program no longer has.",
    aliases=("execution.savepoint.ignore-unclaimed-state",),
)

CLAIM_MODE: Final = Option(
    "execution.state-recovery.claim-mode",
    enumeration(RestoreMode, {"no-claim": RestoreMode.NO_CLAIM}),
    RestoreMode.NO_CLAIM,
    _SECTION,
    "What becomes of the checkpoint or savepoint that a job starts from. NO_CLAIM: it stays its "
    "owner's; the job's first checkpoint copies everything and refers to nothing of it. Flink's "
    "CLAIM and LEGACY are not supported.",
    aliases=("execution.savepoint-restore-mode",),
)

OPTIONS: Final = (
    INTERVAL,
    MODE,
    TIMEOUT,
    MIN_PAUSE,
    MAX_CONCURRENT,
    TOLERABLE_FAILURES,
    RETENTION,
    DIRECTORY,
    SAVEPOINT_DIRECTORY,
    SAVEPOINT_FORMAT,
    NUM_RETAINED,
    INCREMENTAL,
    STORAGE,
    RECOVERY_PATH,
    IGNORE_UNCLAIMED_STATE,
    CLAIM_MODE,
)
