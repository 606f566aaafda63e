"""An executor's memory: pools that always add up (J1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import parse_options
from headrace.config.memory_model import derive_memory
from headrace.errors import InvalidConfigError

MB = 1 << 20
GB = 1 << 30


def derive(**sizes):
    names = {name.replace("__", ".").replace("_", "-"): size for name, size in sizes.items()}
    return derive_memory(
        parse_options({f"taskmanager.memory.{name}": text for name, text in names.items()})
    )


def test_without_any_size_there_is_no_model():
    assert derive() is None


def test_a_process_size_is_divided_as_flink_divides_it():
    """The numbers of Flink's own documentation for 1728 MB (the default of its image)."""
    model = derive(process__size="1728mb")

    assert model.overhead_bytes == 192 * MB
    assert model.metaspace_bytes == 256 * MB
    assert model.flink_bytes == 1280 * MB
    assert model.managed_bytes == 512 * MB
    assert model.network_bytes == 128 * MB
    assert model.task_heap_bytes == 384 * MB
    assert model.process_bytes == 1728 * MB


def test_a_flink_size_gets_metaspace_and_overhead_beside_it():
    model = derive(flink__size="1280mb")

    assert model.flink_bytes == 1280 * MB
    assert model.process_bytes == 1728 * MB


def test_heap_and_managed_size_decide_the_rest():
    model = derive(task__heap__size="512mb", managed__size="1gb", task__off_heap__size="128mb")

    others = (128 + 128 + 128 + 512 + 1024) * MB
    assert model.network_bytes == int(others * 0.1 / 0.9)
    assert (model.task_heap_bytes, model.managed_bytes) == (512 * MB, GB)
    assert model.heap_bytes == 640 * MB
    assert model.process_bytes == model.heap_bytes + model.beyond_heap_bytes


def test_slots_share_managed_memory_equally():
    assert derive(process__size="1728mb").managed_bytes_per_slot(4) == 128 * MB


def test_pools_that_do_not_fit_are_refused_with_what_is_lacking():
    with pytest.raises(InvalidConfigError) as caught:
        derive(process__size="1gb", managed__size="512mb")

    assert str(caught.value) == (
        "the pools of an executor do not fit into its memory, raise "
        "taskmanager.memory.process.size or lower a pool; flink_size=576mb lacking=256mb "
        "pool=taskmanager.memory.task.heap.size"
    )


def test_a_set_heap_may_not_eat_the_network():
    with pytest.raises(InvalidConfigError, match=r"pool=taskmanager\.memory\.network\.min"):
        derive(flink__size="1gb", task__heap__size="512mb")


def test_a_memory_smaller_than_its_overhead_is_refused():
    with pytest.raises(InvalidConfigError, match="do not fit"):
        derive(process__size="128mb")


def test_a_total_that_contradicts_its_pools_is_refused():
    with pytest.raises(InvalidConfigError) as caught:
        derive(process__size="2gb", flink__size="1280mb")

    assert str(caught.value) == (
        "the pools of an executor add up to another size, remove taskmanager.memory.process.size "
        "or correct it; taskmanager.memory.process.size=2gb sum=1728mb"
    )


@pytest.mark.property
@given(
    st.integers(1 * GB, 64 * GB),
    st.floats(0.0, 0.6),
    st.floats(0.0, 0.2),
)
def test_pools_add_up_to_the_process_size(process_bytes, managed, network):
    model = derive(
        process__size=str(process_bytes),
        managed__fraction=repr(managed),
        network__fraction=repr(network),
        network__min="0",
        framework__heap__size="0",
        framework__off_heap__size="0",
    )

    assert model.process_bytes == process_bytes
    assert model.task_heap_bytes >= 0
    assert model.managed_bytes <= model.flink_bytes * managed + 1
