"""From the files of a load test to the safe concurrency of one replica: bytes to runs, runs to levels, levels to a profile.

Everything is computed from what is handed in; reading files and printing is the command's part.
"""

from scaler.calibration.choose import Calibration, Outcome, calibrate
from scaler.calibration.document import NoResult
from scaler.calibration.formats import FORMATS, Results, read
from scaler.calibration.judge import Objectives
from scaler.calibration.levels import assemble
from scaler.calibration.runs import Setup

__all__ = [
    "FORMATS",
    "Calibration",
    "NoResult",
    "Objectives",
    "Outcome",
    "Results",
    "Setup",
    "assemble",
    "calibrate",
    "read",
]
