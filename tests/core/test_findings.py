"""What a person is told beside the number."""

import math
from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Finding
from scaler.core.findings import Facts, findings
from scaler.core.model import RequestClass
from scaler.core.target import ScalingSpec
from tests.support.law import CHAT, Engine, Law, workload

SPEC = workload(Profile(100.0, 8.0, unloaded_ttft_s=0.1))
FACTS = Facts(SPEC.profile, SPEC.classes, (), ScalingSpec())


def decided():
    decision = Law(SPEC).steady(40.0, Engine(running=60.0), rate_per_s=5.0)
    return decision.estimate, decision.recommendation


def codes(facts=FACTS, terms=None, inputs=None, **changes):
    estimate, recommendation = decided()
    recommendation = replace(
        recommendation,
        terms=replace(recommendation.terms, **terms or {}),
        inputs=replace(recommendation.inputs, **inputs or {}),
    )
    return [
        (found.code, found.warm_replicas) for found in findings(facts, replace(estimate, **changes), recommendation)
    ]


def surge(**changes):
    """Three times what drains, while something waits already."""
    estimate, _ = decided()
    wait = replace(estimate.queue_wait, s=1.0)
    return {"offered_per_s": 24.0, "drain_per_s": 8.0, "queue_wait": wait, "terms": {"flow": 3.4}, **changes}


CAPACITY = decided()[0].capacity


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param({}, [], id="all-is-well"),
        pytest.param(
            {"facts": replace(FACTS, classes=(RequestClass("fast", 0.05), CHAT))},
            [("infeasible_ttft", None)],
            id="ttft",
        ),
        pytest.param({"facts": replace(FACTS, profile=Profile(100.0, 8.0))}, [], id="unknown-unloaded-ttft"),
        pytest.param(
            {"terms": {"flow": 7.2}, "inputs": {"max_replicas": 5}}, [("demand_above_max", None)], id="demand"
        ),
        pytest.param(surge(), [("infeasible_burst", 3)], id="burst"),
        pytest.param(surge(eta_s=0.1), [], id="a-burst-that-a-replica-meets-in-time"),
        pytest.param(surge(eta_s=math.inf), [], id="a-burst-and-no-replica-to-come"),
        pytest.param(surge(offered_per_s=8.0), [], id="no-burst"),
        pytest.param(surge(terms={"flow": 0.9}), [], id="a-burst-that-those-ready-could-carry"),
        pytest.param(
            {"capacity": replace(CAPACITY, residence_s=None, safe_rate_per_s=None)},
            [("safe_rate_unknown", None)],
            id="rate",
        ),
        pytest.param({"capacity": replace(CAPACITY, derate_ratio=0.9)}, [("profile_contradicted", None)], id="derated"),
        pytest.param({"capacity": replace(CAPACITY, drift_ratio=1.6)}, [("mix_drift", None)], id="drift"),
        pytest.param({"stuck": 1, "starting": 2}, [("stuck", None)], id="stuck"),
        pytest.param({"missing": 1}, [("missing", None)], id="missing"),
    ],
)
def test_what_is_said_and_when(case, expected):
    assert codes(**case) == expected


def test_the_demand_above_the_maximum_names_the_number_that_would_do():
    estimate, recommendation = decided()
    recommendation = replace(
        recommendation,
        terms=replace(recommendation.terms, flow=7.2),
        inputs=replace(recommendation.inputs, max_replicas=5),
    )
    assert findings(FACTS, estimate, recommendation) == (
        Finding(
            "demand_above_max",
            "the offered load needs 8 replicas and at most 5 are allowed; raise maxReplicas to 8",
        ),
    )


def test_warnings_of_the_spec_come_last():
    found = findings(replace(FACTS, warnings=("no maxReplicas",)), *decided())
    assert found == (Finding("configuration", "no maxReplicas"),)
