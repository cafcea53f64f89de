"""What happened, as log lines and metrics."""

import asyncio
import fcntl
import io
import json
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

import grpc
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scaler.control.board import Board
from scaler.control.ports import Telemetry
from scaler.core.decision import Decision, Finding, LawInputs, Pending, Reason, ShapeInputs
from scaler.core.explain import recompute
from scaler.core.model import Absent, GateMode, Missing, Pressure, RequestClass, WorkloadKey
from scaler.core.plain import plain, restore
from scaler.telemetry import Reporter
from scaler.telemetry.libraries import listened_to
from tests.support import decisions as made
from tests.support.served import Clock

GREEN, RED, BLIND = made.green(), made.red(), made.blind()
AT = "2026-01-01T00:00:00.000+00:00"
WALL = 1767225600.0
REFUSED = (Missing("llama-0", "connection refused"),)


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


@dataclass
class Told:
    """A reporter with its board, clock and log."""

    stream: Any = field(default_factory=io.StringIO)
    board: Board = field(default_factory=Board)
    clock: Clock = field(default_factory=lambda: Clock(39.0))
    reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        self.reporter = Reporter(self.board, self.clock, lambda: WALL, self.stream)

    def tick(self, *outcomes: Decision | Pending) -> None:
        for outcome in outcomes:
            self.board.publish(outcome)
            self.reporter.ticked(outcome, 0.003)

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def events(self) -> list[tuple[str, int | None]]:
        return [(line["event"], line.get("suppressed")) for line in self.lines()]

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        text = generate_latest(self.reporter.registry).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def value(self, metric: str, /, **labels: str) -> float | None:
        found = [value for sample, having, value in self.samples() if sample == metric and having == labels]
        return found[0] if found else None


@pytest.fixture
def told() -> Told:
    return Told()


def boom(message: str = "a bug") -> Exception:
    """An error that was really raised, always on the same line."""
    with pytest.raises(LookupError) as caught:
        _raise(message)
    return caught.value


def _raise(message: str) -> None:
    raise LookupError(message)


def test_the_reporter_is_what_loops_need(told):
    port: Telemetry = told.reporter
    assert port is told.reporter


def test_a_decision_line_holds_all_that_recomputes_it(told):
    told.tick(RED)
    (line,) = told.lines()
    assert line == {
        "at": AT,
        "level": "info",
        "event": "decision",
        "namespace": "prod",
        "name": "llama",
        "sequence": 19,
        "desired": 5,
        "state": "RED",
        "reason": "backlog",
        "runner_up": "flow",
        "because": "5 replicas: backlog 1.54 on top of flow 3.33: 1480 requests still wait when the next replica is "
        "ready (142 s), to be drained in 120 s",
        "gate": "enforce",
        "blind": False,
        "age_s": 1.0,
        "load": {
            "offered_per_s": RED.estimate.offered_per_s,
            "window_s": 25.0,
            "ready": 2,
            "starting": 0,
            "prompt_p50_tokens": "unknown",
            "output_p50_tokens": "unknown",
        },
        "capacity": plain(RED.estimate.capacity),
        "inputs": plain(RED.recommendation.inputs),
        "shape": plain(RED.shaped.inputs),
        "classes": plain(RED.classes),
        "findings": plain(RED.findings),
    }
    assert recompute(restore(LawInputs, line["inputs"]), restore(ShapeInputs, line["shape"])) == line["desired"]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param({"sequence": 20, "decided_at": 40.0}, 1, id="nothing"),
        pytest.param({"desired": 6}, 2, id="desired"),
        pytest.param({"state": Pressure.YELLOW}, 2, id="state"),
        pytest.param({"reason": Reason.FLOW}, 2, id="reason"),
        pytest.param({"gate": GateMode.OBSERVE}, 2, id="gate"),
        pytest.param({"classes": (replace(RED.classes[0], state=Pressure.YELLOW),)}, 2, id="a class"),
    ],
)
def test_a_line_is_written_only_when_the_decision_changes(told, change, lines):
    told.tick(RED, replace(RED, **change))
    assert len(told.lines()) == lines


