"""Public data of others that is read where it lies and never committed."""

import os
from pathlib import Path

import pytest

_VARIABLE = "SLO_SCALER_SHARED_DATA"
_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def shared_data(relative: str) -> Path:
    """A file or folder of the shared data folder; skips the test, with the reason, where there is none."""
    path = Path(os.environ.get(_VARIABLE, _BESIDE)) / relative
    if not path.exists():
        pytest.skip(f"{relative} is not here: set {_VARIABLE}, or put the data into shared/data beside the checkout")
    return path
