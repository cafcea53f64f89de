"""The load testers that can be driven, in order of preference. To add one: a file with a ``Tester``, and one line here."""

from __future__ import annotations

from scaler.calibration.testers import aiperf, vllm_bench
from scaler.calibration.testers.command import Tester, Traffic, command, public, reserved

TESTERS: dict[str, Tester] = {tester.program: tester for tester in (aiperf.TESTER, vllm_bench.TESTER)}

__all__ = ["TESTERS", "Tester", "Traffic", "command", "public", "reserved"]