def test_a_load_that_moves_while_the_decision_stands_is_told_four_times_a_minute(told):
    for second in range(62):
        told.clock.now = float(second)
        told.tick(replace(GREEN, estimate=replace(GREEN.estimate, offered_per_s=10.0 + second)))
    assert told.events() == [("decision", None), *[("load", None)] * 4]
    assert told.lines()[-1] == {
        "at": AT,
        "level": "info",
        "event": "load",
        "namespace": "prod",
        "name": "llama",
        "desired": GREEN.desired,
        "load": {**told.lines()[0]["load"], "offered_per_s": 70.0},
    }


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param({}, 1, id="steady"),
        pytest.param({"offered_per_s": 1.04 * GREEN.estimate.offered_per_s}, 1, id="noise"),
        pytest.param({"offered_per_s": 0.9 * GREEN.estimate.offered_per_s}, 2, id="load"),
        pytest.param({"ready": 1}, 2, id="ready"),
        pytest.param({"starting": 1}, 2, id="starting"),
    ],
)
def test_a_load_is_told_when_it_differs_by_more_than_noise(told, change, lines):
    told.tick(GREEN)
    told.clock.now += 15.0
    told.tick(replace(GREEN, estimate=replace(GREEN.estimate, **change)))
    assert len(told.lines()) == lines


def test_a_blind_scaler_tells_of_no_load(told):
    told.tick(BLIND)
    told.clock.now += 60.0
    told.tick(replace(BLIND, estimate=replace(BLIND.estimate, offered_per_s=99.0)))
    assert [event for event, _ in told.events() if event == "load"] == []


def test_a_pending_reason_is_told_when_it_changes(told):
    first, second = made.pending(), Pending(made.KEY, "no list of replicas yet")
    told.tick(first, first, second, second)
    assert [line["why"] for line in told.lines()] == [first.why, second.why]


def test_a_failure_that_goes_on_is_told_once_a_minute_with_the_number_of_those_held_back(told):
    failing = replace(GREEN, missing=REFUSED)
    for second in range(0, 62, 2):
        told.clock.now = float(second)
        told.tick(failing)
    assert (told.events(), told.lines()[-1]["missing"]) == (
        [("decision", None), ("failing", 0), ("failing", 29)],
        [{"replica": "llama-0", "why": "connection refused"}],
    )


def test_a_failure_of_a_new_kind_is_told_at_once(told):
    told.tick(replace(GREEN, missing=REFUSED), replace(GREEN, missing=(Missing("llama-0", "timeout after 1.5 s"),)))
    assert [line["missing"][0]["why"] for line in told.lines() if line["event"] == "failing"] == [
        "connection refused",
        "timeout after 1.5 s",
    ]


def test_a_flapping_target_is_no_reason_to_flood_the_log(told):
    failing = replace(GREEN, missing=REFUSED)
    for _ in range(100):
        told.tick(failing, GREEN)
    assert told.events() == [("decision", None), ("failing", 0)]


def test_a_profile_that_does_not_hold_is_told_when_that_begins_and_when_it_ends(told):
    drifts = Finding("mix_drift", "the median prompt is 2 times that of the load test")
    told.tick(*(replace(GREEN, findings=found) for found in ((), (drifts,), (drifts, Finding("stuck", "")), ())))
    assert [(line["level"], line["findings"]) for line in told.lines() if line["event"] == "profile"] == [
        ("warning", [{"code": "mix_drift", "text": drifts.text, "warm_replicas": None}]),
        ("info", []),
    ]


