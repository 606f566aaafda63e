"""The error tree. A kind tells the reader what to do, not where the error came from.

::

    HeadraceError
    ├── InvalidConfigError        fix the input: manifest, option, connector setting, topology
    │   └── InvalidProgramError   fix the program: unreadable, without ``execute``, bad graph
    ├── UserCodeError             fix the program: an exception left a user function
    ├── StorageUnavailableError   retry: checkpoint storage did not answer or refused for now
    ├── StorageAccessError        fix the storage: it cannot be written or read as configured
    ├── ObjectExistsError         expected by callers of conditional create; never reaches a user
    ├── ObjectMissingError        an object that the caller expected is not there
    ├── SourceUnavailableError   retry, then fix: a broker or topic cannot be reached or refuses
    ├── FencedError               stop: a newer generation owns the job
    ├── CorruptStateError         fix the data: checksum, size or format does not hold
    ├── IncompatibleStateError    fix the upgrade: stored schema and program do not agree
    ├── NoRestorableStateError    decide: state was expected, none can be read; never start empty
    ├── SavepointFailedError      ask again: a savepoint could not be made, the job goes on
    ├── SinkCommitError           stop and report: committed output can no longer be published
    ├── EpochAbortedError         fail over: one epoch failed and was abandoned
    ├── LocalStorageError         fail over: the local disk of working state failed or is full
    ├── SlotLostError             fail over: a slot process went away
    ├── DriverLostError           start a new driver: Spark's JVM went away
    └── InternalError             report: an invariant of Headrace itself does not hold

Messages are lower case, state one fact, put values last as ``key=value`` and name the next step.
No code branches on the text of a message; ``kind`` is the stable identifier that crosses
processes and reaches conditions, events and ``status.lastError``.
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """Root of every error that Headrace raises on purpose."""

    kind: ClassVar[str] = "Error"
    """Stable CamelCase identifier, used as event reason and in ``status.lastError.kind``."""

    restartable: ClassVar[bool] = True
    """Whether a failover from the last checkpoint may help (restart strategies ask this)."""


class InvalidConfigError(HeadraceError):
    """An option, manifest or connector setting is wrong; the message names the field."""

    kind = "InvalidConfig"
    restartable = False


class InvalidProgramError(InvalidConfigError):
    """The program cannot be loaded, never calls ``execute`` or builds an impossible graph."""

    kind = "InvalidProgram"


class UserCodeError(HeadraceError):
    """An exception left a user function; ``traceback_text`` holds its last frames.

    Restartable, as in Flink: the record that failed may pass after a rule or lookup changed.
    """

    kind = "UserCodeFailed"

    def __init__(self, message: str, *, traceback_text: str = "") -> None:
        super().__init__(message)
        self.traceback_text = traceback_text


class StorageUnavailableError(HeadraceError):
    """Checkpoint storage did not answer, throttled or failed for a reason that may pass."""

    kind = "StorageUnavailable"


class StorageAccessError(HeadraceError):
    """Checkpoint storage refuses what is configured (credentials, bucket, permission, path)."""

    kind = "StorageAccess"
    restartable = False


class ObjectExistsError(HeadraceError):
    """A conditional create found the object already there."""

    kind = "ObjectExists"


class ObjectMissingError(HeadraceError):
    """An object that must exist does not."""

    kind = "ObjectMissing"


class FencedError(HeadraceError):
    """A newer generation of the same job exists: stop at once, publish and commit nothing."""

    kind = "Fenced"
    restartable = False


class CorruptStateError(HeadraceError):
    """Stored bytes do not match their recorded size, checksum or format."""

    kind = "CorruptState"
    restartable = False


class IncompatibleStateError(HeadraceError):
    """Stored state cannot be read by this program; the message prints both schemas."""

    kind = "IncompatibleState"
    restartable = False


class NoRestorableStateError(HeadraceError):
    """State must exist but no checkpoint can be restored; lists the candidates looked at."""

    kind = "NoRestorableState"
    restartable = False


class SavepointFailedError(HeadraceError):
    """A savepoint could not be made; the job is not affected, and it may be asked for again."""

    kind = "SavepointFailed"


class SinkCommitError(HeadraceError):
    """Output of a completed checkpoint cannot be published, or it cannot be proved that it was."""

    kind = "SinkCommitFailed"
    restartable = False


class EpochAbortedError(HeadraceError):
    """An epoch failed before its end; its effects are rolled back by failover."""

    kind = "EpochAborted"


class SlotLostError(HeadraceError):
    """The process that owned a slot is gone or does not answer."""

    kind = "SlotLost"


class LocalStorageError(HeadraceError):
    """Working state on local disk cannot be written or read; checkpoints are not affected."""

    kind = "LocalStorageFailed"


class RescaleFailedError(HeadraceError):
    """A rescale cannot begin or has failed; the job goes on at its old parallelism."""

    kind = "RescaleFailed"


class DriverLostError(HeadraceError):
    """The driver's JVM is gone: this process cannot go on, a new driver can."""

    kind = "DriverLost"


class SourceUnavailableError(HeadraceError):
    """A source or sink system (a broker, a topic) cannot be reached or refuses access."""

    kind = "SourceUnavailable"


class InternalError(HeadraceError):
    """An invariant of Headrace itself is broken; please report it with the log."""

    kind = "Internal"
    restartable = False
