"""Configuration files: one ``key: value`` a line (L5)."""

from __future__ import annotations

import pytest

from headrace.config.file import parse_settings, read_settings
from headrace.errors import InvalidConfigError


def test_a_file_holds_keys_values_comments_and_quotes():
    text = """
# checkpoints
execution.checkpointing.interval: 30 s   # half a minute
state.checkpoints.dir: "s3://bucket/path # not a comment"
rest.port: '8082'
empty.value:\x20
quoted: "a b" # why
empty.quotes: ""
url: http://host:80/a#b
"""
    assert parse_settings(text, origin="conf") == {
        "execution.checkpointing.interval": "30 s",
        "state.checkpoints.dir": "s3://bucket/path # not a comment",
        "rest.port": "8082",
        "empty.value": "",
        "quoted": "a b",
        "empty.quotes": "",
        "url": "http://host:80/a#b",
    }


@pytest.mark.parametrize("line", ["rest.port=1", "- rest.port: 1", "  rest.port: 1", "a: 'b"])
def test_a_line_that_is_not_understood_is_an_error_with_its_number(line):
    with pytest.raises(InvalidConfigError, match=r"file=conf line=2"):
        parse_settings(f"# first\n{line}", origin="conf")


def test_a_key_that_comes_twice_is_an_error():
    with pytest.raises(InvalidConfigError, match=r"set twice, keep one; .* line=2 key=rest.port"):
        parse_settings("rest.port: 1\nrest.port: 2", origin="conf")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"cannot be read; path=.*absent\.conf"):
        read_settings(tmp_path / "absent.conf")


def test_a_file_is_read_as_utf8(tmp_path):
    path = tmp_path / "headrace.conf"
    path.write_text("pipeline.name: übersicht\n", encoding="utf-8")

    assert read_settings(path) == {"pipeline.name": "übersicht"}
