"""Uids: the identity of state (E7)."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidProgramError
from runtime_tests.graph.programs import GraphBuilder, operator_of


def chain(*, name="Keyed", extra_before=False, extra_branch=False, uid=None):
    """A source, a keyed operator and a sink; returns (builder, id of the keyed operator)."""
    build = GraphBuilder()
    stream = build.source()
    if extra_branch:
        build.sink(build.map(stream))
    if extra_before:
        stream = build.map(stream)
    keyed = build.keyed(stream, name=name, uid=uid)
    build.sink(keyed)
    return build, keyed


def uid_of(build, operator_id):
    return operator_of(build.plan(), operator_id).uid


def test_a_user_s_uid_is_kept_as_it_is():
    build, keyed = chain(uid="per-merchant")

    operator = operator_of(build.plan(), keyed)

    assert (operator.uid, operator.uid_is_generated) == ("per-merchant", False)


def test_a_generated_uid_has_32_digits_and_is_the_same_in_every_process():
    build, keyed = chain()

    assert uid_of(build, keyed) == "41f454b7e2591d4cdfd89a7434cc603b"


def test_a_generated_uid_survives_renames_and_unrelated_branches():
    assert uid_of(*chain()) == uid_of(*chain(name="Other")) == uid_of(*chain(extra_branch=True))


def test_a_generated_uid_changes_when_an_operator_comes_before():
    assert uid_of(*chain()) != uid_of(*chain(extra_before=True))


def test_a_uid_upstream_shields_the_generated_ones_after_it_from_changes_before_it():
    def after_anchor(*, extra):
        build = GraphBuilder()
        stream = build.source()
        if extra:
            stream = build.map(stream)
        anchor = build.keyed(stream, uid="anchor")
        tail = build.keyed(anchor)
        build.sink(tail)
        return uid_of(build, tail)

    assert after_anchor(extra=False) == after_anchor(extra=True)


def test_operators_that_are_alike_are_told_apart_by_the_order_of_creation():
    build = GraphBuilder()
    source = build.source()
    first, second = build.keyed(source), build.keyed(source)
    build.sink(first, second)

    assert uid_of(build, first) != uid_of(build, second)


def test_a_stateful_operator_without_uid_is_warned_about():
    build, keyed = chain(name="Count per merchant")

    (warning,) = build.plan().warnings

    assert warning == (
        "stateful operator has a generated uid, its state is lost when the program changes before "
        f"it, call uid(...); operator='Count per merchant' uid={uid_of(build, keyed)}"
    )


def test_with_a_uid_there_is_no_warning():
    build, _ = chain(uid="count")

    assert build.plan().warnings == ()


def test_two_operators_cannot_share_a_uid():
    build = GraphBuilder()
    source = build.source()
    build.sink(build.keyed(source, uid="same", name="A"), build.keyed(source, uid="same", name="B"))

    with pytest.raises(InvalidProgramError, match="uid='same' operators='A','B'"):
        build.plan()


def test_generated_uids_can_be_forbidden():
    build, _ = chain(uid="count")

    with pytest.raises(InvalidProgramError, match="operator has no uid"):
        build.plan(auto_generate_uids=False)