def test_a_profile_that_holds_now_and_then_is_no_reason_to_flood_the_log(told):
    for number in range(600):
        told.clock.now += 1.0
        drifts = (Finding("mix_drift", ""),) if number % 2 else ()
        told.tick(replace(GREEN, findings=drifts, decided_at=told.clock.now, observed_at=told.clock.now))
    assert 10 <= len([line for line in told.lines() if line["event"] == "profile"]) <= 22


def test_going_blind_is_told_with_every_reason(told):
    told.tick(BLIND)
    failing = told.lines()[-1]
    assert (failing["event"], failing["blind"], failing["missing"]) == ("failing", True, plain(BLIND.missing))


def test_a_crash_shows_its_traceback_once_and_is_counted_every_time(told):
    for message in ("first", "second", "third"):
        told.reporter.crashed(made.KEY, boom(message))
    (line,) = told.lines()
    assert (line["event"], line["level"], line["name"], line["traceback"].splitlines()[-1]) == (
        "crash",
        "error",
        "llama",
        "LookupError: first",
    )
    assert told.value("slo_scaler_crashes_total") == 3


def test_a_failed_handler_is_told_once_and_counted_every_time(told):
    for _ in range(2):
        told.reporter.failed("GetMetrics", boom())
    (line,) = told.lines()
    assert (line["event"], line["method"], line["suppressed"]) == ("handler_failed", "GetMetrics", 0)
    assert told.value("slo_scaler_handler_failures_total", method="GetMetrics") == 2


@pytest.mark.fault("disk is full")
def test_a_log_that_cannot_be_written_stops_nothing():
    told = Told(stream=Closed())
    told.tick(RED)
    assert told.value("slo_scaler_log_lines_lost_total") == 1


