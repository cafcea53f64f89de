"""``slo-scaler plan`` as it is called: a history in, the cheapest choice, what others cost, and an exit code out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest
import yaml
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.cli.plan_run import Wish, clock_s, planned
from scaler.cli.plan_words import sentences
from scaler.cli.replay_options import LoadWish, PastWish, PlaceWish, SpecWish
from scaler.errors import ConfigError
from scaler.sim.edges import Compared, Edges, Trials
from scaler.sim.fluid import Choice
from scaler.sim.forecast import Aim, Block, Forecasts, Scored
from scaler.sim.idle import Zero

STEP = "step:low_per_s=4,high_per_s=22,begins_at_s=60,duration_s=150"
QUICK = (
    "--ttft",
    2,
    "--seeds",
    1,
    "--jobs",
    1,
    "--cold-start",
    "40±5",
    "--output-tokens",
    60,
    "--most-warm",
    0,
    "--no-edges",
)
CONFIG = """
prices: {H100: 2.0, A100: 1.0}
profiles: {chat: {safe_concurrency: 20, safe_rate_per_s: 9.0, match: {gpu: H100}}}
workloads:
  prod/llama: {targets: ["10.0.0.1:8000"], metadata: {profile: chat, ttftSloSeconds: "2"}}
"""


@cache
def answered(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, (*QUICK, *arguments))])


def faults(*arguments):
    result = CliRunner().invoke(app, ["plan", *map(str, arguments)])
    assert isinstance(result.exception, ConfigError)
    return list(result.exception.faults)


def test_the_answer_comes_first_and_each_figure_says_where_it_is_from():
    result = answered(STEP, "--price", 2)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0].startswith("minReplicas ")
    assert "at 2 a GPU-hour" in lines[0]
    for text in (
        "history: ",
        "minReplicas  warmReplicas",
        "One more of minReplicas: ",
        "Scale to zero: ",
        "Forecast, ",
    ):
        assert any(line.startswith(text) for line in lines), text
    assert any("the whole history played request by request, 1 seed each." in line for line in lines)


def test_json_has_all_that_was_tried_and_the_best_of_it():
    result = CliRunner().invoke(app, ["plan", STEP, *map(str, QUICK), "--json", "--gate", "in-path"])
    answer = json.loads(result.stdout)
    best = answer["best"]
    attaining = [one for one in answer["tried"] if one["attains"]]
    assert best in attaining
    assert best["gpu_hours"] == min(one["gpu_hours"] for one in attaining)
    assert (answer["gate"], answer["scale_to_zero"]["contradicts"]) == ("in-path", True)
    assert answer["edges"] is None
    assert [law["name"] for law in answer["forecast"]["laws"]] == ["reactive", "trend"]


@cache
def found():
    place = PlaceWish(None, "llama-3.1-70b-4xh100", "40±5")
    spec = SpecWish(None, None, None, None, None, 2.0, None, None, None, None)
    load = LoadWish(STEP, None, 1.0, None, None, 60, PastWish(None, None, None, None, None))
    return planned(Wish(load, spec, place, None, None, Aim(0.99, 0), seeds=1, jobs=1, edges=False))


def told(**changes):
    return "\n".join(sentences(replace(found(), **changes)))


def test_a_floor_that_pays_is_told_as_triggers_which_begin_as_much_earlier_as_a_start_takes():
    dear, cheap = Scored("reactive", Choice(6), 0.99, 100.0), Scored("seasonal", Choice(2), 0.99, 60.0)
    blocks = (Block(8, 18, 7), Block(20, 24, 4))
    text = told(forecasts=Forecasts(dear, dear, cheap, 2.0, 2.0, blocks, lead_s=610.0))
    assert "40.0% less, with minReplicas 2 and warmReplicas 0" in text
    written = text[text.index("- type: cron") :].partition("\nWhere")[0]
    assert [trigger["metadata"] for trigger in yaml.safe_load(written)] == [
        {"timezone": "UTC", "start": "49 7 * * *", "end": "0 18 * * *", "desiredReplicas": "7"},
        {"timezone": "UTC", "start": "49 19 * * *", "end": "0 0 * * *", "desiredReplicas": "4"},
    ]


@pytest.mark.parametrize(
    ("seasonal", "words"),
    [
        pytest.param(None, "is not judged: that takes 3 days", id="too few days"),
        pytest.param(Scored("seasonal", Choice(6), 0.99, 98.0), "saves 2.0%, and less than 5%", id="too little"),
        pytest.param(Scored("seasonal", Choice(6), 0.99, 120.0), "costs 20.0% more", id="dearer"),
        pytest.param(Scored("seasonal", None, 0.0, math.inf), "needs more than there may be", id="never attains"),
    ],
)
def test_a_floor_that_does_not_pay_is_said_not_to_and_no_trigger_is_printed(seasonal, words):
    usual = Scored("reactive", Choice(6), 0.99, 100.0)
    text = told(forecasts=Forecasts(usual, usual, seasonal, 2.0, 2.0, (Block(8, 18, 7),), 60.0))
    assert words in text
    assert "type: cron" not in text


def test_edges_are_told_only_where_they_are_better_by_more_than_noise():
    wish = replace(found().wish, edges=True)
    alike, better = (Compared({Edges(0.5): kept, Edges(1.0): (0.8, 0.8)}) for kept in ((0.8, 0.8), (0.9, 0.91)))
    assert "the defaults stand" in told(wish=wish, edges=Trials(alike))
    assert "it was not so again" in told(wish=wish, edges=Trials(better, alike))
    better = told(wish=wish, edges=Trials(better, better))
    assert "GREEN below 0.2, set-point 0.3, RED from 0.5" in better
    assert "ttftSloSeconds 1 instead of 2" in better


def test_a_million_tokens_cost_the_gpu_hours_of_those_that_are_served():
    plan = replace(found(), price=2.0)
    best = plan.found.best
    assert best is not None
    tokens = plan.offered.total * plan.tokens_a_request  # nothing is shed
    assert plan.cost_per_million(best) == pytest.approx(best.gpu_hours * 2.0 / tokens * 1e6)
    assert plan.tokens_per_gpu_s(best) == pytest.approx(tokens / (best.gpu_hours * 3600))
    shed = replace(plan, pool=replace(plan.pool, sheds=True))
    assert shed.tokens(replace(best, kept_ratio=0.5)) == pytest.approx(tokens / 2)
    assert found().cost_per_million(best) is None


def test_what_was_not_played_is_said():
    assert "the whole history played request by request" in told()
    assert "all from the fluid model" in told(stretch=None)
    windows = replace(found().trace, kind="rates by window")
    assert "has rates by window" in told(trace=windows)


def test_scale_to_zero_is_told_with_whom_it_keeps_waiting_and_what_it_saves():
    zero = Zero(600.0, 60.0, 2.0, times=4, met=10, offered=1000, gpu_hours=8.0, days=2.0)
    text = told(zero=zero, price=2.0)
    assert "contradicts the objective" in text
    assert "2.0 times a day" in text
    assert "5.0 requests a day (1.00% of all)" in text
    assert "4.0 GPU-hours, 8.00 at 2 a GPU-hour" in text


def test_where_the_maximum_is_too_small_it_says_so_and_what_would_help():
    result = answered(STEP, "--max-replicas", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Nothing tried attains 99.0%")
    assert "raise --max-replicas" in result.stdout


def test_the_price_is_that_of_the_gpu_of_the_profile(tmp_path):
    path = tmp_path / "slo-scaler.yaml"
    path.write_text(CONFIG)
    result = answered(STEP, "--config", path)
    assert "at 2 a GPU-hour" in result.stdout.splitlines()[0], result.output


@pytest.mark.parametrize("text", ["8", "24:00", "08:60", "late", "-1:00"])
def test_a_clock_that_is_none_is_refused(text):
    assert clock_s("08:30") == 8.5 * 3600
    with pytest.raises(ConfigError, match="HH:MM"):
        clock_s(text)


def test_a_history_and_an_objective_are_needed():
    assert faults("--ttft", 2)[0].startswith("TRACE: ")
    assert faults(STEP)[0].startswith("--ttft: ")
