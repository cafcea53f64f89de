"""A replay as one HTML file: no script, nothing from elsewhere, readable in the dark, on paper and by a screen reader."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.report.markup import Markup, element
from scaler.report.page_style import STYLE
from scaler.report.replay_charts import bill, run, scale
from scaler.report.replay_table import columns
from scaler.report.replay_words import facts, sentences
from scaler.sim.outcome import Replay, Row, Side

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page asks nobody for anything, whatever its texts hold."""
SIDES = {
    Side.OURS: "ours",
    Side.RIVAL: "others, as their documents have them",
    Side.REFERENCE: "references that know what nobody can know beforehand",
}
OWN_STYLE = """
:root { --ours: var(--line); --rival: var(--unsure); --reference: var(--none); }
body { max-width: 75rem; } figure, dl { max-width: 60rem; }
.why li { margin-bottom: .35rem; }
.scores { font-size: .8rem; } .scores th, .scores td { padding-right: .55rem; }
.scores td:first-child, .scores tbody th, .scores thead th:nth-child(2) { text-align: left; }
.scores th:last-child, .scores td:last-child { text-align: right; }
.scores .ours { background: var(--chosen); font-weight: 600; } .scores .reference { color: var(--quiet); }
svg .dot.ours { fill: var(--ours); } svg .dot.rival { fill: var(--rival); }
svg .dot.reference { fill: var(--paper); stroke: var(--reference); stroke-width: 2.5; }
svg .number { font-weight: 600; fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
svg .panel { fill: var(--ink); }
svg .refused { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 3 3; }
svg .cover { fill: var(--paper); stroke: none; }
svg .ready { fill: var(--line); fill-opacity: .35; stroke: none; } svg .starting { fill: var(--unsure); fill-opacity: .35; stroke: none; }
svg .asked { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 3; }
svg .state.green { fill: var(--good); } svg .state.yellow { fill: var(--unsure); } svg .state.red { fill: var(--bad); }
svg .state.unknown { fill: var(--none); }
details summary { cursor: pointer; color: var(--quiet); }
"""


def page(found: Replay, written_by: str) -> str:
    """The whole file. ``written_by`` stands at its top, so that the file is known again."""
    answer, *rest = sentences(found)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=written_by),
        element("title", f"Replay of {found.subject.traffic}: {answer}"),
        element("style", Markup(STYLE + OWN_STYLE)),
    )
    body = element(
        "body",
        element("header", element("p", f"Replay of {found.subject.traffic}", class_="subject"), element("h1", answer)),
        element("main", *_main(found, rest)),
        element("footer", written_by),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _main(found: Replay, rest: list[str]) -> Iterator[Markup]:
    yield element("ul", *(element("li", sentence) for sentence in rest), class_="why")
    yield element("h2", "Scores")
    yield element("div", _table(found), class_="wide", tabindex="0", role="region", aria_label="Scores")
    yield _meanings(found)
    yield element("h2", "What was served, and what it cost")
    yield _legend(found)
    yield element("figure", bill(found))
    yield element("h2", "What was played")
    told = facts(found).items()
    yield element("dl", *(piece for name, value in told for piece in (element("dt", name), element("dd", value))))
    yield element("h2", "How it went")
    yield from _runs(found)


def _table(found: Replay) -> Markup:
    headings = ("", "law", *(column.heading for column in columns(found)))
    return element(
        "table",
        element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings))),
        element("tbody", *(_row(found, number, row) for number, row in enumerate(found.rows, 1))),
        class_="scores",
    )


def _row(found: Replay, number: int, row: Row) -> Markup:
    return element(
        "tr",
        element("td", str(number)),
        element("th", row.name, scope="row"),
        *(element("td", column.cell(found, row)) for column in columns(found)),
        class_=row.side.value,
    )


def _meanings(found: Replay) -> Markup:
    told = (
        piece for column in columns(found) for piece in (element("dt", column.heading), element("dd", column.meaning))
    )
    return element("details", element("summary", "What the columns mean"), element("dl", *told))


def _legend(found: Replay) -> Markup:
    seen = {row.side for row in found.rows}
    items = [
        _key(element("circle", cx=11, cy=9, r=5, class_=f"dot {side}"), SIDES[side]) for side in Side if side in seen
    ]
    items.append(
        _key(element("path", d="M1 9H21", class_="limit"), "bound: the least that a law loses which only reacts")
    )
    return element("ul", *items, class_="legend")


def _key(sign: Markup, meaning: str) -> Markup:
    drawing = element("svg", sign, width=22, height=18, viewBox="0 0 22 18", aria_hidden="true")
    return element("li", drawing, meaning)


def _runs(found: Replay) -> Iterator[Markup]:
    signs = (
        (element("path", d="M1 9H21", class_="line"), "offered requests; P95 wait"),
        (element("path", d="M1 9H21", class_="refused"), "refused attempts"),
        (element("path", d="M1 2H21V16H1z", class_="ready"), "ready"),
        (element("path", d="M1 2H21V16H1z", class_="starting"), "starting"),
        (element("path", d="M1 9H21", class_="asked"), "asked for"),
        *(
            (element("rect", x=1, y=4, width=20, height=10, class_=f"state {colour.lower()}"), colour)
            for colour in ("GREEN", "YELLOW", "RED")
        ),
    )
    yield element("p", "The first run of each, all to the same scale.", class_="subject")
    yield element("ul", *(_key(sign, meaning) for sign, meaning in signs), class_="legend")
    to = scale(found)
    for number, row in enumerate(found.rows, 1):
        if row.course is not None:
            caption = f"{number} {row.name}: {row.kept:.1%} within, {row.gpu_hours:.1f} GPU-hours"
            yield element("figure", element("figcaption", caption), run(number, row, row.course, to))
