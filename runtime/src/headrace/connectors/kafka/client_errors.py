"""What a librdkafka error means to a reader, decided in one place (STYLE 22).

`classify` is pure. `kafka_errors` is the only place that turns a ``KafkaException`` into an error
of Headrace. librdkafka reports some causes (refused credentials, unreachable hosts) only through
its error callback, while the call itself just times out; a client's `ClientEvents` collects them,
and the most telling one wins.
"""
# ruff: noqa: SLF001 - the names of librdkafka's local error codes start with an underscore

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from headrace.errors import (
    HeadraceError,
    InvalidConfigError,
    SinkCommitError,
    SourceUnavailableError,
)

logger = logging.getLogger(__name__)


class ErrorClass(enum.Enum):
    """What the reader of an error does."""

    CONFIGURATION = "configuration"
    """Fix a setting, a topic or a permission."""

    UNAVAILABLE = "unavailable"
    """Try again."""

    FENCED = "fenced"
    """Another producer has taken over the transactional id, or the transaction timed out."""

    UNDECIDED = "undecided"
    """The transaction's state is unknown here: settle it with a new producer, read the ledger."""

    REFUSED = "refused"
    """The broker will never take these records as they are."""


_CONFIGURATION: Final[Mapping[int, str]] = {
    KafkaError._AUTHENTICATION: "the broker refused the credentials",
    KafkaError.SASL_AUTHENTICATION_FAILED: "the broker refused the credentials",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "the broker does not know the SASL mechanism",
    KafkaError.ILLEGAL_SASL_STATE: "the listener expects another security protocol",
    KafkaError._SSL: "the TLS handshake failed",
    KafkaError._INVALID_ARG: "a client setting is not valid",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic does not exist, create it first",
    KafkaError._UNKNOWN_TOPIC: "the topic does not exist, create it first",
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist",
    KafkaError.TOPIC_EXCEPTION: "the topic's name is not valid",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user may not use the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user may not use the consumer group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user may not use the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use the transactional id",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms"
    ),
    KafkaError.INVALID_GROUP_ID: "the name of the consumer group is not valid",
    KafkaError.SECURITY_DISABLED: "the broker has no security set up",
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know the compression type",
    KafkaError.POLICY_VIOLATION: "a policy of the broker forbids it",
    KafkaError.UNSUPPORTED_VERSION: "the broker is too old",
}

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)

_REFUSED: Final[Mapping[int, str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "a record is larger than the topic allows, raise max.message.bytes of the topic "
        "and message.max.bytes of the sink"
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: "a batch is larger than the topic's segment.bytes",
    KafkaError.INVALID_RECORD: "the broker refused a record, see the topic's settings",
    KafkaError.INVALID_TIMESTAMP: (
        "a record's timestamp is outside of the topic's message.timestamp bounds"
    ),
    KafkaError.INVALID_CONFIG: "the topic's configuration refuses the record",
}

_UNAVAILABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._RETRY,
        KafkaError._QUEUE_FULL,
        KafkaError._DESTROY,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.REBOOTSTRAP_REQUIRED,
        KafkaError.STALE_BROKER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._WAIT_COORD,
        KafkaError._NODE_UPDATE,
        KafkaError._DESTROY_BROKER,
        KafkaError.NOT_ENOUGH_REPLICAS,
    }
)


def classify(error: KafkaError) -> ErrorClass:
    """Return what to do about an error of a client call or a delivery report."""
    code = error.code()
    if code in _FENCED:
        return ErrorClass.FENCED
    if code in _CONFIGURATION:
        return ErrorClass.CONFIGURATION
    if code in _REFUSED:
        return ErrorClass.REFUSED
    if code in _UNAVAILABLE or error.retriable():
        return ErrorClass.UNAVAILABLE
    return ErrorClass.UNDECIDED


class ClientEvents:
    """Errors that a client reported by callback; one for each client, called from its polls."""

    def __init__(self) -> None:
        self._configuration: KafkaError | None = None
        self._fatal: KafkaError | None = None
        self._latest: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """``error_cb`` of the client."""
        if self._latest is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._latest = error  # the summary says less than what it sums up
        if error.fatal():
            self._fatal = error
        if classify(error) is ErrorClass.CONFIGURATION:
            self._configuration = error
        logger.debug("kafka client event error=%s", error)

    def most_telling(self, error: KafkaError) -> KafkaError:
        """Return the cause of a call that failed with ``error``: that, or what was reported."""
        if error.code() == KafkaError._FATAL and self._fatal is not None:
            return self._fatal  # a client past its end reports only that it is
        if classify(error) is not ErrorClass.UNAVAILABLE:
            return error
        return self._configuration or self._latest or error

    @property
    def latest(self) -> KafkaError | None:
        """The last report of any kind."""
        return self._latest

    @property
    def configuration(self) -> KafkaError | None:
        """The last report that says a setting is wrong, if any."""
        return self._configuration


def to_headrace_error(error: KafkaError, action: str, where: Mapping[str, object]) -> HeadraceError:
    """Return the error to raise; ``where`` becomes the ``key=value`` end of its message."""
    values = " ".join(f"{name}={value}" for name, value in where.items())
    end = f"action={action!r} {values} cause={error.name()}: {error.str()}"
    match classify(error):
        case ErrorClass.CONFIGURATION:
            return InvalidConfigError(f"{_CONFIGURATION[error.code()]}; {end}")
        case ErrorClass.UNAVAILABLE:
            return SourceUnavailableError(f"kafka did not answer or could not serve; {end}")
        case ErrorClass.FENCED:
            # Restartable: if this attempt is the newest, its next generation takes the id back; if
            # it is not, nobody listens to it any more.
            return SourceUnavailableError(f"another attempt took over the transactional id; {end}")
        case ErrorClass.REFUSED:
            return SinkCommitError(f"{_REFUSED[error.code()]}; {end}")
        case ErrorClass.UNDECIDED:
            # Nothing is lost: the checkpoint holds what could not be published.
            return SourceUnavailableError(f"kafka failed in an unexpected way; {end}")


def error_of(exception: KafkaException) -> KafkaError:
    """Return the error that a ``KafkaException`` carries."""
    error = exception.args[0]
    if not isinstance(error, KafkaError):
        raise exception
    return error


@contextmanager
def kafka_errors(
    action: str, where: Mapping[str, object], events: ClientEvents | None = None
) -> Iterator[None]:
    """Map what the client library raises inside.

    Args:
        action: what is being done, for the message.
        where: servers, topic, ids; never a secret.
        events: callback reports of the client in use.

    Raises:
        InvalidConfigError, SourceUnavailableError, SinkCommitError: see `ErrorClass`.
    """
    try:
        yield
    except KafkaException as exception:
        error = error_of(exception)
        cause = error if events is None else events.most_telling(error)
        raise to_headrace_error(cause, action, where) from exception
    except SystemError as wrapped:
        # The binding raises fatal errors out of its polls; when a callback runs beside one, the
        # interpreter wraps it.
        if not isinstance(wrapped.__cause__, KafkaException):
            raise
        raise to_headrace_error(error_of(wrapped.__cause__), action, where) from wrapped
