"""A shadow decides as any other workload, refuses nothing, and waits for nobody to follow it."""

from dataclasses import replace

import pytest

from scaler.core.model import GateMode, ReplicaSet
from scaler.core.platform import Platform
from scaler.core.shadow import NOTE, UNENFORCED, as_shadow
from tests.support.law import CHAT, Engine, Law, observe, tick, workload


@pytest.mark.parametrize(
    ("gate", "of_class", "expected"),
    [
        pytest.param(GateMode.ENFORCE, None, (GateMode.OBSERVE, None, (NOTE, UNENFORCED)), id="enforce"),
        pytest.param(GateMode.OFF, GateMode.ENFORCE, (GateMode.OFF, GateMode.OBSERVE, (NOTE, UNENFORCED)), id="class"),
        pytest.param(GateMode.OFF, None, (GateMode.OFF, None, (NOTE,)), id="off"),
        pytest.param(GateMode.OBSERVE, GateMode.OFF, (GateMode.OBSERVE, GateMode.OFF, (NOTE,)), id="observe"),
    ],
)
def test_a_shadow_enforces_nothing(gate, of_class, expected):
    spec = as_shadow(workload(classes=(replace(CHAT, gate=of_class),), gate=gate))
    assert (spec.gate, spec.classes[0].gate, spec.warnings) == expected


def decisions(spec) -> list:
    """A load that wants more replicas than the one that there is, which nobody adds."""
    law = Law(spec)
    law.steady(60.0, Engine("a", running=150.0, waiting=50.0), rate_per_s=8.0, current=1)
    return law.decisions


def test_a_shadow_decides_the_same_number_as_a_workload_that_counts():
    spec = workload()
    assert [d.desired for d in decisions(as_shadow(spec))] == [d.desired for d in decisions(spec)]


def test_nobody_waits_for_replicas_that_a_shadow_asks_for():
    asked = {}
    for spec in (workload(), as_shadow(workload())):
        law = Law(spec)
        law.steady(60.0, Engine("a", running=150.0, waiting=50.0), rate_per_s=8.0, current=1)
        asked[spec.shadow] = law.state.stabilizer.raised_at
    assert asked == {False: 0.0, True: 58.0}


def test_that_nobody_follows_a_shadow_is_no_finding():
    seen = observe(0.0, [Engine("a", running=150.0)])
    platform = Platform("Deployment llama", asked=1, pods=1)
    seen = replace(seen, replicas=replace(seen.replicas or ReplicaSet((), (), 0, 0.0), platform=platform))
    codes = {
        spec.shadow: [one.code for one in tick(spec, Law(spec).state, seen)[1].findings]
        for spec in (workload(), as_shadow(workload()))
    }
    assert ("not_followed" in codes[False], "not_followed" in codes[True]) == (True, False)
