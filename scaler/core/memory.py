"""What of a workload's state outlives its process: a text of at most 700 bytes, so that a ConfigMap holds a thousand of them.

It is one line of JSON that a person can read. Lengths of time are whole seconds before ``t``; null stands for never:

    v  version of this form
    t  wall time at which it was written, seconds
    k  fingerprint of the spec that the last tick ran with
    d  [desired, since work was last seen, [[since, replicas] of the scale-down window], [[replicas, since] that the platform owes]]
    l  [residence time, windows learnt from, since the last of them, derating, since that changed last]
    a  [[TTFT and TPOT objective, share within], the level that is learnt, [[level, requests, late, surely late], ...]]
    r  [first tokens, arrivals and refusals a second, since the fleet is saturated]
    c  [[class, first letter of its state, since it is that, since its wait is over the edge, share admitted], ...]
    n  kinds of nodes
    s  [[since a start ended, how long it took, which of n, how much of it passed before the replica was created], ...], newest first

What nobody looked at is evidence for nothing. So neither the scale-down window nor idleness runs on between the text and its recall, and
for how long a state could already have ended is not stored: it is counted again. Until a process has rates of its own those of the text
count, and for as long at least what was desired stands.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from scaler.core.capacity import DERATE_FLOOR, Learned
from scaler.core.estimate import LONGEST_WINDOW_S, Belief
from scaler.core.history import WINDOW_SPAN_S, History
from scaler.core.learning import shown_of, told_of
from scaler.core.model import Phase, Pressure
from scaler.core.pressure import Colour
from scaler.core.stabilize import Stabilizer, reseed
from scaler.core.starts import ASKED, KEPT, Finished, Starts
from scaler.core.step import State, WorkloadSpec
from scaler.core.windows import Extremes, Series

VERSION = 1
MOST_BYTES = 700
DESIRED_LASTS_S, PASSING_LASTS_S = 86_400.0, 120.0
"""What was desired yesterday must not be imposed today; rates and colours say nothing of now much sooner."""
HOLD_S = LONGEST_WINDOW_S
MOST_STEPS = 8
"""Of the scale-down window, and of what the platform owes."""
MOST_REPLICAS, MOST_AGO_S, LARGEST = 10**6, 10**7, 1e12
"""Absurd numbers must neither break a text nor be believed."""

Unset = TypeVar("Unset", float, None)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The state that a text stands for, and in one phrase what could not be made of it; empty when nothing is missing."""

    state: State
    note: str = ""


def remember(state: State, now: float, wall: float) -> str:
    """The text of a state that has decided: ASCII, ``MOST_BYTES`` at most. Classes and starts that do not fit are left out."""
    ago, memory, learned = _Ago(now), state.stabilizer, state.learned
    window = [[ago(at), _replicas(number)] for at, number in _thinned(memory.downs.stairs)]
    asks = [[_replicas(number), ago(at)] for number, at in (*memory.asks[:1], *memory.asks[1:][1 - MOST_STEPS :])]
    learning = _digits(learned.residence_s), min(learned.windows, MOST_REPLICAS), ago(learned.learned_at)
    written: dict[str, Any] = {
        "v": VERSION,
        "t": round(wall, 1),
        "k": _fingerprint(state.spec),
        "d": [_replicas(memory.published or 0), ago(memory.busy_at), window, asks],
        "l": [*learning, _digits(learned.derate_ratio), ago(learned.derated_at)],
        "c": [],
        "n": [],
        "s": [],
    }
    seen = None if state.decision is None or state.decision.blind else state.decision.estimate
    if seen is not None and seen.throughput_per_s is not None:
        rates = (seen.throughput_per_s, seen.arrival_per_s, seen.refused_per_s)
        written["r"] = [*map(_digits, rates), ago(state.belief.saturated_since)]
    told, levels = told_of(learned.shown)
    if learned.shown.lasts:
        written["a"] = [*told, []]
    room = _Room(MOST_BYTES - len(_dumped(written)))
    written["c"] = [item for item in _written_classes(state, ago) if room.holds(item)]
    if learned.shown.lasts:
        written["a"][-1] = sorted(level for level in levels if room.holds(level))
    for start in reversed(state.starts.finished):
        named = start.node_class in written["n"]
        kind = written["n"].index(start.node_class) if named else len(written["n"])
        asked = [_digits(phase.took_s, 3) for phase in start.phases if phase.name == ASKED]
        item = [ago(start.at), _digits(start.took_s, 3), kind, *asked]
        if not room.holds(item, *([] if named else [start.node_class])):
            break
        written["s"].append(item)
        if not named:
            written["n"].append(start.node_class)
    return _dumped(written)


def recall(text: str, spec: WorkloadSpec, now: float, wall: float) -> Recalled:
    """The state to begin with at ``now``; a blank one where the text makes no sense. Never raises.

    A text of a newer version is read as far as it is understood. A wall clock that went back makes a text new, not impossible.
    """
    try:
        written = json.loads(text)
        version, stamp = _whole(written["v"]), _number(written["t"])
    except _SENSELESS:
        return Recalled(State(), "what is stored is no text of ours")
    if version < VERSION:
        return Recalled(State(), f"what is stored has the unknown version {version}")
    when, state, missing = _When(now, max(0.0, wall - stamp), spec), State(), []
    for key, read, lasts_s in _FIELDS:
        if key in written and when.written_s <= lasts_s:
            try:
                state = read(state, written, when)
            except _SENSELESS:
                missing.append(key)
    if missing and version == VERSION:
        return Recalled(State(), f"what is stored makes no sense in {', '.join(missing)}")
    newer = "" if version == VERSION else f"what is stored is of the newer version {version}"
    return Recalled(state, f"{newer}; not understood: {', '.join(missing)}" if missing else newer)


@dataclass(frozen=True, slots=True)
class _Ago:
    """Instants as whole seconds before ``now``, rounded down: a start that seems older than it is would be counted twice."""

    now: float

    def __call__(self, at: float | None) -> int | None:
        return None if at is None or not math.isfinite(at) else int(min(MOST_AGO_S, max(0.0, self.now - at)))


@dataclass(frozen=True, slots=True)
class _When:
    """What lengths of time count back from: the instant of recall, ``written_s`` seconds after the text was written."""

    now: float
    written_s: float
    spec: WorkloadSpec

    def at(self, ago: object) -> float:
        """An instant."""
        return self.now - self.written_s - _number(ago)

    def since(self, ago: object, never: Unset) -> float | Unset:
        """An instant where there was one."""
        return never if ago is None else self.at(ago)

    def watched(self, ago: object) -> float:
        """An instant since which somebody watched: as if no time had passed after the text was written."""
        return self.now - _number(ago)


def _stabilizer(state: State, written: Any, when: _When) -> State:
    published, busy, window, asks = written["d"]
    hold_at = when.now + HOLD_S - when.spec.stabilize.down_s(0.0)  # the shortest that the window can be
    stairs = [(when.watched(ago), float(_whole(replicas))) for ago, replicas in window]
    downs = Extremes()
    for at, replicas in sorted([*stairs, (hold_at, float(_whole(published)))]):
        downs = downs.add(at, replicas, math.inf)
    memory = Stabilizer(
        published=published,
        downs=downs,
        ups=Extremes(-1, ((when.now, float(published)),)),
        busy_at=-math.inf if busy is None else when.watched(busy),
        asks=tuple(sorted((_whole(replicas), when.at(ago)) for replicas, ago in asks)),
    )
    edited = written.get("k") != _fingerprint(when.spec)
    return replace(state, stabilizer=reseed(memory, when.now) if edited else memory)


def _learned(state: State, written: Any, when: _When) -> State:
    residence, windows, learned_ago, ratio, derated_ago = written["l"]
    learned = Learned(
        residence_s=_number(residence),
        windows=_whole(windows) if residence else 0,
        learned_at=when.since(learned_ago, -math.inf),
        derate_ratio=_number(ratio, least=DERATE_FLOOR, most=1.0),
        derated_at=when.since(derated_ago, -math.inf),
    )
    return replace(state, learned=learned)


