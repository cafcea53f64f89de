"""A load test drawn: a latency, or the throughput, against requests in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaler.calibration import Calibration
from scaler.calibration.judge import Check, Judged, Verdict
from scaler.calibration.report import NAMES
from scaler.report.axes import LinearAxis, LogAxis, around
from scaler.report.markup import Markup, element, together

WIDTH, LATENCY_HEIGHT, THROUGHPUT_HEIGHT = 760.0, 300.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 28.0, 48.0
LABEL_WIDTH, LABEL_ROOM = 34.0, 90.0
"""What a number under the axis needs, and a few words."""
CLASSES = {
    Verdict.PASSES: "passes",
    Verdict.FAILS: "fails",
    Verdict.NOT_SHOWN: "unshown",
    Verdict.UNUSABLE: "unusable",
}
HATCHING = "url(#between)"


@dataclass(frozen=True, slots=True)
class Point:
    """One level: what was measured, its 95 % bound if there is one, what it proves, and all that in words."""

    in_flight: float
    value: float
    bound: float | None
    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing to be: ``name`` is its own within a page, ``unit`` stands beside the values, ``limit`` is a line to stay below."""

    name: str
    title: str
    unit: str
    height: float
    points: tuple[Point, ...]
    limit: float | None = None


def charts(found: Calibration) -> Iterator[Markup]:
    """Each latency that has an objective, then the throughput; without those for which no level has a value."""
    for check in found.levels[0].checks:
        yield from _drawn(found, _latency(found, check))
    yield from _drawn(found, _throughput(found))


def marker(verdict: Verdict, x: float, y: float, words: str = "") -> Markup:
    """A point whose shape tells its verdict, so that its colour need not."""
    match verdict:
        case Verdict.PASSES:
            path = f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
        case Verdict.FAILS:
            path = f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
        case Verdict.NOT_SHOWN:
            path = f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"
        case Verdict.UNUSABLE:
            path = f"M{x - 5:.1f} {y - 5:.1f}h10v10h-10z"
    return element("path", element("title", words), d=path, class_=f"point {CLASSES[verdict]}")


def _latency(found: Calibration, asked: Check) -> Chart:
    told = [(judged, check) for judged in found.levels for check in judged.checks if check.name == asked.name]
    points = tuple(
        _point(judged, check.estimate_s, check.bound_s, "s") for judged, check in told if check.estimate_s is not None
    )
    title = f"P{found.objectives.percentile:g} {NAMES[asked.name]}"
    return Chart(asked.name, title, "s", LATENCY_HEIGHT, points, asked.limit_s)


def _throughput(found: Calibration) -> Chart:
    points = tuple(_point(judged, judged.level.rate_per_s, None, "requests/s") for judged in found.levels)
    return Chart("throughput", "Throughput of one replica", "requests/s", THROUGHPUT_HEIGHT, points)


def _point(judged: Judged, value: float, bound: float | None, unit: str) -> Point:
    most = "" if bound is None else f", at most {bound:.3g} {unit}"
    words = f"{judged.level.load}: {value:.3g} {unit}{most}; {judged.verdict.value}"
    return Point(judged.level.concurrency, value, bound, judged.verdict, words)


def _drawn(found: Calibration, chart: Chart) -> Iterator[Markup]:
    """The figure; nothing where there is nothing to draw. What is 0 has no place on a logarithmic axis."""
    points = tuple(point for point in chart.points if point.in_flight > 0 and point.value > 0)
    if points:
        yield element("figure", element("figcaption", chart.title), _svg(found, chart, points))


def _svg(found: Calibration, chart: Chart, points: Sequence[Point]) -> Markup:
    tested = [judged.level.concurrency for judged in found.levels if judged.level.concurrency > 0]
    x = LogAxis(*around(tested, 1.3), LEFT, WIDTH - RIGHT)
    y = _values(chart, points)
    title, told = f"{chart.name}-title", f"{chart.name}-words"
    return element(
        "svg",
        element("title", f"{chart.title} against requests in flight", id=title),
        element("desc", ". ".join(_words(found, chart, points)), id=told),
        _grid(chart, x, y, tested),
        together(*_landmarks(found, chart, x)),
        together(*_limit(chart, y)),
        together(*_band(x, y, points)),
        _line(x, y, points),
        together(*(marker(point.verdict, x.at(point.in_flight), y.at(point.value), point.words) for point in points)),
        viewBox=f"0 0 {WIDTH:g} {chart.height:g}",
        role="img",
        aria_labelledby=f"{title} {told}",
    )


