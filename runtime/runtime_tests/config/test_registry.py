"""The list of options itself, and the page written from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.reference import render_reference
from headrace.config.registry import OPTIONS, UNSUPPORTED_PREFIXES, find_option, known_keys

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_every_default_is_a_value_that_its_type_reads_back(option):
    if option.default is None:
        assert option.type.format(None) == "(none)"
        return
    assert option.default == option.type.parse(option.type.format(option.default))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_every_option_says_what_it_does_in_a_sentence(option):
    assert option.description[0].isupper() or option.description.startswith("`")
    assert option.description.endswith(".")
    assert "|" not in option.description


def test_every_key_finds_its_option():
    assert all(key in find_option(key).keys for key in known_keys())


def test_no_supported_key_falls_under_a_refused_prefix():
    refused = [key for key in known_keys() if key.startswith(tuple(UNSUPPORTED_PREFIXES))]
    assert refused == []


def test_the_reference_page_is_up_to_date():
    """`python -m headrace.config.reference > docs/configuration.md` writes it."""
    assert render_reference() == PAGE.read_text()


def test_the_reference_page_shows_no_secret_and_every_key():
    page = render_reference()
    assert [key for key in known_keys() if f"`{key}`" not in page] == []
