"""What ``slo-scaler explain`` prints, from the answers it got."""

from __future__ import annotations

import json

from scaler.api.render import explain_body
from scaler.cli.explain import rendered
from tests.support import decisions as made

TOLD = json.loads(json.dumps(explain_body(made.red(), 39.0)))


def test_the_number_comes_first_and_then_why():
    lines = rendered("prod/llama", {"keda": {"value": 5.0, "active": True}, "explanation": TOLD})
    assert lines[0] == "prod/llama: KEDA is told 5 replicas"
    assert [line.split()[0] for line in lines[1:9]] == [
        *("state", "because", "otherwise", "replicas", "load", "latency", "starts", "safe"),
    ]


def test_one_replica_is_one():
    assert rendered("a/b", {"keda": {"value": 1.0}, "explanation": TOLD})[0] == "a/b: KEDA is told 1 replica"


def test_a_signal_without_a_value_has_no_unit():
    idle = TOLD | {"signals": [{"name": "ttft_s", "value": "idle"}, {"name": "tpot_s", "value": None}]}
    latency = next(line for line in rendered("a/b", {"keda": {"value": 1.0}, "explanation": idle}) if "latency" in line)
    assert latency.split(", ")[1:3] == ["ttft idle", "tpot unknown"]


def test_a_refusal_is_shown_with_its_reason():
    answer = {"keda": {"code": "UNAVAILABLE", "details": "blind"}, "explanation": TOLD}
    assert rendered("a/b", answer)[0] == "a/b: KEDA is told no number (UNAVAILABLE): blind"


def test_a_scaler_that_is_not_there_is_one_thing_said_once():
    answer = {
        "keda": {"code": "UNAVAILABLE", "details": "nothing answers"},
        "explanation": {"error": "nothing answers"},
    }
    assert rendered("a/b", answer) == ["a/b: nothing answers", "nothing answers"]


def test_a_workload_without_a_decision_says_what_it_waits_for():
    told = {"because": "no reading from llama-0"}
    answer = {"keda": {"code": "UNAVAILABLE", "details": "no reading"}, "explanation": told}
    assert rendered("a/b", answer)[-1] == "no decision yet: no reading from llama-0"
