"""How this process talks to the broker: settings that all its clients share, and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace_demo.errors import DemoFailedError

TIMEOUT_S: Final = 30.0

_LOG_ERRORS: Final = 3
"""Syslog level: a client warns of every retry while a broker starts, on standard error."""


def client_settings(servers: str) -> dict[str, str | int | float | bool]:
    """Returns the settings of every client."""
    return {"bootstrap.servers": servers, "log_level": _LOG_ERRORS}


def create_topics(servers: str, names: Sequence[str], partitions: int) -> None:
    """Creates topics; the broker may have become ready just now.

    Raises:
        DemoFailedError: It refused, or did not answer in time.
    """
    admin = AdminClient(client_settings(servers))
    topics = [NewTopic(name, partitions, 1) for name in names]
    for name, made in admin.create_topics(topics, request_timeout=TIMEOUT_S).items():
        try:
            made.result(TIMEOUT_S)
        except KafkaException as error:
            raise DemoFailedError(
                f"a topic could not be created: look at the broker's log servers={servers} "
                f"topic={name} cause={error}"
            ) from error
