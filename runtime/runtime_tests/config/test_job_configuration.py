"""From text by key to validated values: aliases, layers, messages."""

from __future__ import annotations

import pytest

from headrace.config.job_configuration import build_configuration, merge_settings, parse_options
from headrace.config.options import checkpointing, engine, job, restart, state, storage
from headrace.config.options.checkpointing import CheckpointMode
from headrace.config.options.restart import RestartStrategyKind
from headrace.config.options.state import StateBackendKind
from headrace.errors import InvalidConfigError

PRODUCTION = {
    "state.backend": "rocksdb",
    "state.backend.incremental": "true",
    "state.checkpoints.dir": "s3://flink-ckpts/upi/",
    "execution.checkpointing.interval": "60000",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.timeout": "300000",
    "execution.checkpointing.min-pause": "30000",
    "state.backend.rocksdb.memory.managed": "true",
    "taskmanager.memory.managed.fraction": "0.4",
}
"""The keys of requirement D12 with the values of D13."""


def test_the_production_keys_of_flink_have_their_meaning():
    configuration = build_configuration(PRODUCTION)

    assert StateBackendKind.ROCKSDB is configuration.get(state.BACKEND)
    assert configuration.get(checkpointing.INCREMENTAL) is True
    assert configuration.get(checkpointing.DIRECTORY) == "s3://flink-ckpts/upi/"
    assert configuration.get(checkpointing.INTERVAL) == 60_000
    assert CheckpointMode.EXACTLY_ONCE is configuration.get(checkpointing.MODE)
    assert configuration.get(checkpointing.TIMEOUT) == 300_000
    assert configuration.get(checkpointing.MIN_PAUSE) == 30_000


def test_without_settings_checkpointing_is_off_and_defaults_are_flinks():
    configuration = build_configuration({})

    assert configuration.get(checkpointing.INTERVAL) is None
    assert configuration.get(checkpointing.TIMEOUT) == 600_000
    assert configuration.get(job.MAX_PARALLELISM) == 128
    assert configuration.get(restart.EXPONENTIAL_MULTIPLIER) == 1.5
    assert not configuration.is_set(checkpointing.TIMEOUT)


@pytest.mark.parametrize(
    ("older", "present"),
    [
        ("state.backend", "state.backend.type"),
        ("state.checkpoints.dir", "execution.checkpointing.dir"),
        ("state.checkpoints.num-retained", "execution.checkpointing.num-retained"),
        ("state.backend.incremental", "execution.checkpointing.incremental"),
        ("restart-strategy", "restart-strategy.type"),
        ("execution.savepoint.path", "execution.state-recovery.path"),
    ],
)
def test_older_keys_mean_the_same_as_present_ones(older, present):
    text = {
        "state.backend": "hashmap",
        "state.checkpoints.num-retained": "3",
        "state.backend.incremental": "false",
        "restart-strategy": "none",
    }.get(older, "file:///tmp/x")

    assert parse_options({older: text}).values == parse_options({present: text}).values


def test_two_spellings_may_agree_but_not_differ():
    same = {"state.backend": "hashmap", "state.backend.type": "HASHMAP"}
    assert StateBackendKind.HASHMAP is parse_options(same).get(state.BACKEND)

    with pytest.raises(InvalidConfigError, match=r"keys=state.backend,state.backend.type"):
        parse_options({"state.backend": "hashmap", "state.backend.type": "rocksdb"})


def test_an_unknown_key_is_refused_and_the_nearest_one_named():
    with pytest.raises(InvalidConfigError) as caught:
        parse_options({"execution.checkpointing.intervall": "1 min"})

    assert str(caught.value) == (
        "unknown option, did you mean execution.checkpointing.interval; "
        "key=execution.checkpointing.intervall"
    )


def test_a_key_that_is_like_no_other_points_at_the_list():
    with pytest.raises(InvalidConfigError, match="`headrace config` lists all options"):
        parse_options({"zzz": "1"})


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.unaligned.enabled",
        "high-availability.type",
        "pipeline.object-reuse",
        "jobmanager.rpc.port",
    ],
)
def test_keys_of_flink_without_effect_are_refused_with_what_to_do_instead(key):
    with pytest.raises(InvalidConfigError, match="is not supported, "):
        parse_options({key: "true"})