def _values(chart: Chart, points: Sequence[Point]) -> LogAxis | LinearAxis:
    """Latencies span decades, so theirs is logarithmic; throughput begins at 0."""
    values = [value for point in points for value in (point.value, point.bound) if value is not None]
    if chart.limit is None:
        return LinearAxis(1.15 * max(values), chart.height - BOTTOM, TOP)
    return LogAxis(*around([*values, chart.limit], 1.6), chart.height - BOTTOM, TOP)


def _words(found: Calibration, chart: Chart, points: Sequence[Point]) -> Iterator[str]:
    if chart.limit is not None:
        yield f"The objective is {chart.limit:g} {chart.unit}"
    if found.safe is not None:
        yield f"Safe: {found.safe.level.load}"
    yield from (point.words for point in points)


def _grid(chart: Chart, x: LogAxis, y: LogAxis | LinearAxis, tested: Sequence[float]) -> Markup:
    """The axes: round values at the left, the tested levels below, where there is room for their numbers."""
    floor, pieces, free = chart.height - BOTTOM, list[Markup](), 0.0
    for value in y.ticks:
        pieces += [
            _path(f"M{LEFT:g} {y.at(value):.1f}H{WIDTH - RIGHT:g}", "grid"),
            _text(f"{value:g}", LEFT - 8, y.at(value) + 4, "end"),
        ]
    for in_flight in sorted(set(tested)):
        at = x.at(in_flight)
        pieces.append(_path(f"M{at:.1f} {floor:g}v5", "axis"))
        if at >= free:
            pieces.append(_text(f"{in_flight:.3g}", at, floor + 19, "middle"))
            free = at + LABEL_WIDTH
    pieces += [
        _path(f"M{LEFT:g} {floor:g}H{WIDTH - RIGHT:g}", "axis"),
        _text("requests in flight", (LEFT + WIDTH - RIGHT) / 2, chart.height - 10, "middle"),
        _text(chart.unit, 0, TOP - 14, "start"),
    ]
    return element("g", *pieces, class_="axes", aria_hidden="true")


def _landmarks(found: Calibration, chart: Chart, x: LogAxis) -> Iterator[Markup]:
    """The safe level, and the stretch above it in which the limit lies."""
    safe, stopper = found.safe, found.stopper
    if safe is None or safe.level.concurrency <= 0:
        return
    at, floor = x.at(safe.level.concurrency), chart.height - BOTTOM
    if stopper is not None and stopper.level.concurrency > safe.level.concurrency:
        width = x.at(stopper.level.concurrency) - at
        yield element("rect", x=at, y=TOP, width=width, height=floor - TOP, fill=HATCHING)
    yield _path(f"M{at:.1f} {TOP:g}V{floor:g}", "safe")
    right = at < LEFT + LABEL_ROOM
    yield _text(
        f"safe {safe.level.concurrency:.3g}",
        at + 6 if right else at - 6,
        TOP + 10,
        "start" if right else "end",
        "safe-label",
    )


def _limit(chart: Chart, y: LogAxis | LinearAxis) -> Iterator[Markup]:
    if chart.limit is not None:
        at = y.at(chart.limit)
        yield _path(f"M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}", "limit")
        yield _text(f"objective {chart.limit:g} {chart.unit}", LEFT + 6, at - 6, "start", "limit-label")


def _band(x: LogAxis, y: LogAxis | LinearAxis, points: Sequence[Point]) -> Iterator[Markup]:
    """What the measurement leaves open: between neighbours that have a bound, the strip from the measured value up to it."""
    for low, high in pairwise(points):
        if low.bound is not None and high.bound is not None:
            left, right = x.at(low.in_flight), x.at(high.in_flight)
            upper = f"M{left:.1f} {y.at(low.bound):.1f}L{right:.1f} {y.at(high.bound):.1f}"
            yield _path(f"{upper}L{right:.1f} {y.at(high.value):.1f}L{left:.1f} {y.at(low.value):.1f}z", "band")
    for point in points:
        if point.bound is not None:
            at = x.at(point.in_flight)
            yield _path(f"M{at:.1f} {y.at(point.value):.1f}V{y.at(point.bound):.1f}m-4 0h8", "bound")


def _line(x: LogAxis, y: LogAxis | LinearAxis, points: Sequence[Point]) -> Markup:
    places = "L".join(f"{x.at(point.in_flight):.1f} {y.at(point.value):.1f}" for point in points)
    return _path(f"M{places}", "line")


def _path(drawn: str, kind: str) -> Markup:
    return element("path", d=drawn, class_=kind)


def _text(words: str, x: float, y: float, anchor: str, kind: str | None = None) -> Markup:
    return element("text", words, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=kind)
