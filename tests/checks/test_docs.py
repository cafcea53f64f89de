"""docs/check.md: its table is that of the code."""

from pathlib import Path

from scaler.checks import CHECKS, table

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_table_of_the_code():
    assert table() in (ROOT / "docs" / "check.md").read_text(), (
        "replace the table in docs/check.md by scaler.checks.table()"
    )


def test_every_page_that_a_check_names_exists():
    assert [one.docs for one in CHECKS if not (ROOT / one.docs).is_file()] == []