def test_a_wrong_value_names_key_value_and_what_is_accepted():
    with pytest.raises(InvalidConfigError) as caught:
        parse_options({"execution.checkpointing.interval": "soon"})

    assert str(caught.value) == (
        'option has a wrong value, expected a duration such as "30 s" or "1 min", or '
        "milliseconds; key=execution.checkpointing.interval value='soon'"
    )


def test_secrets_never_reach_a_message_or_a_listing():
    settings = {"s3.access-key": "AKIA", "s3.secret-key": "hunter2"}
    configuration = parse_options(settings)

    assert configuration.to_text() == {"s3.access-key": "******", "s3.secret-key": "******"}
    assert configuration.storage_options()["s3.secret-key"] == "hunter2"
    assert configuration.get(storage.S3_SECRET_KEY) == "hunter2"


def test_options_of_the_state_backend_that_were_set_are_handed_on():
    options = parse_options(
        {
            "state.backend": "rocksdb",
            "state.backend.rocksdb.writebuffer.size": "128mb",
            "headrace.state.cache.fraction": "0.5",
            "parallelism.default": "2",
        }
    ).state_backend_options()

    assert options == {
        "state.backend.rocksdb.writebuffer.size": "128mb",
        "headrace.state.cache.fraction": "0.5",
    }


def test_keys_of_spark_are_passed_on_untouched():
    configuration = parse_options({"spark.sql.shuffle.partitions": "7"})

    assert configuration.spark == {"spark.sql.shuffle.partitions": "7"}


def test_a_configuration_written_out_and_read_again_is_the_same():
    settings = {**PRODUCTION, "s3.secret-key": "x", "s3.access-key": "y", "spark.a": "b"}
    configuration = build_configuration(settings)

    again = build_configuration(configuration.to_settings())

    assert (configuration.values, configuration.spark) == (again.values, again.spark)


def test_a_later_layer_wins_whatever_spelling_it_uses():
    merged = merge_settings(
        {"state.checkpoints.dir": "file:///file", "rest.port": "1"},
        {"execution.checkpointing.dir": "file:///program"},
    )

    assert merged == {"rest.port": "1", "execution.checkpointing.dir": "file:///program"}


def test_layers_keep_unknown_keys_so_that_they_are_refused():
    assert merge_settings({"typo": "1"}, {"rest.port": "2"}) == {"typo": "1", "rest.port": "2"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"parallelism.default": "200"},
            (
                "parallelism must not exceed the number of key groups, raise "
                "pipeline.max-parallelism before the first start; "
                "parallelism=200 max_parallelism=128"
            ),
        ),
        (
            {"execution.checkpointing.interval": "60000"},
            (
                "checkpointing needs a directory, set execution.checkpointing.dir; "
                "execution.checkpointing.interval=60000"
            ),
        ),
        (
            {
                "execution.checkpointing.interval": "1 ms",
                "execution.checkpointing.dir": "file:///x",
            },
            (
                "duration is too short, use 10 ms or more; "
                "key=execution.checkpointing.interval value_ms=1"
            ),
        ),
        (
            {"heartbeat.interval": "1 min"},
            (
                "heartbeat.timeout must be longer than heartbeat.interval; "
                "timeout_ms=20000 interval_ms=60000"
            ),
        ),
        (
            {"restart-strategy.exponential-delay.initial-backoff": "2 min"},
            (
                "restart-strategy.exponential-delay.initial-backoff must be at least 1 ms and not "
                "above restart-strategy.exponential-delay.max-backoff; "
                "initial_ms=120000 max_ms=60000"
            ),
        ),
    ],
)
def test_rules_between_options_name_the_options_and_values(settings, reason):
    with pytest.raises(InvalidConfigError) as caught:
        build_configuration(settings)

    assert reason == str(caught.value)


def test_the_program_s_names_of_restart_strategies_are_all_understood():
    for text in ("exponential-delay", "exponentialdelay", "EXPONENTIAL_DELAY"):
        kind = parse_options({"restart-strategy": text}).get(restart.KIND)
        assert RestartStrategyKind.EXPONENTIAL_DELAY is kind
    for text in ("none", "off", "disable"):
        assert RestartStrategyKind.NONE is parse_options({"restart-strategy": text}).get(
            restart.KIND
        )


def test_a_key_of_an_option_is_the_one_that_the_user_wrote():
    configuration = parse_options({"state.checkpoints.dir": "/tmp/x"})

    assert configuration.key_of(checkpointing.DIRECTORY) == "state.checkpoints.dir"
    assert configuration.key_of(engine.REST_PORT) == "rest.port"
