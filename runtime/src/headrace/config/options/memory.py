"""Options of slots and memory (A5, A7, J1), with Flink's keys."""

from __future__ import annotations

from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import MEMORY, integer, number, optional

_SECTION: Final = Section.MEMORY
_MB: Final = 1 << 20

SLOTS: Final = Option(
    "taskmanager.numberOfTaskSlots",
    optional(integer(1, 1024)),
    None,
    _SECTION,
    "Slots of one executor. Not set: its cores.",
)
PROCESS_SIZE: Final = Option(
    "taskmanager.memory.process.size",
    optional(MEMORY),
    None,
    _SECTION,
    "All memory of an executor's pod. Exactly one of this, `taskmanager.memory.flink.size` or the "
    "pair of task heap and managed size decides the rest.",
)
FLINK_SIZE: Final = Option(
    "taskmanager.memory.flink.size",
    optional(MEMORY),
    None,
    _SECTION,
    "Process memory without JVM metaspace and overhead.",
)
FRAMEWORK_HEAP: Final = Option(
    "taskmanager.memory.framework.heap.size",
    MEMORY,
    128 * _MB,
    _SECTION,
    "JVM heap for Spark itself.",
)
FRAMEWORK_OFF_HEAP: Final = Option(
    "taskmanager.memory.framework.off-heap.size",
    MEMORY,
    128 * _MB,
    _SECTION,
    "Memory outside the heap for Spark itself.",
)
TASK_HEAP: Final = Option(
    "taskmanager.memory.task.heap.size",
    optional(MEMORY),
    None,
    _SECTION,
    "JVM heap for tasks; 256mb to 4gb are usual. Not set: what the other pools leave.",
)
TASK_OFF_HEAP: Final = Option(
    "taskmanager.memory.task.off-heap.size",
    MEMORY,
    0,
    _SECTION,
    "Memory for Python: user objects of the executor's slot processes and workers together.",
)
MANAGED_SIZE: Final = Option(
    "taskmanager.memory.managed.size",
    optional(MEMORY),
    None,
    _SECTION,
    "Memory for state backends of all slots of an executor. Not set: the fraction.",
)
MANAGED_FRACTION: Final = Option(
    "taskmanager.memory.managed.fraction",
    number(0.0, 0.95),
    0.4,
    _SECTION,
    "Part of `taskmanager.memory.flink.size` for state backends.",
)
NETWORK_MIN: Final = Option(
    "taskmanager.memory.network.min", MEMORY, 64 * _MB, _SECTION, "Least network memory."
)
NETWORK_MAX: Final = Option(
    "taskmanager.memory.network.max",
    optional(MEMORY),
    None,
    _SECTION,
    "Most network memory. Not set: no bound.",
)
NETWORK_FRACTION: Final = Option(
    "taskmanager.memory.network.fraction",
    number(0.0, 0.95),
    0.1,
    _SECTION,
    "Part of `taskmanager.memory.flink.size` for exchanged data: shuffle, Arrow and pipe buffers.",
)
METASPACE: Final = Option(
    "taskmanager.memory.jvm-metaspace.size",
    MEMORY,
    256 * _MB,
    _SECTION,
    "JVM metaspace.",
)
OVERHEAD_MIN: Final = Option(
    "taskmanager.memory.jvm-overhead.min", MEMORY, 192 * _MB, _SECTION, "Least JVM overhead."
)
OVERHEAD_MAX: Final = Option(
    "taskmanager.memory.jvm-overhead.max", MEMORY, 1024 * _MB, _SECTION, "Most JVM overhead."
)
OVERHEAD_FRACTION: Final = Option(
    "taskmanager.memory.jvm-overhead.fraction",
    number(0.0, 0.95),
    0.1,
    _SECTION,
    "Part of process memory for thread stacks, code cache and the like.",
)

OPTIONS: Final = (
    SLOTS,
    PROCESS_SIZE,
    FLINK_SIZE,
    FRAMEWORK_HEAP,
    FRAMEWORK_OFF_HEAP,
    TASK_HEAP,
    TASK_OFF_HEAP,
    MANAGED_SIZE,
    MANAGED_FRACTION,
    NETWORK_MIN,
    NETWORK_MAX,
    NETWORK_FRACTION,
    METASPACE,
    OVERHEAD_MIN,
    OVERHEAD_MAX,
    OVERHEAD_FRACTION,
)
