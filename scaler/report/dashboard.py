"""Grafana dashboards, as far as ours need them: panels in rows of 24 columns, over a data source that whoever looks chooses.

The JSON is that of schema version 39, which Grafana 10.3 and later read as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

Json = dict[str, Any]

SCHEMA_VERSION = 39
COLUMNS, ROW_HEIGHT = 24, 1
SOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
STATES = (("GREEN", "green"), ("YELLOW", "yellow"), ("RED", "red"), ("UNKNOWN", "text"))
"""A state is drawn as its place in this list."""


@dataclass(frozen=True, slots=True)
class Query:
    """One expression; ``legend`` names its series. ``limit`` is the colour of a dashed line that others are judged by, if it is one."""

    expr: str
    legend: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing. ``kind`` is the name of a Grafana panel, ``about`` what a person should know of it; sizes are in grid units.

    ``states`` shows values as the names of ``STATES``. ``top`` is the end of the axis, where there is one.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    states: bool = False
    top: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One line a workload: columns by title, each with its expression and unit. A line leads to the dashboard ``to``."""

    title: str
    about: str
    columns: tuple[tuple[str, str, str], ...]
    to: str
    width: int = COLUMNS
    height: int = 10


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and what stands below it."""

    title: str
    panels: tuple[Panel | Table, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top: the values of ``label`` on the series of ``metric``."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A whole one. ``uid`` is its place in links; Grafana's own ids are Grafana's business."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()

    @property
    def expressions(self) -> tuple[str, ...]:
        """Every expression of every panel, Grafana's variables still in them."""
        return tuple(
            expr
            for row in self.rows
            for panel in row.panels
            for expr in (
                [query.expr for query in panel.queries]
                if isinstance(panel, Panel)
                else [expr for _, expr, _ in panel.columns]
            )
        )


def rendered(dashboard: Dashboard) -> Json:
    """The dashboard as Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["slo-scaler"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [_other_dashboards()],
        "annotations": {"list": []},
        "templating": {"list": [_data_source(), *(_variable(one) for one in dashboard.variables)]},
        "panels": list(_panels(dashboard)),
    }


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    """Rows from top to bottom, panels from left to right, a new line where one does not fit."""
    number, top = 1, 0
    for row in dashboard.rows:
        at = {"h": ROW_HEIGHT, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": at, "panels": []}
        number, top, left, tallest = number + 1, top + ROW_HEIGHT, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            common = {"id": number, "title": panel.title, "description": panel.about, "datasource": {**SOURCE}}
            yield {**common, "gridPos": place, **(_drawn(panel) if isinstance(panel, Panel) else _listed(panel))}
            number, left, tallest = number + 1, left + panel.width, max(tallest, panel.height)
        top += tallest


def _drawn(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "lineWidth": 1}}
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.states:
        defaults["mappings"] = [_state_names()]
    return {
        "type": panel.kind,
        "targets": [_target(place, query.expr, query.legend) for place, query in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": defaults,
            "overrides": [_dashed(place, query.limit) for place, query in enumerate(panel.queries) if query.limit],
        },
        "options": _options(panel),
    }


def _options(panel: Panel) -> Json:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "none"}
    options: Json = {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "none"},
    }
    return {**options, "showValue": "auto", "mergeValues": True} if panel.kind == "state-timeline" else options


def _target(place: int, expr: str, legend: str) -> Json:
    return {
        "refId": ascii_uppercase[place],
        "datasource": {**SOURCE},
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "range": True,
    }


def _dashed(place: int, colour: str) -> Json:
    return {
        "matcher": {"id": "byFrameRefID", "options": ascii_uppercase[place]},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}},
        ],
    }


def _listed(table: Table) -> Json:
    """Instant queries, one a column, merged by their labels."""
    values = {f"Value #{ascii_uppercase[place]}": title for place, (title, _, _) in enumerate(table.columns)}
    return {
        "type": "table",
        "targets": [
            {**_target(place, expr, ""), "range": False, "instant": True, "format": "table"}
            for place, (_, expr, _) in enumerate(table.columns)
        ],
        "transformations": [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": values}},
        ],
        "fieldConfig": {
            "defaults": {"custom": {"align": "auto", "filterable": True}},
            "overrides": [_leads(table.to), *(_column(title, unit) for title, _, unit in table.columns)],
        },
        "options": {"showHeader": True, "cellHeight": "sm"},
    }


def _column(title: str, unit: str) -> Json:
    """A column in its unit; one in ``state`` shows names and their colours."""
    shown: list[Json] = [{"id": "unit", "value": unit}]
    if unit == "state":
        shown = [
            {"id": "mappings", "value": [_state_names()]},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ]
    return {"matcher": {"id": "byName", "options": title}, "properties": shown}


def _leads(uid: str) -> Json:
    chosen = "var-datasource=${datasource}&var-namespace=${__data.fields.namespace}&var-name=${__data.fields.name}"
    link = {"title": "This workload", "url": f"/d/{uid}?{chosen}&${{__url_time_range}}"}
    return {"matcher": {"id": "byName", "options": "name"}, "properties": [{"id": "links", "value": [link]}]}


def _state_names() -> Json:
    names = {str(n): {"text": text, "color": colour, "index": n} for n, (text, colour) in enumerate(STATES)}
    return {"type": "value", "options": names}


def _data_source() -> Json:
    return {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "current": {}}


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.name.capitalize(),
        "datasource": {**SOURCE},
        "query": {"query": query, "refId": variable.name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "current": {},
    }


def _other_dashboards() -> Json:
    return {
        "type": "dashboards",
        "title": "slo-scaler",
        "tags": ["slo-scaler"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }
