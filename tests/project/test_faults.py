"""The fault matrix: every fault is stated and tested, and the page is what the tests say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_fault_matrix_is_what_the_tests_say():
    done = subprocess.run([sys.executable, ROOT / ".ci" / "faults.py"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"), "run: make faults"
