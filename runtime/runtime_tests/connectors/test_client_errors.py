"""Every error code of the client library has a class, and messages say what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.client_errors import (
    ClientEvents,
    ErrorClass,
    classify,
    kafka_errors,
)
from headrace.errors import InvalidConfigError, SinkCommitError, SourceUnavailableError

CODES = sorted(
    {
        value
        for name in dir(KafkaError)
        if name.lstrip("_").isupper() and isinstance(value := getattr(KafkaError, name), int)
    }
)
KNOWN_CODES = 188
"""Codes of the pinned library; when it grows, look whether `classify` needs the new ones."""


def test_the_library_has_no_code_that_nobody_has_looked_at():
    assert len(CODES) == KNOWN_CODES


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.SASL_AUTHENTICATION_FAILED, ErrorClass.CONFIGURATION),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, ErrorClass.CONFIGURATION),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, ErrorClass.CONFIGURATION),
        (KafkaError._TRANSPORT, ErrorClass.UNAVAILABLE),
        (KafkaError._TIMED_OUT, ErrorClass.UNAVAILABLE),
        (KafkaError.NOT_COORDINATOR, ErrorClass.UNAVAILABLE),
        (KafkaError._FENCED, ErrorClass.FENCED),
        (KafkaError.INVALID_PRODUCER_EPOCH, ErrorClass.FENCED),
        (KafkaError.MSG_SIZE_TOO_LARGE, ErrorClass.REFUSED),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, ErrorClass.UNDECIDED),
        (KafkaError._STATE, ErrorClass.UNDECIDED),
    ],
)
def test_codes_are_classified_by_what_the_reader_does(code, expected):
    assert classify(KafkaError(code)) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, InvalidConfigError),
        (KafkaError._ALL_BROKERS_DOWN, SourceUnavailableError),
        (KafkaError.PRODUCER_FENCED, SourceUnavailableError),
        (KafkaError.MSG_SIZE_TOO_LARGE, SinkCommitError),
        (KafkaError._STATE, SourceUnavailableError),
    ],
)
def test_exceptions_become_errors_with_their_place(code, expected):
    with (
        pytest.raises(expected, match=r"action='write' servers=h:1 topic=t cause=") as raised,
        kafka_errors("write", {"servers": "h:1", "topic": "t"}),
    ):
        raise KafkaException(KafkaError(code))
    assert isinstance(raised.value.__cause__, KafkaException)


def test_a_time_out_is_explained_by_what_the_client_reported():
    events = ClientEvents()
    events.on_error(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    events.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(InvalidConfigError, match="credentials"), kafka_errors("x", {}, events):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_refused_connection_says_more_than_all_brokers_down():
    events = ClientEvents()
    events.on_error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    events.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with (
        pytest.raises(SourceUnavailableError, match="connection refused"),
        kafka_errors("x", {}, events),
    ):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_fatal_error_that_a_callback_hid_is_found():
    with pytest.raises(SourceUnavailableError, match="took over"), kafka_errors("x", {}):
        raise SystemError from KafkaException(KafkaError(KafkaError._FENCED))


def test_other_errors_pass():
    with pytest.raises(SystemError), kafka_errors("x", {}):
        raise SystemError
