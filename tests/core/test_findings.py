"""What a person is told beside the number."""

import math
from dataclasses import replace

import pytest

from scaler.core.capacity import AUTO, Match, Profile
from scaler.core.decision import Finding
from scaler.core.findings import Facts, findings
from scaler.core.model import Absent, Kind, Note, ReplicaSet, RequestClass
from scaler.core.ready_latency import ReadyLatency, UnderWay
from scaler.core.shown import Basis
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


BIG = Profile(100.0, 8.0, 0.1, 1000.0, name="llama-h100", match=Match("H100", "0.32"), output_p50=200.0)
SMALL = Profile(40.0, 2.0, 6.0, name="llama-l40s", match=Match("L40S"))
BOTH = replace(BIG, alternatives=(SMALL,))


def running(*kinds: Kind, **what) -> ReplicaSet:
    names = tuple(f"llama-{number}" for number in range(len(kinds)))
    return ReplicaSet(names, (), len(names), 0.0, kinds=dict(zip(names, kinds, strict=True)), **what)


def told(profile, replicas, **changes):
    """The findings of a workload with this profile, by their text."""
    estimate, recommendation = decided()
    facts = replace(FACTS, profile=profile, replicas=replicas)
    return [(found.code, found.text) for found in findings(facts, replace(estimate, **changes), recommendation)]


H100, L40S, A100 = (Kind(f"NVIDIA-{gpu}", "0.32.1") for gpu in ("H100-80GB-HBM3", "L40S", "A100-SXM4-80GB"))


@pytest.mark.parametrize(
    ("profile", "replicas", "expected"),
    [
        pytest.param(BIG, running(H100, H100), [], id="all-match"),
        pytest.param(BIG, running(Kind()), [], id="nothing-is-known-and-there-is-nothing-to-choose"),
        pytest.param(Profile(100.0, 8.0), running(A100), [], id="it-is-for-any"),
        pytest.param(BIG, None, [], id="no-list-of-replicas"),
        pytest.param(
            BIG,
            running(H100, A100),
            [
                (
                    "llama-1 (NVIDIA-A100-SXM4-80GB, engine 0.32.1): no profile is for it, and the smallest counts: "
                    "llama-h100 for H100, engine 0.32, 100 requests at once"
                )
            ],
            id="the-only-one-is-for-another-gpu",
        ),
        pytest.param(
            replace(BOTH, alternatives=(replace(SMALL, unloaded_ttft_s=None),)),
            running(replace(H100, engine_version="0.33.0"), *[A100] * 4),
            [
                (
                    "llama-0 (NVIDIA-H100-80GB-HBM3, engine 0.33.0), llama-1 (NVIDIA-A100-SXM4-80GB, engine 0.32.1), "
                    "llama-2 (NVIDIA-A100-SXM4-80GB, engine 0.32.1) and 2 more: no profile is for it, and the smallest counts: "
                    "llama-l40s for L40S, 40 requests at once"
                )
            ],
            id="three-are-named",
        ),
        pytest.param(
            BOTH,
            running(Kind("", "0.32.1")),
            [
                (
                    "llama-0 (unknown GPU, engine 0.32.1): too little is known to choose its profile, and the first that may be for it "
                    "counts: llama-h100 for H100, engine 0.32, 100 requests at once"
                )
            ],
            id="too-little-is-known",
        ),
    ],
)
def test_replicas_that_nothing_was_measured_for_are_named_with_what_counts_for_them(profile, replicas, expected):
    assert told(profile, replicas) == [("profile_unmatched", text) for text in expected]


def test_what_is_wrong_with_one_of_several_profiles_names_it():
    replicas = running(H100, L40S, engine_cap=64)
    assert told(BOTH, replicas) == [
        (
            "infeasible_ttft",
            (
                "class chat: an unloaded replica of profile llama-l40s needs 6 s to the first token, the objective is 5 s; "
                "no number of replicas meets it"
            ),
        ),
        (
            "safe_concurrency_above_cap",
            (
                "the safe concurrency of profile llama-h100 is 100 and the engine runs 64 requests at once, by its arguments: 64 counts; "
                "test again with these arguments, or raise the engine's limit to that of the load test"
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        pytest.param(
            {"ttft_s": 6.25, "tpot_s": 0.05, "running": 90.0},
            "90 of 100 requests a replica, TTFT 6.25 s (objective 5 s)",
            id="first-tokens",
        ),
        pytest.param(
            {"ttft_s": Absent.IDLE, "tpot_s": Absent.UNKNOWN, "running": 90.0}, "90 of 100 requests a replica", id="not"
        ),
    ],
)
def test_a_contradicted_profile_is_told_with_the_load_and_the_latency(seen, numbers):
    cap = replace(CAPACITY, derate_ratio=0.9)
    assert told(BIG, None, capacity=cap, **seen) == [
        (
            "profile_contradicted",
            "measured latency was over its objective at a load that the profile calls safe: the safe rate counts 90%; now "
            + numbers,
        )
    ]


@pytest.mark.parametrize(
    ("profile", "seen", "text"),
    [
        pytest.param(
            BIG,
            {"prompt_p50_tokens": 2000.0, "output_p50_tokens": 415.6},
            "prompts 2000 tokens, then 1000, answers 416 tokens, then 200",
            id="both",
        ),
        pytest.param(
            replace(BIG, output_p50=None),
            {"prompt_p50_tokens": 500.0, "output_p50_tokens": 415.6},
            "prompts 500 tokens, then 1000",
            id="one",
        ),
        pytest.param(
            replace(BIG, alternatives=(replace(BIG, name="other"),)),
            {"prompt_p50_tokens": 500.0, "output_p50_tokens": Absent.IDLE},
            "prompts 500 tokens",
            id="several-profiles",
        ),
    ],
)
def test_another_mix_is_told_with_both_lengths(profile, seen, text):
    assert told(profile, None, capacity=replace(CAPACITY, drift_ratio=1.6), **seen) == [
        (
            "mix_drift",
            (
                f"requests differ from the load test ({text}): the residence time counts 1.60 times; "
                "test with the requests of now"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("basis", "target", "lengths", "text"),
    [
        pytest.param(
            Basis.SHOWN,
            16.0,
            {"prompt_p50_tokens": 998.6, "output_p50_tokens": 201.0},
            "safe concurrency 12, confidence low: what live traffic has shown, 16 are tried; a load test replaces it: slo-scaler calibrate "
            "--run URL --model NAME --input-tokens 999 --output-tokens 201 --ttft 2 --tpot 0.1 -o profile.yaml",
            id="shown",
        ),
        pytest.param(
            Basis.FIRST,
            10.8,
            {},
            "safe concurrency 12, confidence low: nothing has been shown yet; a load test replaces it: slo-scaler calibrate "
            "--run URL --model NAME --input-tokens TOKENS --output-tokens TOKENS --ttft 2 --tpot 0.1 -o profile.yaml",
            id="nothing-known",
        ),
    ],
)
def test_a_learnt_safe_concurrency_is_told_with_the_command_that_would_replace_it(basis, target, lengths, text):
    capacity = replace(CAPACITY, safe_concurrency=12.0, target=target, confidence="low", basis=basis)
    estimate, recommendation = decided()
    facts = replace(FACTS, profile=AUTO, classes=(RequestClass("agent", 5.0), RequestClass("chat", 2.0, 0.1)))
    found = findings(facts, replace(estimate, capacity=capacity, **lengths), recommendation)
    assert found == (Finding("safe_concurrency_learnt", text),)
