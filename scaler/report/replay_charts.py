"""A replay drawn: what each law served against what it cost, and how one law's run went over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaler.core.model import Pressure
from scaler.report.axes import LinearAxis, LogAxis
from scaler.report.markup import Markup, element
from scaler.sim.course import Course, Point
from scaler.sim.outcome import Replay, Row

WIDTH, LEFT, RIGHT = 760.0, 56.0, 20.0
BILL_HEIGHT, TOP, BOTTOM = 320.0, 28.0, 46.0
LEAST_LOST, MOST_LOST = 0.0005, 1.0
"""What is lost spans decades; less than this is drawn as this."""
APART = 15.0
"""Numbers nearer than this would hide each other, and are written above each other."""
BAND, PANEL, GAP = 12.0, 96.0, 30.0
HOURS_FROM_S = 3 * 3600.0
SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.02, 600.0


@dataclass(frozen=True, slots=True)
class Scale:
    """What the runs of all laws are drawn to, so that they can be compared. ``budget_s`` is the objective of the first token."""

    seconds: float
    rate_per_s: float
    replicas: int
    longest_s: float
    budget_s: float | None


def scale(found: Replay) -> Scale:
    """The largest of all."""
    points = [point for row in found.rows if row.course is not None for point in row.course.points]
    return Scale(
        found.subject.duration_s,
        max((point.offered_per_s for point in points), default=1.0) or 1.0,
        max((max(point.ready + point.starting, point.asked or 0) for point in points), default=1) or 1,
        max(1.0, *(point.waited_s or 0.0 for point in points), found.setting.spec.budget_s or 0.0),
        found.setting.spec.budget_s,
    )


def bill(found: Replay) -> Markup:
    """Each law by its number in the table: how much was not served within the objectives, against the GPU-hours."""
    floor = BILL_HEIGHT - BOTTOM
    x = LinearAxis(1.08 * max(row.gpu_hours for row in found.rows), LEFT, WIDTH - RIGHT)
    y = LogAxis(LEAST_LOST, MOST_LOST, floor, TOP)
    pieces = [
        *_lines(x, y, [(value, f"{100 * value:g}") for value in (0.001, 0.01, 0.1, 1.0)]),
        *(_text(f"{tick:g}", x.at(tick), floor + 18, "middle") for tick in x.ticks),
        _text("GPU-hours", (LEFT + WIDTH - RIGHT) / 2, BILL_HEIGHT - 8, "middle"),
        _text("not served within the objectives, %", 0, TOP - 14, "start"),
        *_bounds(found, y),
        *_numbers(found, x, y),
    ]
    return element(
        "svg",
        element("title", "What was not served within the objectives, against GPU-hours", id="bill-title"),
        element("desc", ". ".join(_told(row) for row in found.rows), id="bill-words"),
        *pieces,
        viewBox=f"0 0 {WIDTH:g} {BILL_HEIGHT:g}",
        role="img",
        aria_labelledby="bill-title bill-words",
    )


def run(number: int, row: Row, drawn: Course, to: Scale) -> Markup:
    """Traffic, replicas, waits and colours of one run over time."""
    name = f"run-{number}"
    x = LinearAxis(to.seconds, LEFT, WIDTH - RIGHT)
    first = TOP if not drawn.spells else TOP + BAND + GAP
    tops = [first + index * (PANEL + GAP) for index in range(3)]
    height = tops[-1] + PANEL + BOTTOM - 4
    return element(
        "svg",
        element("title", f"{row.name} over time", id=f"{name}-title"),
        element("desc", _told(row), id=f"{name}-words"),
        *_colours(drawn, x),
        *_traffic(drawn, x, LinearAxis(1.1 * to.rate_per_s, tops[0] + PANEL, tops[0])),
        *_replicas(drawn, x, LinearAxis(1.1 * to.replicas, tops[1] + PANEL, tops[1])),
        *_waits(drawn, x, _wait_axis(to, tops[2]), to),
        *_time(x, tops[2] + PANEL),
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-words",
    )


def _told(row: Row) -> str:
    return f"{row.name}: {row.kept:.1%} served within the objectives, {row.gpu_hours:.1f} GPU-hours"


def _bounds(found: Replay, y: LogAxis) -> Iterator[Markup]:
    at = y.at(_lost(found.limits.reactive_ratio))
    yield _path(f"M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}", "limit")
    yield _text("bound", LEFT + 6, at - 6, "start", "limit-label")


def _numbers(found: Replay, x: LinearAxis, y: LogAxis) -> Iterator[Markup]:
    taken: list[tuple[float, float]] = []
    for number, row in enumerate(found.rows, 1):
        across, up = x.at(row.gpu_hours), y.at(_lost(row.kept))
        beside = up - 9
        while any(abs(across - other) < APART and abs(beside - above) < APART - 1 for other, above in taken):
            beside -= APART
        taken.append((across, beside))
        yield element(
            "circle", element("title", _told(row)), cx=round(across, 1), cy=round(up, 1), r=5, class_=f"dot {row.side}"
        )
        yield _text(str(number), across, beside, "middle", f"number {row.side}")


def _lost(kept: float) -> float:
    return min(MOST_LOST, max(LEAST_LOST, 1 - kept))


def _colours(drawn: Course, x: LinearAxis) -> Iterator[Markup]:
    """A strip above all: its height tells the colour, too."""
    heights = {Pressure.GREEN: 0.35, Pressure.YELLOW: 0.7, Pressure.RED: 1.0}
    if drawn.spells:
        yield _text("state", LEFT - 8, TOP + BAND - 2, "end")
    for spell in drawn.spells:
        tall = BAND * heights.get(spell.state, 1.0)
        begins, ends = x.at(spell.begins_at), x.at(spell.ends_at)
        words = element("title", f"{spell.state.value} from {spell.begins_at:.0f} s to {spell.ends_at:.0f} s")
        yield element(
            "rect",
            words,
            x=round(begins, 1),
            y=round(TOP + BAND - tall, 1),
            width=round(max(0.6, ends - begins), 1),
            height=round(tall, 1),
            class_=f"state {spell.state.value.lower()}",
        )


def _traffic(drawn: Course, x: LinearAxis, y: LinearAxis) -> Iterator[Markup]:
    yield from _panel(x, y, "requests/s: offered, refused attempts", [(tick, f"{tick:g}") for tick in y.ticks])
    yield _path(_joined(x, y, [(_middle(drawn, point), point.offered_per_s) for point in drawn.points]), "line")
    if any(point.refused_per_s for point in drawn.points):
        high = y.high
        yield _path(
            _joined(x, y, [(_middle(drawn, point), min(high, point.refused_per_s)) for point in drawn.points]),
            "refused",
        )


def _replicas(drawn: Course, x: LinearAxis, y: LinearAxis) -> Iterator[Markup]:
    yield from _panel(x, y, "replicas: ready, starting, asked for", [(tick, f"{tick:g}") for tick in y.ticks])
    ready = [(point, float(point.ready)) for point in drawn.points]
    there = [(point, float(point.ready + point.starting)) for point in drawn.points]
    yield _path(_filled(drawn, x, y, there), "starting")
    yield _path(_filled(drawn, x, y, ready), "cover")
    yield _path(_filled(drawn, x, y, ready), "ready")
    asked = [(point, float(point.asked)) for point in drawn.points if point.asked is not None]
    yield _path(_stairs(drawn, x, y, asked), "asked")


def _waits(drawn: Course, x: LinearAxis, y: LogAxis, to: Scale) -> Iterator[Markup]:
    ticks = [tick for tick in (0.1, 1.0, 10.0, 100.0) if y.low <= tick <= y.high]
    yield from _panel(x, y, "P95 wait until the first token, s", [(tick, f"{tick:g}") for tick in ticks])
    for stretch in _stretches(drawn.points):
        places = [(_middle(drawn, point), min(y.high, max(y.low, point.waited_s or 0.0))) for point in stretch]
        yield _path(_joined(x, y, places if len(places) > 1 else places * 2), "line")
    if to.budget_s is not None:
        at = y.at(min(y.high, max(y.low, to.budget_s)))
        yield _path(f"M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}", "limit")
        yield _text(f"objective {to.budget_s:g} s", WIDTH - RIGHT, at - 5, "end", "limit-label")


def _wait_axis(to: Scale, top: float) -> LogAxis:
    return LogAxis(SHORTEST_WAIT_S, min(LONGEST_WAIT_S, 1.5 * to.longest_s), top + PANEL, top)


def _stretches(points: Iterable[Point]) -> Iterator[list[Point]]:
    """Those without a gap in which nobody was admitted."""
    stretch: list[Point] = []
    for point in points:
        if point.waited_s is not None:
            stretch.append(point)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _time(x: LinearAxis, floor: float) -> Iterator[Markup]:
    unit_s, unit = (3600.0, "hours") if x.high >= HOURS_FROM_S else (60.0, "minutes")
    for tick in LinearAxis(x.high / unit_s, x.start, x.end).ticks:
        at = x.at(tick * unit_s)
        yield _path(f"M{at:.1f} {floor:g}v5", "axis")
        yield _text(f"{tick:g}", at, floor + 18, "middle")
    yield _text(unit, (LEFT + WIDTH - RIGHT) / 2, floor + 36, "middle")


def _panel(x: LinearAxis, y: LinearAxis | LogAxis, title: str, ticks: Sequence[tuple[float, str]]) -> Iterator[Markup]:
    yield _text(title, LEFT, y.end - 7, "start", "panel")
    yield from _lines(x, y, ticks)
    yield _path(f"M{LEFT:g} {y.start:g}H{WIDTH - RIGHT:g}", "axis")


def _lines(x: LinearAxis, y: LinearAxis | LogAxis, ticks: Sequence[tuple[float, str]]) -> Iterator[Markup]:
    for value, words in ticks:
        at = y.at(value)
        yield _path(f"M{x.start:g} {at:.1f}H{x.end:g}", "grid")
        yield _text(words, x.start - 8, at + 4, "end")


def _middle(drawn: Course, point: Point) -> float:
    return point.begins_at + drawn.step_s / 2


def _joined(x: LinearAxis, y: LinearAxis | LogAxis, places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x.at(min(x.high, at)):.1f} {y.at(value):.1f}" for at, value in places)


def _stairs(drawn: Course, x: LinearAxis, y: LinearAxis, values: Sequence[tuple[Point, float]]) -> str:
    """A value that holds until the next. The last of a stretch is what it ends with."""
    if not values:
        return ""
    begun = f"M{x.at(values[0][0].begins_at):.1f} {y.at(values[0][1]):.1f}"
    steps = [
        f"H{x.at(after.begins_at):.1f}V{y.at(value):.1f}"
        for (_, before), (after, value) in pairwise(values)
        if value != before
    ]
    return begun + "".join(steps) + f"H{x.at(min(x.high, values[-1][0].begins_at + drawn.step_s)):.1f}"


def _filled(drawn: Course, x: LinearAxis, y: LinearAxis, values: Sequence[tuple[Point, float]]) -> str:
    return f"{_stairs(drawn, x, y, values)}V{y.start:g}H{x.start:g}z" if values else ""


def _path(drawn: str, kind: str) -> Markup:
    return element("path", d=drawn, class_=kind)


def _text(words: str, x: float, y: float, anchor: str, kind: str | None = None) -> Markup:
    return element("text", words, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=kind)
