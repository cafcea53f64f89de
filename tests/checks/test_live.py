"""What a running scaler, a cluster and a drill add: values in, findings out."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.checks import CHECKS, Basis, Drill, Facts, Finding, Live, LiveClass, Verdict, Versions, examine
from scaler.cli.check_files import read
from scaler.cli.check_objects import facts_of
from scaler.core.counted import ClassCounted
from scaler.core.decision import Finding as LiveFinding
from scaler.core.model import Absent, Missing, Signal, WorkloadKey
from tests.checks.good import launch

FAIL, WARN, PASS, OPEN = Verdict.FAILS, Verdict.WARNS, Verdict.PASSES, Verdict.UNKNOWN
KEY = WorkloadKey("prod", "llama")
SIGNALS: dict[str, Signal] = {
    "running": 80.0,
    "waiting": Absent.IDLE,
    "queue_time_s": 0.01,
    "ttft_s": 0.4,
    "ttft_p99_s": 0.9,
    "refused_per_s": 2.0,
    "safe_rate_per_s": 8.0,
    "drain_per_s": 16.0,
}
LIVE = Live(
    age_s=1.2,
    blind=False,
    read=2,
    missing=(),
    absent=(),
    signals=SIGNALS,
    ready_p90_s=150.0,
    samples=9,
    origin="measured",
    load=1.4,
    desired=2,
    max_replicas=20,
    classes=(LiveClass("chat", "enforce", "GREEN", 2.0, 1.0), LiveClass("batch", "enforce", "GREEN", None, 1.0)),
    findings=(),
)
DRILL = Drill(
    sent=200,
    admitted=150,
    broken=0,
    statuses={200: 150, 429: 50},
    waits_s=tuple(2 + number % 7 for number in range(50)),
    calm_p99_s=0.4,
    refusing_p99_s=1.1,
    returned=10,
    welcomed=9,
)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Facts:
    """All that can be known, and all of it good."""
    made = facts_of(KEY, read([launch().write(tmp_path_factory.mktemp("good"))]))
    return replace(made, hpa_troubles=(), versions=Versions((1, 35), (2, 20)), live=LIVE, drill=DRILL)


def verdicts(found: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {one.code: one.verdict for one in found}


def alarms(found: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {code: verdict for code, verdict in verdicts(found).items() if verdict in {FAIL, WARN}}


def seen(**changes: Any):
    return lambda facts: replace(facts, live=replace(facts.live, **changes))


def shown(**signals: Any):
    return seen(signals=SIGNALS | signals)


def finds(code: str, warm: int | None = None):
    return seen(findings=(LiveFinding(code, "so it is", warm),))


def drilled(**changes: Any):
    return lambda facts: replace(facts, drill=replace(DRILL, **changes))


def undrilled(change):
    return lambda facts: change(replace(facts, drill=None))


SEEDED = {
    "blind": (seen(blind=True, age_s=70.0), {"SC03": FAIL, "T42": FAIL}),
    "no replica is read": (seen(read=0, missing=(Missing("llama-0", "HTTP 404"),)), {"SC03": FAIL, "T41": FAIL}),
    "one replica is silent": (seen(missing=(Missing("llama-1", "no answer in time"),)), {"T41": FAIL}),
    "a page lacks a metric": (seen(absent=("vllm:num_requests_waiting",)), {"T41": FAIL}),
    "a signal is lost": (finds("signal_absent"), {"SC03": FAIL}),
    "old readings": (seen(age_s=25.0), {"T42": FAIL}),
    "live latency contradicts the load test": (finds("profile_contradicted"), {"SC02b": WARN}),
    "another mix": (finds("mix_drift"), {"SC02b": WARN}),
    "no profile for a replica": (finds("profile_unmatched"), {"SC02b": WARN}),
    "two starts were seen": (seen(samples=2), {"SC04": WARN}),
    "starts take longer than written": (seen(ready_p90_s=1000.0), {"T34": FAIL}),
    "a burst that breaks the budget": (finds("infeasible_burst", 3), {"SC05": WARN}),
    "stuck starts": (finds("stuck"), {"T43": FAIL}),
    "a stalled replica": (finds("stalled_replica"), {"T43": FAIL}),
    "a doubted counter": (finds("counter_doubted"), {"T44": WARN}),
    "more demand than the maximum": (finds("demand_above_max"), {"T51": FAIL}),
    "a backlog above the maximum": (seen(load=22.0), {"T51": WARN}),
    "a cap below the safe concurrency": (finds("safe_concurrency_above_cap"), {"T31": FAIL}),
    "an HPA that gets no metric": (
        lambda facts: replace(facts, hpa_troubles=("FailedGetExternalMetric",)),
        {"T16": FAIL},
    ),
    "an HPA that the scaler sees fail": (finds("hpa_inactive"), {"T16": FAIL}),
    "a Kubernetes without tolerance": (
        lambda facts: replace(facts, versions=Versions((1, 32), (2, 20))),
        {"T53": WARN},
    ),
    "a KEDA that drops tolerance": (lambda facts: replace(facts, versions=Versions((1, 35), (2, 17))), {"T53": FAIL}),
    "a KEDA of whole numbers": (lambda facts: replace(facts, versions=Versions((1, 35), (2, 14))), {"T53": FAIL}),
    "refusals, and the others are late as well": (undrilled(shown(ttft_p99_s=4.0)), {"SC09": FAIL}),
    "clients that never give up": (seen(asked=(ClassCounted("chat", 100, 60, 400, 390),)), {"SC08": WARN}),
    "requests that outlive the grace": (shown(duration_p99_s=140.0), {"T35": WARN}),
    "a drill without Retry-After": (drilled(waits_s=(None,) * 50), {"SC07": FAIL}),
    "a drill that is told to wait for an hour": (drilled(waits_s=(3600, 2, 3, 4)), {"SC07": FAIL}),
    "a drill that ends in errors": (drilled(broken=3), {"SC07": FAIL}),
    "all are told to return together": (drilled(waits_s=(5,) * 50), {"SC08": WARN}),
    "a drill in which the admitted suffer": (drilled(refusing_p99_s=6.0), {"SC09": FAIL}),
}


@pytest.mark.parametrize(("change", "expected"), SEEDED.values(), ids=SEEDED)
def test_a_seeded_fault_is_found_by_its_code_and_nothing_else_is_called_one(change, expected, good):
    assert alarms(examine(change(good))) == expected


def test_of_a_good_workload_only_its_own_clients_stay_unknown(good):
    assert {code: verdict for code, verdict in verdicts(examine(good)).items() if verdict is not PASS} == {"SC08": OPEN}


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ((), (OPEN, None)),
        ((ClassCounted("chat", 900, 5, 100, 14),), (OPEN, None)),
        ((ClassCounted("chat", 900, 70, 100, 30),), (PASS, 1000 / 900)),
        ((ClassCounted("chat", 900, 70, 100, 30), ClassCounted("batch", 50)), (PASS, 1050 / 950)),
        ((ClassCounted("chat", 0, 0, 300, 290),), (WARN, 30.0)),
        ((ClassCounted("chat", 30, 30, 0, 0),), (OPEN, None)),
    ],
    ids=["never asked", "too few retries", "some try again", "of all classes", "refused for ever", "no first attempt"],
)
def test_whether_clients_back_off_is_told_from_the_retries_that_they_announce(counted, expected, good):
    (one,) = [one for one in examine(seen(asked=counted)(good)) if one.code == "SC08"]
    assert (one.verdict, one.number) == expected


def test_the_duration_that_was_measured_is_taken_before_any_promise(good):
    (one,) = [one for one in examine(shown(duration_p99_s=100.0)(good)) if one.code == "T35"]
    assert (one.verdict, one.basis, "a long request takes 100 s (the P99 of the last minute)" in one.evidence) == (
        *(PASS, Basis.VERIFIED, True),
    )


def test_when_nobody_told_anything_nothing_passes_and_nothing_fails():
    assert {one.verdict for one in examine(Facts(KEY))} == {OPEN}


FORGETTABLE = [field.name for field in fields(Facts) if field.name not in {"key", "faults"}]
FORGOTTEN = {name: Versions() if name == "versions" else None for name in FORGETTABLE}


@given(lost=st.sets(st.sampled_from(FORGETTABLE)))
def test_a_fact_that_is_lost_never_makes_an_alarm_nor_a_pass(good, lost):
    before, after = (
        verdicts(examine(facts)) for facts in (good, replace(good, **{name: FORGOTTEN[name] for name in lost}))
    )
    assert all(after[code] in {before[code], OPEN} for code in before)


@pytest.mark.parametrize(
    ("bound", "drain", "expected"),
    [
        ("30", 16.0, (PASS, 30.0, Basis.VERIFIED)),
        ("33", 16.0, (FAIL, 33.0, Basis.VERIFIED)),
        ("33", 0.0, (WARN, 33.0, Basis.INFERRED)),
    ],
    ids=["below what drains", "above what drains", "no drain measured"],
)
def test_a_queue_is_measured_against_what_drains_now(bound, drain, expected, tmp_path):
    made = facts_of(KEY, read([launch(lambda m: m.metadata.update(maxQueuedRequests=bound)).write(tmp_path)]))
    live = replace(LIVE, signals=SIGNALS | {"drain_per_s": drain})
    (one,) = [one for one in examine(replace(made, live=live)) if one.code == "SC06"]
    assert (one.verdict, one.number, one.basis) == expected


def test_a_burst_is_answered_with_the_number_of_replicas_that_would_have_met_it(good):
    (one,) = [one for one in examine(finds("infeasible_burst", 3)(good)) if one.code == "SC05"]
    assert (one.number, one.remedy) == (3, "set warmReplicas to 3 more, or let the gate shed such bursts")


def test_a_drill_that_provokes_nothing_verifies_nothing(good):
    quiet = drilled(statuses={200: 200}, waits_s=(), refusing_p99_s=None, returned=0, welcomed=0)(good)
    assert {code: verdict for code, verdict in verdicts(examine(quiet)).items() if verdict is not PASS} == {
        "SC07": OPEN,
        "SC08": OPEN,
        "SC09": OPEN,
    }


def test_codes_are_unique_and_every_check_names_a_page_and_a_remedy():
    assert len({one.code for one in CHECKS}) == len(CHECKS)
    assert [one.code for one in CHECKS if not (one.title and one.remedy and one.docs)] == []


def test_the_worst_comes_first(good):
    order = [one.verdict for one in examine(replace(good, live=None, hpa_troubles=("x",)))]
    assert order == sorted(order, key=list(Verdict).index)
