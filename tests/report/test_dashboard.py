"""The dashboards: every expression is evaluated by a real promtool over what the scaler exports, and the JSON is what Grafana reads."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from scaler.report.alerts import prometheus_rule
from scaler.report.dashboard import COLUMNS, SOURCE, rendered
from scaler.report.dashboard_fleet import FLEET
from scaler.report.dashboard_workload import WORKLOAD
from tests.support.exported import METRIC, series, under_pressure, unknown_metrics
from tests.support.promtool import Trial, faults

BOARDS = [pytest.param(FLEET, id="fleet"), pytest.param(WORKLOAD, id="workload")]
SPEC = prometheus_rule()["spec"]
RECORDED = {rule["record"] for group in SPEC["groups"] for rule in group["rules"] if "record" in rule}
CHOSEN = {"$namespace": "prod", "$name": "llama", "$__rate_interval": "5m"}


def as_chosen(expr: str) -> str:
    """The expression as Grafana sends it."""
    for variable, value in CHOSEN.items():
        expr = expr.replace(variable, value)
    return expr


def drawings(board) -> list[dict]:
    return [panel for panel in rendered(board)["panels"] if panel["type"] != "row"]


def test_every_panel_shows_something_of_a_scaler_under_pressure(tmp_path):
    """``absent`` of an expression has no sample when the expression has one, whatever it is."""
    shown: dict[str, list] = {
        f"absent({as_chosen(expr)})": [] for board in (FLEET, WORKLOAD) for expr in board.expressions
    }
    page = series(under_pressure(), minutes=15, rise=7)
    assert faults(tmp_path, SPEC, [Trial("a page", page, 10, None, expressions=shown)]) == ""


@pytest.mark.parametrize("board", BOARDS)
def test_every_metric_of_a_panel_is_exported_or_recorded(board):
    variables = [variable.metric for variable in board.variables]
    assert unknown_metrics([*board.expressions, *variables], RECORDED) == []


@pytest.mark.parametrize("board", BOARDS)
def test_no_panel_names_a_data_source(board):
    named = [holder["datasource"] for panel in drawings(board) for holder in (panel, *panel["targets"])]
    named += [one["datasource"] for one in rendered(board)["templating"]["list"] if "datasource" in one]
    assert [source for source in named if source != SOURCE] == []
    assert rendered(board)["templating"]["list"][0]["query"] == "prometheus"


@pytest.mark.parametrize("board", BOARDS)
def test_panels_lie_beside_and_below_each_other(board):
    cells = [
        {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        for place in (panel["gridPos"] for panel in rendered(board)["panels"])
    ]
    assert [(a, b) for a, b in combinations(cells, 2) if a & b] == []
    assert max(x for cell in cells for x, _ in cell) < COLUMNS


@pytest.mark.parametrize("board", BOARDS)
def test_what_grafana_tells_apart_has_a_name_of_its_own(board):
    panels = rendered(board)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [p["title"] for p in drawings(board) if len({t["refId"] for t in p["targets"]}) < len(p["targets"])] == []


def test_a_workload_of_the_fleet_leads_to_its_own_dashboard():
    (table,) = [panel for panel in drawings(FLEET) if panel["type"] == "table"]
    (link,) = [
        p["value"][0]["url"] for o in table["fieldConfig"]["overrides"] for p in o["properties"] if p["id"] == "links"
    ]
    chosen = set(re.findall(r"var-(\w+)=", link))
    assert (link.split("?")[0], chosen) == (
        f"/d/{WORKLOAD.uid}",
        {one["name"] for one in rendered(WORKLOAD)["templating"]["list"]},
    )


def test_a_chosen_workload_is_the_only_one_that_is_shown():
    unbounded = [
        expr
        for expr in WORKLOAD.expressions
        for name in METRIC.finditer(expr)
        if not expr[name.end() :].startswith('{namespace="$namespace", name="$name"')
    ]
    assert unbounded == []
