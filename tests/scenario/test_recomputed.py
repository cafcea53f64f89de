"""Every decision of a run is made again from its log line, by arithmetic taken from docs/law.md and from nothing of the code."""

import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from scaler.control.board import Board
from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import GateMode, Objective, RequestClass, WorkloadKey
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.cluster import Platform
from scaler.sim.gateways import InPath
from scaler.sim.play import Play
from scaler.sim.stage import Setting
from scaler.sim.starts import Normal
from scaler.sim.traffic import Stream, arrivals
from scaler.telemetry import Reporter

CHAT = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(safe_concurrency=40.0, safe_rate_per_s=4.0, unloaded_ttft_s=0.1),
    (RequestClass("chat", ttft_s=2.0),),
    scaling=ScalingSpec(min_replicas=1, max_replicas=12),
    gate=GateMode.ENFORCE,
)
WORKLOADS = {
    "chat": CHAT,
    "to-zero": replace(
        CHAT, scaling=ScalingSpec(min_replicas=0, max_replicas=12), stabilize=StabilizeSpec(10.0, 60.0, 60.0)
    ),
    "rate-unknown": replace(CHAT, profile=Profile(safe_concurrency=40.0)),
    "jobs": replace(CHAT, classes=(RequestClass("batch", objective=Objective.COMPLETION, deadline_s=120.0),)),
    "narrow-and-warm": replace(CHAT, scaling=ScalingSpec(min_replicas=2, max_replicas=4, warm_replicas=1)),
}
SURGE = ((0.0, 3.0), (100.0, 12.0), (250.0, 20.0), (330.0, 2.0), (400.0, 0.0))
ENDS_S = 800.0


def number(written):
    return float(written) if isinstance(written, str) else written


def asked_for(i):
    """The replica law: what the load asks for, within bounds, and never below what runs or is silent, as far as that exists."""
    load = i["offered_per_s"] * i["residence_s"] if i["residence_s"] else i["ongoing"]
    flow, rate = load / i["target"], i["safe_rate_per_s"]
    wait = 0.0 if math.isinf(i["eta_s"]) else (i["arrival_per_s"] - i["drain_per_s"]) * i["eta_s"]
    backlog = max(0.0, i["queue"] + wait) / (rate * i["drain_deadline_s"]) if rate else 0.0
    wanted = max(flow * i["growth_ratio"], flow + backlog)
    if rate and i["deadline_s"]:
        wanted = i["queue"] / (rate * i["deadline_s"])
    floors = [i["running"] / i["target"]] + ([wanted + i["missing"] + i["warm_replicas"]] if i["missing"] else [])
    kept = max(min(i["current"], math.ceil(floor - 1e-9)) for floor in floors)
    count = max(math.ceil(wanted - 1e-9) + i["warm_replicas"], kept)
    return min(max(count, i["min_replicas"]), i["max_replicas"])


def published(s):
    """Up at once under pressure, else when it was wanted long enough; down to the most of the window, never while RED or blind."""
    before = s["published"]
    up = max(before or 0, min(s["recommended"], s["window_min"]), s["min_replicas"])
    if before is None:
        start = max(s["current"], s["start_floor"], s["min_replicas"])
        count = max(start, s["recommended"] if s["pressed"] else min(s["recommended"], max(start, s["window_min"])))
    elif s["blind"]:
        count = before
    elif s["recommended"] >= before:
        count = s["recommended"] if s["pressed"] else min(up, s["recommended"])
    else:
        count = before if s["red"] else max(s["recommended"], min(before, s["window_max"]))
    if count == 0 and not s["idle"]:
        count = 1
    return min(max(count, s["floor"]), s["max_replicas"])


def decided(spec):
    """All decisions of a run: calm, a surge, a larger one, little, nothing."""
    platform = Platform(PRESETS["llama-3.1-8b-l40s"], 1, 12, Normal(60.0, 10.0))
    load = list(arrivals([Stream(spec.classes[0].name, SURGE)], 450.0, seed=1))
    return Play(Setting(spec, platform), InPath(1)).until(ENDS_S, load).decisions


def logged(decisions: Sequence[Decision]):
    """A line for each, also for those that change nothing: the reporter forgets between them what it has told."""
    stream = io.StringIO()
    reporter = Reporter(Board(), lambda: 0.0, lambda: 1.79e9, stream)
    for decision in decisions:
        reporter.ticked(decision, 0.0)
        reporter.forgotten(decision.key)
    reporter.close()
    lines = [line for line in map(json.loads, stream.getvalue().splitlines()) if line["event"] == "decision"]
    assert len(lines) == len(decisions)
    return lines


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_decision_of_a_run_is_made_again_from_its_log_line(name):
    spec = WORKLOADS[name]
    counts = set()
    for line in logged(decided(spec)):
        inputs, shape = ({key: number(value) for key, value in line[part].items()} for part in ("inputs", "shape"))
        assert (asked_for(inputs), published(shape)) == (shape["recommended"], line["desired"]), line
        counts.add(line["desired"])
    assert len(counts) > 2, "a run in which nothing happens shows nothing"
