"""The threat model names tests: they exist, and there are enough of them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def functions(path: Path) -> set[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, defined)}


@pytest.mark.parametrize("row", ROWS, ids=[row.split(" | ")[1][:60] for row in ROWS])
def test_every_threat_has_what_stops_it_and_a_test_that_exists(row):
    _, threat, stopped, shown = (cell.strip() for cell in row.strip("|").split(" | "))
    tests = NAMED.findall(shown)
    assert threat
    assert stopped
    assert tests
    assert [f"{file}::{name}" for file, name in tests if name not in functions(ROOT / file)] == []


def test_there_are_at_least_fifteen_threats_and_each_has_its_number():
    assert [int(row.split(" ")[1]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 15
