"""Options of the job as a whole."""

from __future__ import annotations

import enum
from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import BOOLEAN, STRING, enumeration, integer, optional
from headrace.keygroups import MAX_PARALLELISM_DEFAULT, MAX_PARALLELISM_LIMIT

_SECTION: Final = Section.JOB


class RuntimeMode(enum.Enum):
    """How a program is run."""

    STREAMING = "STREAMING"


NAME: Final = Option(
    "pipeline.name",
    optional(STRING),
    None,
    _SECTION,
    "Name of the job when `execute()` gives none.",
)
PARALLELISM: Final = Option(
    "parallelism.default",
    integer(1, MAX_PARALLELISM_LIMIT),
    1,
    _SECTION,
    "Number of slots of the job. `spec.parallelism` of a StreamJob takes precedence.",
)
MAX_PARALLELISM: Final = Option(
    "pipeline.max-parallelism",
    integer(1, MAX_PARALLELISM_LIMIT),
    MAX_PARALLELISM_DEFAULT,
    _SECTION,
    "Number of key groups, the bound of parallelism. Fixed by the first start for the life of "
    "the job's state.",
)
AUTO_GENERATE_UIDS: Final = Option(
    "pipeline.auto-generate-uids",
    BOOLEAN,
    True,
    _SECTION,
    "Derive uids from the structure for operators without `uid(...)`. When false, such an "
    "operator is refused.",
)
RUNTIME_MODE: Final = Option(
    "execution.runtime-mode",
    enumeration(RuntimeMode),
    RuntimeMode.STREAMING,
    _SECTION,
    "How the program is run. Bounded sources end a streaming job by themselves.",
)

OPTIONS: Final = (NAME, PARALLELISM, MAX_PARALLELISM, AUTO_GENERATE_UIDS, RUNTIME_MODE)
