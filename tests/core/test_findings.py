"""What a person is told beside the number."""

import math
from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Finding
from scaler.core.findings import Facts, findings
from scaler.core.model import Note, ReplicaSet, RequestClass
from scaler.core.ready_latency import ReadyLatency, UnderWay
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
        pytest.param(
            {"facts": replace(FACTS, stuck=(UnderWay("b", 900.0, ReadyLatency()),))}, [("stuck", None)], id="stuck"
        ),
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


UNSCHEDULABLE = "Unschedulable: 0/3 nodes are available: insufficient nvidia.com/gpu"


@pytest.mark.parametrize(
    ("stuck", "who"),
    [
        pytest.param(
            (UnderWay("llama-7f", 20.0, ReadyLatency(), UNSCHEDULABLE),),
            f"1 of 5 starting replicas may never be ready, and no other is asked for in their place: llama-7f ({UNSCHEDULABLE})",
            id="by-the-reason-of-its-platform",
        ),
        pytest.param(
            (UnderWay("llama-7f", 260.4, ReadyLatency(120.0, stuck_after_s=255.0)),),
            "1 of 5 starting replicas may never be ready, and no other is asked for in their place: "
            "llama-7f (260 s old, and nine of ten were ready within 85 s)",
            id="by-its-age",
        ),
        pytest.param(
            tuple(UnderWay(name, 20.0, ReadyLatency(), "ImagePullBackOff") for name in "edcba"),
            "5 of 5 starting replicas may never be ready, and no other is asked for in their place: "
            "a (ImagePullBackOff), b (ImagePullBackOff), c (ImagePullBackOff) and 2 more",
            id="three-are-named",
        ),
    ],
)
def test_stuck_starts_are_named_with_why(stuck, who):
    estimate, recommendation = decided()
    found = findings(replace(FACTS, stuck=stuck), replace(estimate, starting=5), recommendation)
    assert found == (Finding("stuck", who),)


def test_warnings_of_the_spec_come_last():
    found = findings(replace(FACTS, warnings=("no maxReplicas",)), *decided())
    assert found == (Finding("configuration", "no maxReplicas"),)


def listed(**what) -> ReplicaSet:
    return ReplicaSet(("a",), (), 1, 0.0, **what)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param(listed(notes=(Note("keda_paused", "KEDA is paused"),)), [("keda_paused", None)], id="notes"),
        pytest.param(
            listed(engine_cap=64), [("safe_concurrency_above_cap", None)], id="a-cap-below-the-safe-concurrency"
        ),
        pytest.param(listed(engine_cap=100), [], id="a-cap-that-holds-it"),
        pytest.param(listed(), [], id="no-cap-known"),
    ],
)
def test_what_the_platform_says_is_passed_on(replicas, expected):
    assert codes(facts=replace(FACTS, replicas=replicas)) == expected
