"""Carrying a typed error out of a Spark task.

Spark flattens an exception of a Python task into text. To keep the kind, a task raises `TaskError`,
whose text holds an `ErrorInfo` as base64 between two marks; the driver reads it back. This is an
encoding, not a reading of messages.
"""

from __future__ import annotations

import base64
import contextlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.slot.messages import ErrorInfo
from headrace.slot.wire_errors import to_error_info

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = re.compile(r"<headrace-error>([A-Za-z0-9+/=]+)</headrace-error>")


class TaskError(Exception):
    """An error on its way out of a Spark task."""

    def __init__(self, info: ErrorInfo) -> None:
        payload = base64.b64encode(msgspec.json.encode(info)).decode()
        super().__init__(f"{info.message}\n<headrace-error>{payload}</headrace-error>")


@contextlib.contextmanager
def reporting_errors() -> Iterator[None]:
    """Turn exceptions of the block into `TaskError`."""
    try:
        yield
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(to_error_info(error)) from error


def find_task_error(text: str) -> ErrorInfo | None:
    """Return the error that a task raised, from the text of Spark's exception."""
    match = _MARK.search(text)
    if match is None:
        return None
    return msgspec.json.decode(base64.b64decode(match[1]), type=ErrorInfo)
