"""The whole demo as a user starts it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.e2e
@pytest.mark.timeout(150)
def test_the_demo_shows_pressure_growth_and_relief() -> None:
    command = [sys.executable, "-m", "scaler", "demo", "--json", "--seconds", "45"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=140)
    assert done.returncode == 0, done.stderr[-4000:]
    summary = json.loads(done.stdout)
    states = [entered["state"] for entered in summary["states"]]
    assert states[0] == "GREEN"
    assert states.index("GREEN") < states.index("RED") < len(states) - 1 - states[::-1].index("GREEN")
    assert summary["requests"]["failed"] == 0
    assert summary["requests"]["refused"] > 0
    assert "Times are compressed" in done.stderr
