"""A gate in the path keeps the wait short by refusing: that is pressure all the same, as far as the fleet is too small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.counted import ClassCounted
from scaler.core.decision import Decision
from scaler.core.model import GateMode, Objective, Pressure, RequestClass
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, step
from tests.support.law import Engine, observe, workload

CHAT = RequestClass("chat", ttft_s=5.0)
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=600.0, order=1)
SPEC = workload(
    Profile(100.0, 8.0), (CHAT, BATCH), stabilize=StabilizeSpec(upscale_delay_s=600.0), gate=GateMode.ENFORCE
)


def decided(name: str, admitted_per_s: float, refused_per_s: float) -> Decision:
    """After a minute in which the gate refused so many requests of one class, and nothing waited."""
    state, engine, outcome = State(), Engine(running=admitted_per_s * 12.5), None
    for tick in range(30):
        engine.emit(admitted_per_s * SPEC.tick_s)
        refused = round(refused_per_s * SPEC.tick_s)
        asked = (ClassCounted(name, admitted=round(admitted_per_s * SPEC.tick_s), refused=refused),)
        seen = observe(SPEC.tick_s * tick, (engine,), refused_total=float(refused * tick))
        state, outcome = step(SPEC, state, replace(seen, asked=asked))
    assert isinstance(outcome, Decision)
    return outcome


@pytest.mark.parametrize(
    ("name", "admitted", "refused", "told"),
    [
        pytest.param("chat", 8.0, 8.0, (Pressure.YELLOW, 3), id="its-state-says-so-and-no-delay-holds-it-back"),
        pytest.param(
            "batch", 8.0, 8.0, (Pressure.GREEN, 3), id="a-class-without-a-state-of-its-own-does-not-wait-either"
        ),
        pytest.param("chat", 7.0, 0.0, (Pressure.GREEN, 1), id="nobody-is-refused"),
        pytest.param("chat", 7.0, 0.5, (Pressure.GREEN, 1), id="a-few-are-though-all-could-be-admitted"),
    ],
)
def test_what_a_gate_in_the_path_refuses_for_want_of_capacity_is_pressure(name, admitted, refused, told):
    decision = decided(name, admitted, refused)
    assert (decision.state, decision.desired) == told
    assert {verdict.admit_ratio for verdict in decision.classes} == {1.0}
