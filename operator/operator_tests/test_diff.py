"""What changed, and the greatest effect of it."""

from headrace.api.v1alpha1 import Effect, ReconciledSpec, StreamJobSpec, field_effects
from headrace_operator.diff.changes import diff_specs
from headrace_operator.diff.digests import digest_spec
from operator_tests.world import spec_manifest


def digest(**changes):
    return digest_spec(StreamJobSpec.model_validate(spec_manifest(**changes)))


def record(found):
    return ReconciledSpec(generation=1, digest=found.total, fields=found.fields)


def test_the_greatest_effect_of_all_changed_fields_counts():
    change = diff_specs(
        record(digest()), digest(parallelism=4, upgradeMode="stateless", image="job:2")
    )
    assert change.fields == ("image", "parallelism", "upgradeMode")
    assert Effect.UPGRADE is change.effect


def test_no_change_has_no_effect():
    change = diff_specs(record(digest()), digest())
    assert (change.fields, change.effect, change.needs_restart) == ((), Effect.IGNORE, False)


def test_writing_a_default_out_is_no_change():
    change = diff_specs(record(digest()), digest(maxParallelism=128, driver={"memory": "1Gi"}))
    assert change.fields == ()


def test_going_back_to_a_default_is_a_change():
    change = diff_specs(record(digest(args=["x"])), digest())
    assert change.fields == ("args",)


def test_a_field_that_this_release_does_not_know_counts_as_an_upgrade():
    newer = ReconciledSpec(
        generation=1, digest="x", fields={**digest().fields, "futureField": "abc"}
    )
    assert Effect.UPGRADE is diff_specs(newer, digest()).effect


def test_fields_without_effect_are_no_part_of_the_total():
    assert digest().total == digest(upgradeMode="savepoint").total
    assert digest().total != digest(parallelism=4).total


def test_every_field_declares_its_effect():
    assert set(field_effects()) == {field.alias for field in StreamJobSpec.model_fields.values()}


def test_the_digest_is_stable_over_releases():
    """A changed algorithm would restart every job at the operator's upgrade (OP24)."""
    assert digest().total == "0f8c593691fbb65e"
    assert digest().fields == {
        "image": "9bd3b058c3",
        "parallelism": "d4735e3a26",
        "program": "fc98ae3270",
    }
