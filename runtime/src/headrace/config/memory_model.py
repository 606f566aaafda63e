"""An executor's memory, divided into Flink's pools (A5, J1). Pure.

::

    process size = what the pod's limit is
    ├── JVM metaspace
    ├── JVM overhead               fraction of the process size, bounded
    └── flink size
        ├── framework heap         ┐ JVM heap of the executor
        ├── task heap              ┘ what the others leave, unless set
        ├── framework off-heap
        ├── task off-heap          Python: user objects of slot processes and workers
        ├── managed                state backends, divided equally among the slots
        └── network                fraction of the flink size, bounded: shuffle, Arrow, sockets

Source: Flink's ``TaskExecutorProcessUtils`` and ``TaskExecutorFlinkMemoryUtils``. As there,
exactly one of process size, flink size, and task heap with managed size decides the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.config.options import memory
from headrace.config.values import format_memory
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from headrace.config.job_configuration import JobConfiguration
    from headrace.config.option import Option


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """Pools of one executor in bytes; they add up to ``process_bytes``."""

    framework_heap_bytes: int
    task_heap_bytes: int
    framework_off_heap_bytes: int
    task_off_heap_bytes: int
    managed_bytes: int
    network_bytes: int
    metaspace_bytes: int
    overhead_bytes: int

    @property
    def flink_bytes(self) -> int:
        """Memory without metaspace and overhead."""
        return (
            self.heap_bytes
            + self.framework_off_heap_bytes
            + self.task_off_heap_bytes
            + self.managed_bytes
            + self.network_bytes
        )

    @property
    def process_bytes(self) -> int:
        """All memory: the limit of the pod."""
        return self.flink_bytes + self.metaspace_bytes + self.overhead_bytes

    @property
    def heap_bytes(self) -> int:
        """Heap of the executor's JVM (``spark.executor.memory``)."""
        return self.framework_heap_bytes + self.task_heap_bytes

    @property
    def beyond_heap_bytes(self) -> int:
        """Everything else (``spark.executor.memoryOverhead``)."""
        return self.process_bytes - self.heap_bytes

    def managed_bytes_per_slot(self, slots: int) -> int:
        """Return a slot's equal share of managed memory."""
        return self.managed_bytes // slots


def derive_memory(configuration: JobConfiguration) -> MemoryModel | None:
    """Return the pools that the options describe, None when they name no size at all.

    Raises:
        InvalidConfigError: the sizes contradict each other or leave a pool without memory.
    """
    process = configuration.get(memory.PROCESS_SIZE)
    flink = configuration.get(memory.FLINK_SIZE)
    task_heap = configuration.get(memory.TASK_HEAP)
    managed = configuration.get(memory.MANAGED_SIZE)
    metaspace = configuration.get(memory.METASPACE)
    if task_heap is not None and managed is not None:
        model = _from_heap_and_managed(configuration, task_heap, managed)
        _check_total(memory.FLINK_SIZE, flink, model.flink_bytes)
        _check_total(memory.PROCESS_SIZE, process, model.process_bytes)
        return model
    if flink is not None:
        overhead = _overhead_beside(configuration, flink + metaspace)
        model = _from_flink_size(configuration, flink, overhead)
        _check_total(memory.PROCESS_SIZE, process, model.process_bytes)
        return model
    if process is not None:
        overhead = _overhead_within(configuration, process)
        return _from_flink_size(configuration, process - metaspace - overhead, overhead)
    return None


def _from_flink_size(
    configuration: JobConfiguration, flink_bytes: int, overhead_bytes: int
) -> MemoryModel:
    get = configuration.get
    managed = get(memory.MANAGED_SIZE)
    if managed is None:
        managed = int(flink_bytes * get(memory.MANAGED_FRACTION))
    fixed = get(memory.FRAMEWORK_HEAP) + get(memory.FRAMEWORK_OFF_HEAP) + get(memory.TASK_OFF_HEAP)
    task_heap = get(memory.TASK_HEAP)
    if task_heap is None:
        network = _network_of(configuration, int(flink_bytes * get(memory.NETWORK_FRACTION)))
        task_heap = flink_bytes - fixed - managed - network
        lacking, pool = task_heap, memory.TASK_HEAP.key
    else:
        network = flink_bytes - fixed - managed - task_heap
        lacking, pool = network - get(memory.NETWORK_MIN), memory.NETWORK_MIN.key
    if lacking < 0:
        msg = (
            f"the pools of an executor do not fit into its memory, raise "
            f"{memory.PROCESS_SIZE.key} or lower a pool; "
            f"flink_size={format_memory(flink_bytes) if flink_bytes > 0 else flink_bytes} "
            f"lacking={format_memory(-lacking)} pool={pool}"
        )
        raise InvalidConfigError(msg)
    return _model(configuration, task_heap, managed, network, overhead_bytes)


def _from_heap_and_managed(
    configuration: JobConfiguration, task_heap_bytes: int, managed_bytes: int
) -> MemoryModel:
    get = configuration.get
    others = (
        get(memory.FRAMEWORK_HEAP)
        + get(memory.FRAMEWORK_OFF_HEAP)
        + get(memory.TASK_OFF_HEAP)
        + task_heap_bytes
        + managed_bytes
    )
    fraction = get(memory.NETWORK_FRACTION)
    network = _network_of(configuration, int(others * fraction / (1 - fraction)))
    overhead = _overhead_beside(configuration, others + network + get(memory.METASPACE))
    return _model(configuration, task_heap_bytes, managed_bytes, network, overhead)


def _model(
    configuration: JobConfiguration, task_heap: int, managed: int, network: int, overhead: int
) -> MemoryModel:
    get = configuration.get
    return MemoryModel(
        framework_heap_bytes=get(memory.FRAMEWORK_HEAP),
        task_heap_bytes=task_heap,
        framework_off_heap_bytes=get(memory.FRAMEWORK_OFF_HEAP),
        task_off_heap_bytes=get(memory.TASK_OFF_HEAP),
        managed_bytes=managed,
        network_bytes=network,
        metaspace_bytes=get(memory.METASPACE),
        overhead_bytes=overhead,
    )


def _network_of(configuration: JobConfiguration, wanted_bytes: int) -> int:
    least = configuration.get(memory.NETWORK_MIN)
    most = configuration.get(memory.NETWORK_MAX)
    return max(least, wanted_bytes if most is None else min(most, wanted_bytes))


def _overhead_within(configuration: JobConfiguration, process_bytes: int) -> int:
    """Return the overhead when it is a fraction of a known process size."""
    wanted = int(process_bytes * configuration.get(memory.OVERHEAD_FRACTION))
    return _bounded_overhead(configuration, wanted)


def _overhead_beside(configuration: JobConfiguration, rest_bytes: int) -> int:
    """Return the overhead that is the fraction of itself and ``rest_bytes`` together."""
    fraction = configuration.get(memory.OVERHEAD_FRACTION)
    return _bounded_overhead(configuration, int(rest_bytes * fraction / (1 - fraction)))


def _bounded_overhead(configuration: JobConfiguration, wanted_bytes: int) -> int:
    least = configuration.get(memory.OVERHEAD_MIN)
    return max(least, min(configuration.get(memory.OVERHEAD_MAX), wanted_bytes))


def _check_total(option: Option[int | None], set_bytes: int | None, sum_bytes: int) -> None:
    if set_bytes is None or set_bytes == sum_bytes:
        return
    msg = (
        f"the pools of an executor add up to another size, remove {option.key} or correct it; "
        f"{option.key}={format_memory(set_bytes)} sum={format_memory(sum_bytes)}"
    )
    raise InvalidConfigError(msg)
