"""A calibration as one HTML file: no script, nothing from elsewhere, readable in the dark, on paper and by a screen reader."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.calibration import Calibration
from scaler.calibration.judge import Judged, Verdict
from scaler.calibration.report import hints, rounded, sentences
from scaler.calibration.runs import LoadKind
from scaler.report.level_charts import CLASSES, HATCHING, charts, marker
from scaler.report.markup import Markup, element, together
from scaler.report.page_style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page asks nobody for anything, whatever its texts hold."""
MEANINGS = {
    Verdict.PASSES: "passes",
    Verdict.FAILS: "fails",
    Verdict.NOT_SHOWN: "not shown: more requests would tell",
    Verdict.UNUSABLE: "not usable",
}


def page(found: Calibration, written_by: str) -> str:
    """The whole file. ``written_by`` stands at its top, so that the file is known again."""
    answer, *rest = sentences(found)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=written_by),
        element("title", f"{_subject(found)}: {answer}"),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        element("header", element("p", _subject(found), class_="subject"), element("h1", answer)),
        element("main", *_main(found, rest)),
        element("footer", written_by),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _subject(found: Calibration) -> str:
    setup = found.sweep.setup
    engine = None if setup.engine_version is None else f"engine {setup.engine_version}"
    return " · ".join(filter(None, (setup.model or "one replica", setup.gpu, engine)))


def _main(found: Calibration, rest: list[str]) -> Iterator[Markup]:
    yield element("ul", *(element("li", sentence.strip()) for sentence in rest), class_="why")
    drawn = list(charts(found))
    if drawn:
        yield _legend(found)
        yield from drawn
    yield element("h2", "Levels")
    yield element("div", _table(found), class_="wide", tabindex="0", role="region", aria_label="Levels")
    if told := list(hints(found)):
        yield element("ul", *(element("li", hint) for hint in told))
    yield element("h2", "What was tested")
    yield _facts(found)


def _legend(found: Calibration) -> Markup:
    """What the signs mean, of those that are there; each is explained with the page itself, not with colour alone."""
    seen = {judged.verdict for judged in found.levels}
    items = [_key(marker(verdict, 11, 9), meaning) for verdict, meaning in MEANINGS.items() if verdict in seen]
    bounded = any(check.bound_s is not None for judged in found.levels for check in judged.checks)
    if bounded:
        items.append(_key(element("path", d="M11 15V3m-4 0h8", class_="bound"), "up to the 95 % bound"))
    items.append(_key(element("path", d="M1 9H21", class_="limit"), "objective"))
    if found.safe is not None and found.stopper is not None:
        # Shown also where there is no such stretch to see, since the drawings take their hatching from here.
        items.append(_key(_hatching(), "between a level that is safe and the next that is not: here lies the limit"))
    return element("ul", *items, class_="legend")


def _key(sign: Markup, meaning: str) -> Markup:
    drawing = element("svg", sign, width=22, height=18, viewBox="0 0 22 18", aria_hidden="true")
    return element("li", drawing, meaning)


def _hatching() -> Markup:
    line = element("path", d="M0 0V8", class_="hatch")
    lines = element(
        "pattern", line, id="between", width=6, height=8, patternUnits="userSpaceOnUse", patternTransform="rotate(35)"
    )
    return together(element("defs", lines), element("rect", x=1, y=1, width=20, height=16, fill=HATCHING))


def _table(found: Calibration) -> Markup:
    percentile = f"P{found.objectives.percentile:g}"
    latencies = [f"{percentile} {check.name.upper()} (95 % bound)" for check in found.levels[0].checks]
    headings = ("requests in flight", "requests", "failed", "requests/s", *latencies, "verdict")
    return element(
        "table",
        element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings))),
        element("tbody", *(_row(found, judged) for judged in found.levels)),
    )


def _row(found: Calibration, judged: Judged) -> Markup:
    level = judged.level
    rate = "" if level.load.kind is LoadKind.CONCURRENCY else f" at {level.load.value:g}/s"
    checks = (
        f"{_number(check.estimate_s)} s ({'none' if check.bound_s is None else f'{_number(check.bound_s)} s'})"
        for check in judged.checks
    )
    cells = (str(level.completed), _number(level.failed), _number(level.rate_per_s), *checks)
    verdict = f"{judged.verdict.value}, safe" if judged is found.safe else judged.verdict.value
    return element(
        "tr",
        element("th", f"{level.concurrency:.4g}{rate}", scope="row"),
        *(element("td", cell) for cell in cells),
        element("td", verdict, class_=f"verdict {CLASSES[judged.verdict]}"),
        class_="chosen" if judged is found.safe else None,
    )


def _facts(found: Calibration) -> Markup:
    setup, level = found.sweep.setup, (found.safe or found.levels[0]).level
    tested = sorted(
        {run.tested_on for judged in found.levels for run in judged.level.runs if run.tested_on is not None}
    )
    told = {
        "model": setup.model,
        "GPU": setup.gpu,
        "engine version": setup.engine_version,
        "the engine's cap (max_num_seqs)": _known(setup.max_num_seqs),
        "KV cache, tokens": _known(setup.kv_tokens),
        "prompts, mean tokens": _known(level.prompts.mean),
        "outputs, mean tokens": _known(level.outputs.mean),
        "load tester": " ".join(filter(None, (setup.tool, setup.tool_version))),
        "tested on": ", ".join(tested) or None,
    }
    facts = [piece for name, value in told.items() if value for piece in (element("dt", name), element("dd", value))]
    for file in found.sweep.files:
        facts += [element("dt", file.file), element("dd", "SHA-256 ", element("code", file.sha256))]
    return element("dl", *facts)


def _known(value: float | None) -> str | None:
    return None if value is None else _number(value)


def _number(value: float | None) -> str:
    known = rounded(value)
    return "unknown" if known is None else f"{known:g}"