def _shown(state: State, written: Any, when: _When) -> State:  # noqa: ARG001 - evidence has no age
    return replace(state, learned=replace(state.learned, shown=shown_of(written["a"])))


def _rates(state: State, written: Any, when: _When) -> State:
    """The history of a fleet that went on as it was: it counts until there are two looks of our own, and fades as more come."""
    started, entered, refused, saturated = written["r"]
    began = when.now - WINDOW_SPAN_S

    def steady(rate: object) -> Series:
        return Series(WINDOW_SPAN_S, (began, when.now), (0.0, _number(rate) * WINDOW_SPAN_S))

    history = History(first_tokens=steady(started), entered=steady(entered), refused=steady(refused))
    belief = Belief(saturated_since=when.since(saturated, None), throughput_per_s=_number(started))
    return replace(state, history=history, belief=belief)


def _classes(state: State, written: Any, when: _When) -> State:
    colours, admitted = [], []
    for name, letter, since, high, ratio in written["c"]:
        colour = Colour(_STATES[letter], since=when.since(since, -math.inf), high_since=when.since(high, None))
        colours.append((_name(name), colour))
        if ratio is not None:
            admitted.append((_name(name), _number(ratio, most=1.0)))
    return replace(state, colours=tuple(colours), admitted=tuple(admitted))


def _starts(state: State, written: Any, when: _When) -> State:
    kinds = [_name(kind) for kind in written["n"]]
    finished = [
        Finished(when.at(ago), _number(took_s), kinds[_whole(kind)], tuple(Phase(ASKED, _number(s)) for s in asked[:1]))
        for ago, took_s, kind, *asked in written["s"][:KEPT]
    ]
    return replace(state, starts=Starts(finished=tuple(sorted(finished, key=lambda start: start.at))))


_SENSELESS = (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError)
_STATES = {state[0]: state for state in (Pressure.GREEN, Pressure.YELLOW, Pressure.RED)}
_FIELDS: tuple[tuple[str, Callable[[State, Any, _When], State], float], ...] = (
    ("d", _stabilizer, DESIRED_LASTS_S),
    ("l", _learned, math.inf),
    ("a", _shown, math.inf),
    ("r", _rates, PASSING_LASTS_S),
    ("c", _classes, PASSING_LASTS_S),
    ("s", _starts, math.inf),
)
"""How each key becomes part of a state, and for how many seconds after it was written it says something."""


@dataclass(slots=True)
class _Room:
    """The bytes that are left for items of lists."""

    left: int

    def holds(self, *items: object) -> bool:
        """Whether there is room for all of these, which is then taken."""
        left = self.left - sum(len(_dumped(item)) + 1 for item in items)
        if left >= 0:
            self.left = left
        return left >= 0


def _written_classes(state: State, ago: _Ago) -> Iterable[list[Any]]:
    """Those under pressure first: what does not fit begins as GREEN."""
    decided = () if state.decision is None else state.decision.classes
    admitted = {verdict.name: round(verdict.admit_ratio, 2) for verdict in decided}
    for name, colour in sorted(state.colours, key=lambda named: named[1].state is Pressure.GREEN):
        yield [name, colour.state[0], ago(colour.since), ago(colour.high_since), admitted.get(name)]


def _thinned(stairs: tuple[tuple[float, float], ...]) -> Iterable[tuple[float, float]]:
    """At most ``MOST_STEPS`` stairs above all of these: each as high as the first of those it stands for, and as young as the last."""
    each = max(1, math.ceil(len(stairs) / MOST_STEPS))
    for begin in range(0, len(stairs), each):
        run = stairs[begin : begin + each]
        yield run[-1][0], run[0][1]


def _fingerprint(spec: WorkloadSpec | None) -> str:
    return f"{zlib.crc32(repr(spec).encode()):08x}"


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _replicas(number: float) -> int:
    return int(min(MOST_REPLICAS, max(0, number)))


def _digits(value: float, digits: int = 4) -> float:
    """A number that is short when written."""
    short = float(f"{min(LARGEST, max(0.0, value)):.{digits}g}")
    return int(short) if short.is_integer() else short


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError
    return value


def _number(value: object, *, least: float = 0.0, most: float = LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError
    return float(value)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