@contextmanager
def piped() -> Iterator[tuple[TextIO, Told]]:
    """The reading end of a pipe as small as the system lets it be, and a reporter that logs into it."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with os.fdopen(reading) as unread, os.fdopen(writing, "w") as stream:
        told = Told(stream=stream)
        yield unread, told
        unread.close()
        told.reporter.close(30)


@pytest.mark.fault("log is not read")
def test_a_reader_that_stalls_costs_lines_and_not_time():
    with piped() as (_, told):
        for port in range(10_000):
            told.reporter.listening(keda=port)
        lost = told.value("slo_scaler_log_lines_lost_total")
    assert lost is not None
    assert lost > 5000


def test_the_last_lines_are_written_before_the_process_ends():
    with piped() as (lines, told), ThreadPoolExecutor(1) as reader:
        read = reader.submit(lambda: [json.loads(lines.readline())["keda"] for _ in range(1000)])
        for port in range(1000):
            told.reporter.listening(keda=port)
        told.reporter.close(30)
        assert read.result() == list(range(1000))


@pytest.mark.fault("log is not read")
def test_a_pipe_whose_reader_has_gone_loses_every_line_and_counts_it():
    with piped() as (lines, told):
        lines.close()
        for _ in range(3):
            told.tick(RED, GREEN)
        told.reporter.close(30)
        assert told.value("slo_scaler_log_lines_lost_total") == 6


def test_what_is_said_after_the_end_is_counted_as_lost():
    with piped() as (_, told):
        told.reporter.close(30)
        told.tick(RED)
        assert told.value("slo_scaler_log_lines_lost_total") == 1


def test_a_reader_that_made_the_pipe_non_blocking_still_gets_whole_lines():
    with piped() as (lines, told), ThreadPoolExecutor(1) as reader:
        os.set_blocking(told.stream.fileno(), False)
        told.tick(*(replace(RED, desired=desired) for desired in range(100)))
        read = reader.submit(lambda: [json.loads(lines.readline())["desired"] for _ in range(100)])
        told.reporter.close(30)
        assert read.result() == list(range(100))


SECRET = "canary-41c0"


async def test_what_libraries_log_is_told_once_a_minute_without_its_words(told):
    with listened_to(told.reporter.library, asyncio.get_running_loop()):
        for second in range(62):
            told.clock.now = float(second)
            logging.getLogger("aiohttp.server").error("from %s", SECRET, exc_info=boom(SECRET))
    logging.getLogger("aiohttp.server").error("afterwards")
    first, last = told.lines()
    assert {name: first[name] for name in ("level", "event", "library", "error", "suppressed")} == {
        "level": "error",
        "event": "library",
        "library": "aiohttp.server",
        "error": "LookupError",
        "suppressed": 0,
    }
    assert (last["suppressed"], SECRET in told.stream.getvalue()) == (59, False)
    assert told.value("slo_scaler_library_errors_total", library="aiohttp") == 62


def test_a_crowded_port_is_told_once_a_minute_and_counted_every_time(told):
    for _ in range(3):
        told.reporter.crowded("gate")
    assert told.events() == [("crowded", 0)]
    assert told.value("slo_scaler_connections_crowded_out_total", port="gate") == 3


async def test_what_goes_wrong_in_the_loop_is_told_without_its_words(told):
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    with listened_to(told.reporter.library, loop):
        for _ in range(2):
            loop.call_exception_handler({"message": SECRET, "exception": OSError(24, SECRET), "protocol": SECRET})
    (line,) = told.lines()
    assert (line["event"], line["library"], line["error"], SECRET in str(line)) == (
        "library",
        "asyncio",
        "OSError",
        False,
    )
    assert loop.get_exception_handler() is before


@pytest.mark.parametrize(
    ("method", "code", "labels"),
    [
        pytest.param(
            "GetMetrics", grpc.StatusCode.OK, ("externalscaler.ExternalScaler", "GetMetrics", "OK"), id="ours"
        ),
        pytest.param("/a.v1.B/Check", "NOT_FOUND", ("a.v1.B", "Check", "NOT_FOUND"), id="with its service"),
    ],
)
def test_rpcs_are_counted_and_timed(told, method, code, labels):
    told.reporter.handled(method, code, 0.01)
    service, name, status = labels
    counted = told.value("grpc_server_handled_total", grpc_service=service, grpc_method=name, grpc_code=status)
    timed = told.value("grpc_server_handling_seconds_sum", grpc_service=service, grpc_method=name)
    assert (counted, timed) == (1, 0.01)


def test_ticks_are_timed(told):
    told.tick(RED, RED)
    assert told.value("slo_scaler_tick_duration_seconds_count") == 2


def of_workload(told: Told) -> dict[str, float]:
    """Every series of the one workload, by name and the labels that differ."""
    return {
        name.removeprefix("slo_scaler_") + "".join(f" {labels[k]}" for k in ("state", "class") if k in labels): value
        for name, labels, value in told.samples()
        if labels.get("namespace") == "prod"
    }


def test_gauges_are_those_of_the_decision(told):
    told.tick(RED)
    assert of_workload(told) == {
        "desired_replicas": 5,
        "ready_replicas": 2,
        "starting_replicas": 0,
        "stuck_replicas": 0,
        "missing_replicas": 0,
        "target_requests": 90,
        "safe_concurrency_requests": 100,
        "ongoing_requests": 544,
        "queued_requests": 344,
        "above_safe_concurrency_ratio": 0,
        "offered_per_second": 24,
        "arrival_per_second": 24,
        "throughput_per_second": 16,
        "drain_per_second": 16,
        "refused_per_second": 0,
        "queue_wait_seconds": 19.5,
        "ttft_seconds": pytest.approx(0.475),
        "ttft_p99_seconds": pytest.approx(0.495),
        "replica_ready_seconds": 180,
        "profile_mismatch_ratio": 0,
        "would_admit_ratio": 0.01,
        "saturation_ratio": 2.72,
        "eta_seconds": RED.estimate.eta_s,
        "decision_age_seconds": 1,
        "state GREEN": 0,
        "state YELLOW": 0,
        "state RED": 1,
        "state UNKNOWN": 0,
        "admit_ratio chat": 0.05,
        "admit_ratio agent": 0.05,
        "admit_ratio batch": 0.01,
        "remaining_budget_seconds chat": 0,
        "remaining_budget_seconds agent": 0,
        "scrape_failures_total": 0,
    }


def test_an_old_decision_is_shown_as_it_is_seen_when_prometheus_asks(told):
    told.tick(RED)
    told.clock.now = 1e4
    shown = of_workload(told)
    assert (shown["state RED"], shown["state UNKNOWN"], shown["admit_ratio chat"], shown["desired_replicas"]) == (
        0,
        1,
        1,
        5,
    )


@pytest.mark.parametrize("gate", [GateMode.OFF, GateMode.OBSERVE])
def test_whoever_acts_on_the_fraction_is_told_to_admit_all_unless_the_classs_gate_is_enforced(told, gate):
    chat, agent, batch = RED.classes
    told.tick(replace(RED, classes=(replace(chat, gate=gate), agent, replace(batch, gate=gate))))
    shown = of_workload(told)
    assert {name: value for name, value in shown.items() if "admit_ratio" in name} == {
        "admit_ratio chat": 1,
        "admit_ratio agent": 0.05,
        "admit_ratio batch": 1,
        "would_admit_ratio": 0.01,
    }


@pytest.mark.parametrize("absent", Absent)
def test_what_is_not_measured_has_no_series(told, absent):
    told.tick(replace(RED, estimate=replace(RED.estimate, ttft_s=absent)))
    assert "ttft_seconds" not in of_workload(told)


def test_replicas_above_the_safe_concurrency_are_a_share_of_those_awake(told):
    one = RED.readings[0]
    above, full, idle = (replace(one, running=running) for running in (101.0, 100.0, Absent.IDLE))
    told.tick(replace(RED, readings=(above, full, idle, replace(one, running=500.0, awake=False))))
    assert of_workload(told)["above_safe_concurrency_ratio"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [({"drift_ratio": 1.6, "derate_ratio": 0.9}, 0.6), ({"drift_ratio": 0.7}, 0.3), ({"derate_ratio": 0.5}, 0.5)],
)
def test_a_profile_that_does_not_hold_is_a_ratio(told, changes, ratio):
    told.tick(replace(RED, estimate=replace(RED.estimate, capacity=replace(RED.estimate.capacity, **changes))))
    assert of_workload(told)["profile_mismatch_ratio"] == pytest.approx(ratio)


def test_a_workload_has_at_most_forty_series(told):
    classes = tuple(RequestClass(f"class-{i}", ttft_s=2.0, tpot_s=0.1, order=i) for i in range(5))
    told.tick(made.red(replace(made.SPEC, classes=classes)))
    assert len(of_workload(told)) <= 40


def test_scrape_failures_are_counted(told):
    for _ in range(2):
        told.reporter.looked(BLIND.key, BLIND.missing)
    assert told.value("slo_scaler_scrape_failures_total", namespace="prod", name="llama") == 4


def test_a_forgotten_workload_leaves_no_series(told):
    told.tick(RED)
    told.board.drop(made.KEY)
    told.reporter.forgotten(made.KEY)
    assert (of_workload(told), told.lines()[-1]["event"]) == ({}, "forgotten")


def test_what_is_remembered_of_passing_failures_is_bounded(told):
    for pod in range(1000):
        told.clock.now += 1.0
        told.tick(replace(GREEN, missing=(Missing(f"pod-{pod}", "timeout"),)))
    remembered = told.reporter._memories[made.KEY].seldom._last
    assert len(remembered) <= 257


def test_a_name_cannot_forge_a_line(told):
    told.tick(replace(RED, key=WorkloadKey("prod", 'x"\n{"event":"decision"}')))
    assert [line["name"] for line in told.lines()] == ['x"\n{"event":"decision"}']
