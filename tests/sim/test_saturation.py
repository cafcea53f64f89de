"""What one replica bears."""

from __future__ import annotations

import pytest

from scaler.core.model import RequestClass
from scaler.errors import ConfigError
from scaler.sim import PRESETS
from scaler.sim.saturation import Bench, saturation
from scaler.sim.traffic import Measured

CHAT = Measured(((1000, 40), (600, 60), (1500, 20)))
PRESET = PRESETS["llama-3.1-70b-4xh100"]


def test_the_safe_rate_is_below_the_ceiling_and_is_served_at_the_safe_concurrency():
    found = saturation(Bench(PRESET, CHAT, RequestClass("chat", 2.0, 0.1)))
    assert 0.5 * found.ceiling_per_s < found.safe_rate_per_s < found.ceiling_per_s
    assert 0.05 < found.unloaded_ttft_s < 0.15
    assert found.profile.safe_rate_per_s is not None
    assert found.profile.safe_concurrency / found.profile.safe_rate_per_s > 40 * PRESET.coefficients.a_s


def test_an_objective_that_no_load_keeps_is_told_at_once():
    with pytest.raises(ConfigError, match="even for one request at a time"):
        saturation(Bench(PRESET, CHAT, RequestClass("chat", 2.0, tpot_s=0.001)))
