"""What ``slo-scaler explain`` prints, from the answers it got."""

from __future__ import annotations

import json

from scaler.api.render import explain_body
from scaler.cli.explain_screen import rendered
from scaler.core.cost import Spent, bill
from scaler.core.model import GpuPhase, GpuUse
from tests.support import decisions as made

TOLD = json.loads(json.dumps(explain_body(made.red(), 39.0)))


def test_the_number_comes_first_and_then_why():
    lines = rendered("prod/llama", {"keda": {"value": 5.0, "active": True}, "explanation": TOLD})
    assert lines[0] == "prod/llama: KEDA is told 5 replicas"
    assert [line.split()[0] for line in lines[1:9]] == [
        *("state", "because", "otherwise", "replicas", "load", "latency", "starts", "safe"),
    ]


def test_the_cost_of_the_last_hour_is_a_line():
    spent = Spent({GpuUse("H100", GpuPhase.SERVING): 3600.0}, 8e6, 1e6)
    told = json.loads(json.dumps(explain_body(made.red(), 39.0, bill=bill(spent, {"H100": 2.0}))))
    lines = rendered("prod/llama", {"keda": {"value": 5.0}, "explanation": told})
    used = "1 GPU-hours (0% of it starting), 2,500 tokens per GPU-second"
    money = "cost 2, 0.222 per million tokens (2 per million generated)"
    assert [line for line in lines if line.startswith("  cost ")] == [f"  cost      {used}, {money}"]


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


def lines_of(told: dict, title: str) -> list[str]:
    lines = rendered("a/b", {"keda": {"value": 1.0}, "explanation": told})
    return [line.removeprefix(f"  {title:<9} ") for line in lines if line.startswith(f"  {title:<9} ")]


def test_a_line_for_each_replica_the_fullest_first():
    one = {"age_s": 1.0, "waiting": 0.0, "kv_usage_ratio": 0.25, "awake": True, "absent": []}
    told = TOLD | {
        "readings": [one | {"replica": "llama-0", "running": 40.0}, one | {"replica": "llama-1", "running": 90.0}]
    }
    assert lines_of(told, "replica") == [
        "llama-1: 90 running, 0 waiting, 90% of its safe 100, KV cache 25%, 1.0 s old",
        "llama-0: 40 running, 0 waiting, 40% of its safe 100, KV cache 25%, 1.0 s old",
    ]


def test_what_would_be_otherwise_has_the_number_and_what_the_load_alone_asks_for():
    told = TOLD | {"what_ifs": [{"text": "without backlog", "desired": 5, "recommended": 3}]}
    assert lines_of(told, "what if") == ["without backlog: 5 replicas; the load alone would ask for 3"]


def test_the_last_hour_is_told_as_changes():
    change = {"age_s": 300.0, "before": 2, "desired": 5, "state": "RED", "blind": False, "reason": "flow"}
    told = TOLD | {"changes": [change | {"because": "5 replicas: flow"}]}
    assert lines_of(told, "changed") == ["5 min ago, RED: from 2 to 5 replicas: flow [flow]"]


def test_whether_the_number_is_followed_and_what_each_metric_asks_for():
    hpa = {"name": "keda-hpa-llama", "desired": 4, "current": 4, "up_s": 0.0, "down_s": 300.0}
    metrics = [{"metric": "s0-desired-replicas", "replicas": 6}, {"metric": "cpu", "replicas": None}]
    told = TOLD | {"followed": "6 published: no", "platform": {"hpa": hpa | {"proposals": metrics}}}
    assert (lines_of(told, "followed"), lines_of(told, "HPA")) == (
        ["6 published: no"],
        [
            "keda-hpa-llama wants 4 and saw 4; its metrics: s0-desired-replicas 6, cpu unknown; windows up 0 s, down 300 s"
        ],
    )
