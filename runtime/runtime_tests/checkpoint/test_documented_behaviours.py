"""Every test that docs/checkpoint-behaviours.md names as a proof is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent.parent / "docs" / "checkpoint-behaviours.md"


def test_the_tests_of_every_documented_behaviour_exist() -> None:
    page = PAGE.read_text()
    code = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    defined = set(re.findall(r"^ *def (test_\w+)", code, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", page))
    files = set(re.findall(r"`(\w+/test_\w+\.py)`", page))
    assert set() == named - defined
    assert set() == {file for file in files if not (TESTS / file).is_file()}
    assert len(named) > 50, "the page is still written as this test reads it"


def test_no_row_of_the_page_is_without_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    proofs = [row.rstrip(" |").rpartition("|")[2] for row in rows]
    bare = [row for row, proof in zip(rows, proofs, strict=True) if "test_" not in proof]
    headers = ("| | Behaviour", "| What is found")
    assert [] == [row for row in bare if not row.startswith(headers)]
