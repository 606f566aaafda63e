"""A program's own Spark session: what the job can make of it, and what it must refuse."""

from __future__ import annotations

import os
import stat

import pytest

from headrace.engine.program_session import (
    ENV_SUBMIT_ARGS,
    SessionFacts,
    as_properties,
    plan_adoption,
    preset_session,
)
from headrace.engine.session import DEFAULTS, FIXED, SessionSettings, session_options
from headrace.errors import InvalidConfigError, InvalidProgramError

CLUSTER = "k8s://https://kubernetes.default.svc:443"
OWN = {"spark.executor.instances": "2", "spark.driver.host": "10.0.0.7"}
SQL = frozenset(key for key in {**DEFAULTS, **FIXED} if key.startswith("spark.sql.")) - {
    "spark.sql.ui.retainedExecutions"
}


def cluster(**conf):
    return SessionSettings("job", CLUSTER, "secret", conf={**conf}, own=OWN)


def local(**conf):
    return SessionSettings("job", "local[2]", "secret", conf={**conf}, master_is_default=True)


def facts(master, core=None, sql=None):
    return SessionFacts(master, core or {}, sql or {}, SQL | {"spark.sql.shuffle.partitions"})


def preset_facts(settings, **changed):
    """What a session has that a program started after `preset_session`."""
    options = session_options(settings) | changed
    return facts(changed.get("spark.master", settings.master), options, options)


def test_a_session_that_started_with_the_presets_is_taken_as_it_is():
    assert {} == plan_adoption(cluster(), preset_facts(cluster()))


def test_a_plain_local_session_gets_what_a_session_can_still_be_given():
    to_set = plan_adoption(local(), facts("local[*]"))
    assert to_set == {key: value for key, value in {**DEFAULTS, **FIXED}.items() if key in SQL}
    assert to_set["spark.sql.adaptive.enabled"] == "false"


def test_what_the_program_chose_stays_where_we_only_have_a_default():
    chosen = {"spark.sql.execution.arrow.maxRecordsPerBatch": "77"}
    assert not chosen.keys() & plan_adoption(local(), facts("local[*]", sql=chosen)).keys()


def test_options_of_the_manifest_are_set_on_the_session():
    settings = local(**{"spark.sql.shuffle.partitions": "3"})
    found = facts("local[*]", sql={"spark.sql.shuffle.partitions": "200"})
    assert plan_adoption(settings, found)["spark.sql.shuffle.partitions"] == "3"


@pytest.mark.parametrize(
    ("settings", "found", "words"),
    [
        (
            cluster(),
            preset_facts(cluster(), **{"spark.master": "local[*]"}),
            f"spark.master required={CLUSTER} got=local",
        ),
        (
            cluster(),
            preset_facts(cluster(), **{"spark.executor.instances": "9"}),
            "spark.executor.instances required=2 got=9",
        ),
        (
            cluster(),
            preset_facts(cluster(), **{"spark.sql.adaptive.enabled": "true"}),
            "spark.sql.adaptive.enabled required=false got=true",
        ),
        (
            cluster(**{"spark.executor.extraJavaOptions": "-Xss4m"}),
            preset_facts(cluster()),
            "spark.executor.extraJavaOptions required=-Xss4m got=None",
        ),
        (
            local(),
            facts("local[*]", core={"spark.task.maxFailures": "4"}),
            "spark.task.maxFailures required=1 got=4",
        ),
        (local(), facts("local[4, 3]"), "spark.master required=local[2] got=local[4, 3]"),
        (
            local(),
            facts("local-cluster[2,1,1024]"),
            "spark.task.maxFailures required=1 got=None",
        ),
    ],
)
def test_a_session_that_cannot_run_the_job_is_refused_with_the_option_and_the_way_out(
    settings, found, words
):
    with pytest.raises(InvalidProgramError) as raised:
        plan_adoption(settings, found)
    assert words in str(raised.value)
    assert "env.get_spark_session()" in str(raised.value)


def test_every_conflict_is_named_at_once():
    found = preset_facts(cluster(), **{"spark.master": "local[1]", "spark.speculation": "true"})
    with pytest.raises(InvalidProgramError, match=r"spark\.master.*spark\.speculation"):
        plan_adoption(cluster(), found)


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[4,1]"])
def test_any_local_master_serves_where_nobody_asked_for_one(master):
    plan_adoption(local(), facts(master))


@pytest.mark.parametrize(
    ("wanted", "have"),
    [
        ("/a.conf,/b.conf", "file:///a.conf,file:///b.conf"),
        ("warehouse", "file:/data/warehouse"),
        ("TRUE", "true"),
    ],
)
def test_spark_may_rewrite_a_value(wanted, have):
    plan_adoption(local(**{"spark.x": wanted}), facts("local[2]", core={"spark.x": have}))


def test_presets_are_left_for_pysparks_launcher_and_taken_back(tmp_path, monkeypatch):
    monkeypatch.setenv(ENV_SUBMIT_ARGS, "--verbose pyspark-shell")
    directory = tmp_path / "a b"
    with preset_session(cluster(), directory):
        path = directory / "spark-defaults.conf"
        assert os.environ[ENV_SUBMIT_ARGS] == (
            f"--properties-file '{path}' --load-spark-defaults --verbose pyspark-shell"
        )
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        written = path.read_text().splitlines()
    assert os.environ[ENV_SUBMIT_ARGS] == "--verbose pyspark-shell"
    assert "spark.executor.instances=2" in written
    assert "spark.sql.adaptive.enabled=false" in written
    assert f"spark.master={CLUSTER}".replace(":", r"\u003a") in written


def test_presets_without_arguments_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv(ENV_SUBMIT_ARGS, raising=False)
    with preset_session(local(), tmp_path):
        assert os.environ[ENV_SUBMIT_ARGS].endswith(" --load-spark-defaults pyspark-shell")
    assert ENV_SUBMIT_ARGS not in os.environ


def test_a_fixed_option_in_the_manifest_is_refused_before_the_program_runs(tmp_path):
    with (
        pytest.raises(InvalidConfigError, match=r"spark\.task\.maxFailures"),
        preset_session(cluster(**{"spark.task.maxFailures": "4"}), tmp_path),
    ):
        pytest.fail("the body ran")


def test_properties_are_escaped_for_java():
    written = as_properties({"a.b": "x=1: \\ ü\n#!", "k": "😀"})
    assert written == (
        r"a.b=x\u003d1\u003a\u0020\u005c\u0020\u00fc\u000a\u0023\u0021" "\n" r"k=\ud83d\ude00" "\n"
    )


def test_the_class_path_begins_with_sparks_jars_in_order_where_there_is_an_archive_of_classes(
    tmp_path, monkeypatch
):
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "readme.txt"):
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "spark.driver.extraClassPath" not in session_options(local())
    monkeypatch.setenv("HEADRACE_CLASSES", "-XX:SharedArchiveFile=/archive")
    jars = tmp_path / "jars"
    assert session_options(local())["spark.driver.extraClassPath"] == f"{jars}/a.jar:{jars}/b.jar"
    users = session_options(local(**{"spark.driver.extraClassPath": "/own.jar"}))
    assert users["spark.driver.extraClassPath"] == "/own.jar"
