"""What is promised about our decisions, line by line, and whether it is so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.contenders import CLAIRVOYANT, KILLED, LIMITED, OURS, STATIC, Told
from tests.support.scenes import SCENES, Bounds

IN_PATH, POLLED, NO_GATE = OURS
GATED = (IN_PATH, POLLED)
LEAST_GATED, MOST_TIMES_STATIC, LEAST_OPEN = 0.985, 1.10, 0.97
POINT, OF_BOUND, AHEAD = 0.01, {IN_PATH: 0.95, POLLED: 0.93}, 0.10
MOST_TIMES_NEEDED, MOST_TURNS, MOST_FLIPS_PER_MIN = 1.3, 2, 0.5
OVERLOADS = ("2x at max", "5x at max")


@dataclass(frozen=True, slots=True)
class Found:
    """The runs by scene and law, and the bounds by scene."""

    told: Mapping[tuple[str, str], Sequence[Told]]
    bounds: Mapping[str, Bounds]

    def kept(self, scene: str, law: str) -> float:
        """The mean share that was served within its objectives."""
        return fmean(one.worth.kept_ratio for one in self.told[scene, law])

    def hours(self, scene: str, law: str) -> float:
        """The mean GPU-hours."""
        return fmean(one.worth.gpu_hours for one in self.told[scene, law])

    def most(self, scene: str, law: str) -> int:
        """The most replicas that there ever were."""
        return max(one.worth.most_replicas for one in self.told[scene, law])

    def has(self, scene: str, law: str = IN_PATH) -> bool:
        """Whether it was played."""
        return bool(self.told.get((scene, law)))


def lines(found: Found) -> Iterator[str]:
    """Each promise, with the figures."""
    for promise in (_chat, _step, _overload, _pulse, _bursts, _stuck, _turns, _flips, _idle, _restarts):
        for met, text in promise(found):
            yield f"{'met    ' if met else 'NOT met'}  {text}"


def _chat(found: Found) -> Iterator[tuple[bool, str]]:
    if not found.has("chat"):
        return
    static = found.hours("chat", STATIC)
    for law in GATED:
        kept, times = found.kept("chat", law), found.hours("chat", law) / static
        yield (
            kept >= LEAST_GATED and times <= MOST_TIMES_STATIC,
            f"chat, {law}: {kept:.2%} (>= 98.5 %) at {times:.2f}x the best static fleet (<= 1.10x)",
        )
    kept = found.kept("chat", NO_GATE)
    yield kept >= LEAST_OPEN, f"chat, {NO_GATE}: {kept:.2%} (>= 97 %)"


def _step(found: Found) -> Iterator[tuple[bool, str]]:
    limit = found.bounds["step"]
    for law in GATED:
        kept = found.kept("step", law)
        yield kept >= limit.safe - POINT, f"step 15 -> 60, {law}: {kept:.2%} (within a point of {limit.safe:.2%})"
        if kept < limit.ceiling - POINT:
            yield (
                False,
                f"  of {limit.ceiling:.2%}, which takes more than C in a replica and all 4 first ones: {limit.ceiling - kept:.2%} below",
            )


def _overload(found: Found) -> Iterator[tuple[bool, str]]:
    for scene in OVERLOADS:
        limit = found.bounds[scene]
        for law, share in OF_BOUND.items():
            kept = found.kept(scene, law)
            yield (
                kept >= share * limit.safe,
                f"{scene}, {law}: {kept:.2%} is {kept / limit.safe:.1%} of {limit.safe:.2%} (>= {share:.0%})",
            )
            if kept < share * limit.ceiling:
                yield (
                    False,
                    f"  {kept / limit.ceiling:.1%} of {limit.ceiling:.2%}, which takes more than C in a replica",
                )


def _pulse(found: Found) -> Iterator[tuple[bool, str]]:
    needs = SCENES["pulse"].needs or 1
    for law in OURS:
        most = found.most("pulse", law)
        yield (
            most <= MOST_TIMES_NEEDED * needs,
            f"pulse of 90 s, {law}: at most {most} replicas, {most / needs:.2f}x the {needs} that it needs (<= 1.3x)",
        )


def _bursts(found: Found) -> Iterator[tuple[bool, str]]:
    kept, hours = found.kept("bursts", IN_PATH), found.hours("bursts", IN_PATH)
    others = [
        law for scene, law in found.told if scene == "bursts" and law not in {*OURS, KILLED.name, STATIC, CLAIRVOYANT}
    ]
    for kind, names in (
        ("rival", [law for law in others if not law.endswith(LIMITED)]),
        ("rival whose replicas refuse", [law for law in others if law.endswith(LIMITED)]),
    ):
        if names:
            best = max(names, key=lambda law: found.kept("bursts", law))
            rival = found.kept("bursts", best)
            beside = f"the best {kind}, {best}: {rival:.2%} at {found.hours('bursts', best):.1f}"
            limit = f"no reactive law above {found.bounds['bursts'].ceiling:.2%}"
            yield (
                kept >= rival + AHEAD,
                f"bursts, {IN_PATH}: {kept:.2%} at {hours:.1f} GPU-h (>= 10 points above {beside}; {limit})",
            )


def _stuck(found: Found) -> Iterator[tuple[bool, str]]:
    for law in OURS:
        pairs = zip(found.told["grows", law], found.told["grows, one pod stuck", law], strict=True)
        more = [stuck.asked - usual.asked for usual, stuck in pairs]
        yield (
            max(more) <= 0,
            f"one stuck pod, {law}: {max(more):+.0f} replicas asked for at most, {fmean(more):+.1f} on average (<= 0)",
        )


def _turns(found: Found) -> Iterator[tuple[bool, str]]:
    for scene, place in SCENES.items():
        if place.levels:
            each = {law: max(one.worth.turns for one in found.told[scene, law]) / place.levels for law in OURS}
            worst = max(each, key=lambda law: each[law])
            yield (
                each[worst] <= MOST_TURNS,
                f"{scene}, {worst}: {each[worst]:.1f} changes of direction a change of level (<= 2)",
            )


def _flips(found: Found) -> Iterator[tuple[bool, str]]:
    for scene in OVERLOADS:
        for law in GATED:
            flips = max(one.flips_per_min for one in found.told[scene, law])
            yield flips <= MOST_FLIPS_PER_MIN, f"{scene}, {law}: {flips:.2f} changes of colour a minute (<= 0.5)"


def _idle(found: Found) -> Iterator[tuple[bool, str]]:
    changes = max(one.changes for law in OURS for one in found.told["idle", law])
    yield changes == 0, f"an idle hour: {changes} changes of the number or the colour (0)"


def _restarts(found: Found) -> Iterator[tuple[bool, str]]:
    for scene in ("chat", "step", "pulse", "bursts"):
        if found.has(scene, KILLED.name):
            lost = found.kept(scene, POLLED) - found.kept(scene, KILLED.name)
            yield lost < POINT, f"{scene}, killed every 300 s: {lost * 100:+.2f} points lost (< 1)"
