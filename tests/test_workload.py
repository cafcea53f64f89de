"""Trigger metadata to a spec: the keys, the defaults, and every fault by its key and without its value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.capacity import AUTO, Match, Profile
from scaler.core.model import GateMode, Objective, RequestClass, ShedStatus, WorkloadKey
from scaler.core.pressure import PressureSpec, RedRule
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.errors import ConfigError
from scaler.workload import KEYS, Bounds, Catalog, parse_workload

KEY = WorkloadKey("prod", "llama")
PROFILE = Profile(100.0, 8.0, 0.15, name="llama-8b-chat")
CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02)
AGENT = RequestClass("agent", ttft_s=5.0, order=1)
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=86400.0, order=3)
CATALOG = Catalog(
    {"llama-8b-chat": PROFILE},
    {"chat": CHAT, "agent": AGENT, "batch": BATCH},
    sources={"default": 15.0},
    scrapes=frozenset({"default", "kserve"}),
    demands=frozenset({"gateway"}),
)
WORDS = {
    *("profile", "engine", "source", "scrape", "model_name", "request_classes", "demand_source"),
    *("red_rule", "shed_status", "gate"),
}
SMALLEST = {"scalerAddress": "slo-scaler:6000", "ttftSloSeconds": "2", "profile": "llama-8b-chat"}
ASSUMED_MAX = "maxReplicas: not given, 100 is assumed"


def faults(metadata: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        parse_workload(KEY, metadata, CATALOG)
    return raised.value.faults


def test_the_smallest_trigger_is_enough_and_pins_every_default():
    assert parse_workload(KEY, SMALLEST, CATALOG) == WorkloadSpec(
        key=KEY,
        profile=PROFILE,
        classes=(RequestClass("default", ttft_s=2.0),),
        headroom_ratio=0.1,
        slo_quantile=0.95,
        scaling=ScalingSpec(min_replicas=1, max_replicas=100, warm_replicas=0, drain_deadline_s=120.0),
        stabilize=StabilizeSpec(upscale_delay_s=0.0, downscale_delay_s=None, idle_s=600.0),
        pressure=PressureSpec(RedRule.PROJECTED, None),
        latency=ReadyLatency(p90_s=180.0, sigma=0.25, origin="prior"),
        gate=GateMode.OBSERVE,
        shed=ShedStatus.AUTO,
        tick_s=2.0,
        engine="vllm",
        warnings=(ASSUMED_MAX,),
    )


def test_every_key_is_understood():
    written = {
        **SMALLEST,
        "tpotSloSeconds": "0.05",
        "sloPercentile": "99",
        "headroom": "0.2",
        "engine": "vllm",
        "source": "default",
        "scrape": "kserve",
        "modelName": "llama",
        "demandSource": "gateway",
        "requestClasses": "agent, batch",
        "minReplicas": "2",
        "maxReplicas": "20",
        "warmReplicas": "1",
        "replicaReadySeconds": "90",
        "upscaleDelaySeconds": "5",
        "downscaleDelaySeconds": "600",
        "idleSeconds": "1200",
        "maxQueuedRequests": "40",
        "redRule": "budget",
        "shedStatus": "503",
        "gate": "enforce",
    }
    assert parse_workload(KEY, written, CATALOG) == WorkloadSpec(
        key=KEY,
        profile=PROFILE,
        classes=(replace(AGENT, ttft_s=2.0, tpot_s=0.05), BATCH),
        headroom_ratio=0.2,
        slo_quantile=0.99,
        scaling=ScalingSpec(2, 20, 1),
        stabilize=StabilizeSpec(5.0, 600.0, 1200.0),
        pressure=PressureSpec(RedRule.BUDGET, 40.0),
        latency=ReadyLatency(p90_s=90.0, origin="configuration"),
        gate=GateMode.ENFORCE,
        shed=ShedStatus.NO_CAPACITY,
        tick_s=15.0,
        source="default",
        scrape="kserve",
        model_name="llama",
        demand="gateway",
    )


H100 = Profile(100.0, 8.0, name="h100", match=Match("H100"))
L40S = Profile(40.0, 2.0, name="l40s", match=Match("L40S"))
SEVERAL = replace(CATALOG, profiles={"h100": H100, "l40s": L40S, "any": PROFILE})
NEVER = "profile: one without match is for every replica, so those named after it never count"


@pytest.mark.parametrize(
    ("written", "profile", "warnings"),
    [
        pytest.param("h100", H100, (), id="one"),
        pytest.param("h100, l40s,any", replace(H100, alternatives=(L40S, PROFILE)), (), id="several"),
        pytest.param("l40s,h100", replace(L40S, alternatives=(H100,)), (), id="in-their-order"),
        pytest.param("any,h100", replace(PROFILE, alternatives=(H100,)), (NEVER,), id="one-that-never-counts"),
    ],
)
def test_a_trigger_may_name_several_profiles(written, profile, warnings):
    spec = parse_workload(KEY, {**SMALLEST, "profile": written}, SEVERAL)
    assert (spec.profile, spec.warnings) == (profile, (*warnings, ASSUMED_MAX))


def test_a_key_whose_value_comes_from_the_environment_counts_as_itself():
    written = {"scalerAddress": "x", "ttftSloSecondsFromEnv": "2", "profileFromEnv": "llama-8b-chat"}
    assert parse_workload(KEY, written, CATALOG) == parse_workload(KEY, SMALLEST, CATALOG)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            {"ttftSLOSeconds": "2"},
            ("ttftSLOSeconds: unknown key, did you mean ttftSloSeconds?",),
            id="a misspelt key and the right one",
        ),
        pytest.param(
            {"headroom": "1.5"},
            ("headroom: Input should be less than or equal to 0.9",),
            id="a value out of range and the range",
        ),
        pytest.param(
            {"gate": "on"}, ("gate: Input should be 'off', 'observe' or 'enforce'",), id="a word that is not allowed"
        ),
        pytest.param(
            {"requestClasses": "chat,vip"},
            ("requestClasses: 1 not configured; there are agent, batch, chat",),
            id="a class that nobody named",
        ),
        pytest.param(
            {"requestClasses": "chat,chat"}, ("requestClasses: a class is named twice",), id="a class named twice"
        ),
        pytest.param(
            {"profile": "other"},
            ("profile: no such profile is configured; there are llama-8b-chat",),
            id="a profile that nobody measured",
        ),
        pytest.param(
            {"profile": "llama-8b-chat,other"},
            ("profile: no such profile is configured; there are llama-8b-chat",),
            id="one of them that nobody measured",
        ),
        pytest.param(
            {"profile": ","}, ("profile: no such profile is configured; there are llama-8b-chat",), id="no name at all"
        ),
        pytest.param(
            {"profile": "llama-8b-chat, llama-8b-chat"},
            ("profile: a profile is named twice",),
            id="a profile named twice",
        ),
        pytest.param(
            {"source": "http://elsewhere", "scrape": "x", "demandSource": "y"},
            (
                "source: not configured; there are default, pods",
                "scrape: not configured; there are default, kserve",
                "demandSource: not configured; there are gateway",
            ),
            id="names that the operator did not give",
        ),
        pytest.param(
            {"minReplicas": "5", "maxReplicas": "2"},
            ("maxReplicas: below minReplicas or warmReplicas",),
            id="bounds that cross",
        ),
        pytest.param({"engine": "tgi"}, ("engine: not known; there are sglang, vllm",), id="an engine we cannot read"),
        pytest.param(
            {"profileFromEnv": "x"},
            ("profile: given twice, as itself and as profileFromEnv; keep one",),
            id="a key given in both ways",
        ),
        pytest.param(
            {"safeConcurrency": "10"},
            (
                "profile, safeConcurrency: give exactly one: the name of a load-test profile, or the safe concurrency it found",
            ),
            id="two sources of the safe concurrency",
        ),
    ],
)
def test_a_fault_names_the_key_and_what_is_allowed(written, expected):
    assert faults({**SMALLEST, **written}) == expected


def test_a_safe_concurrency_may_be_left_to_be_learnt():
    assert parse_workload(KEY, {"safeConcurrency": "auto", "ttftSloSeconds": "2"}, Catalog()).profile == AUTO


@pytest.mark.parametrize(
    ("written", "catalog"),
    [
        pytest.param({"gate": "enforce"}, Catalog(), id="by-the-trigger"),
        pytest.param(
            {"requestClasses": "vip"},
            Catalog(classes={"vip": RequestClass("vip", 2.0, gate=GateMode.ENFORCE)}),
            id="by-a-class",
        ),
    ],
)
def test_a_gate_is_not_enforced_by_a_safe_concurrency_that_is_learnt(written, catalog):
    with pytest.raises(ConfigError) as raised:
        parse_workload(KEY, {"safeConcurrency": "auto", "ttftSloSeconds": "2", **written}, catalog)
    assert raised.value.faults == (
        "gate: enforce needs a load test: with safeConcurrency auto it would refuse what nobody has tried",
    )


def test_four_classes_need_no_configuration():
    written = {"profile": "llama-8b-chat", "requestClasses": "chat,agent,background,batch"}
    assert parse_workload(KEY, written, Catalog({"llama-8b-chat": PROFILE})).classes == (
        RequestClass("chat", ttft_s=2.0, tpot_s=0.1, order=0, floor_ratio=0.02),
        RequestClass("agent", ttft_s=5.0, e2e_s=60.0, order=1, floor_ratio=0.05, max_retries=2),
        RequestClass("background", objective=Objective.COMPLETION, deadline_s=600.0, order=2),
        RequestClass("batch", objective=Objective.COMPLETION, deadline_s=86400.0, order=3),
    )


def test_the_triggers_own_objectives_override_those_of_a_class_that_needs_no_configuration():
    written = {**SMALLEST, "ttftSloSeconds": "1", "requestClasses": "agent,chat"}
    first, second = parse_workload(KEY, written, Catalog({"llama-8b-chat": PROFILE})).classes
    assert (first.name, first.ttft_s, first.e2e_s, second.name, second.ttft_s) == ("agent", 1.0, 60.0, "chat", 2.0)


def test_an_unknown_class_is_told_of_with_those_that_need_no_configuration():
    with pytest.raises(ConfigError) as raised:
        parse_workload(KEY, {**SMALLEST, "requestClasses": "vip"}, Catalog({"llama-8b-chat": PROFILE}))
    assert raised.value.faults == ("requestClasses: 1 not configured; there are agent, background, batch, chat",)


NUMBERS = [key for key, field in KEYS.items() if field not in WORDS]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize(
    "text", ["1_000", " 2 ", "2,5", "0x10", "nan", "inf", "1e400", "1e308", "-1", "", "\uff12", "1e20"]
)
def test_a_number_that_nobody_would_write_is_a_fault_of_its_key(key, text):
    written = {**SMALLEST, key: text}
    if key == "safeConcurrency":
        written.pop("profile")
    assert faults(written)[0].startswith(f"{key}: ")


def test_more_replicas_than_the_assumed_maximum_need_a_maximum():
    assert faults({**SMALLEST, "minReplicas": "500"}) == (
        "maxReplicas: below minReplicas or warmReplicas (100 is assumed, as it is not given)",
    )


def test_a_budget_is_required():
    assert faults({"profile": "llama-8b-chat"}) == (
        "ttftSloSeconds: required, the budget for the time to the first token in seconds",
    )


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        pytest.param({"caCert": "x"}, "caCert: KEDA ignores this key", id="a certificate where KEDA does not read it"),
        pytest.param({"headroom": "0.05"}, "headroom: below 0.1", id="less headroom than the HPA's tolerance"),
        pytest.param(
            {"minReplicas": "0"}, "minReplicas: 0, and without demandSource", id="zero without a source of demand"
        ),
        pytest.param({"port": "8000"}, "port: has no effect", id="a port that nobody uses"),
        pytest.param({"modelName": "m"}, "modelName: has no effect", id="a model name that nobody uses"),
    ],
)
def test_what_is_valid_and_probably_not_meant_is_warned_about(written, warning):
    warnings = parse_workload(KEY, {**SMALLEST, **written}, CATALOG).warnings
    assert [text.startswith(warning) for text in warnings if text != ASSUMED_MAX] == [True]


TEXT = st.text(min_size=0, max_size=20)


@given(st.dictionaries(st.one_of(st.sampled_from(sorted(KEYS)), TEXT), TEXT, max_size=8))
def test_whatever_is_written_is_a_spec_or_a_list_of_faults(written):
    try:
        outcome: object = parse_workload(KEY, written, CATALOG)
    except ConfigError as error:
        outcome = error.faults
    assert outcome not in ((), None)


@given(st.sampled_from(sorted(KEYS)), st.uuids())
def test_no_fault_ever_repeats_a_value(key, secret):
    try:
        said = " ".join(parse_workload(KEY, {**SMALLEST, key: str(secret)}, CATALOG).warnings)
    except ConfigError as error:
        said = str(error)
    assert str(secret) not in said


@pytest.mark.parametrize(
    ("written", "bounds", "within"),
    [
        ({}, Bounds(0, 20), (0, 20)),
        ({}, Bounds(2, 100), (2, 100)),
        ({"minReplicas": "3", "maxReplicas": "9"}, Bounds(1, 20), (3, 9)),
        ({"minReplicas": "1", "maxReplicas": "50"}, Bounds(2, 20), (2, 20)),
    ],
    ids=["the ScaledObject's own", "likewise", "a trigger narrows them", "a trigger never widens them"],
)
def test_the_bounds_are_those_that_the_scaled_object_and_its_trigger_both_allow(written, bounds, within):
    spec = parse_workload(KEY, {**SMALLEST, **written}, CATALOG, bounds)
    assert (spec.scaling.min_replicas, spec.scaling.max_replicas) == within


def test_a_known_maximum_is_not_warned_of():
    assert parse_workload(KEY, SMALLEST, CATALOG, Bounds(1, 20)).warnings == ()


def test_a_trigger_outside_of_the_scaled_objects_bounds_is_refused():
    with pytest.raises(ConfigError) as refused:
        parse_workload(KEY, {**SMALLEST, "minReplicas": "30"}, CATALOG, Bounds(1, 20))
    assert refused.value.faults == (
        "maxReplicas: below minReplicas or warmReplicas (the ScaledObject's maxReplicaCount is 20)",
    )


def test_no_replica_at_all_is_no_maximum():
    with pytest.raises(ConfigError) as refused:
        parse_workload(KEY, SMALLEST, CATALOG, Bounds(0, 0))
    assert refused.value.faults == (
        "maxReplicas: below minReplicas or warmReplicas (the ScaledObject's maxReplicaCount is 0)",
    )
