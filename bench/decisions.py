"""All laws in all scenes, beside what nobody could exceed; then each line of evidence about our decisions, met or not.

``python -m bench decisions`` takes half an hour; ``python -m bench decisions-quick`` only plays ours, and two seeds.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from bench.contenders import CLAIRVOYANT, KILLED, LIMITED, OURS, STATIC, Job, Told, all_played, bound, play, rivals
from bench.evidence import Found, lines
from tests.support.scenes import SCENES, Bounds, conversations

CONTESTED = ("chat", "step", "pulse", "bursts")
"""Scenes in which rivals play, too; of the others a law cannot lose one that another wins."""
SEEDS, FEW_SEEDS, QUICK_SEEDS = range(1, 11), range(1, 4), range(1, 3)
HEAD = (
    f"{'law':36s} {'kept':>7s} {'worst':>7s} {'in TTFT':>8s} {'GPU-h':>7s} {'of static':>9s} {'most':>5s} {'turns':>6s}"
)


def run() -> list[str]:
    """Ours on ten seeds, the others on three."""
    return _run(SEEDS, FEW_SEEDS)


def quick() -> list[str]:
    """Ours alone, on two seeds."""
    return _run(QUICK_SEEDS, ())


def _run(seeds: Sequence[int], for_others: Sequence[int]) -> list[str]:
    began = time.monotonic()
    absent = conversations()
    here = [name for name in SCENES if SCENES[name].contest(1) is not None]
    told = defaultdict[tuple[str, str], list[Told]](list)
    for one in all_played(play, _jobs(here, seeds, for_others)):
        told[one.job.scene, one.job.law].append(one)
    limits = {name: [bound(Job(name, "", seed)) for seed in seeds[:3]] for name in here if name != "idle"}
    found = Found(told, {name: _mean(each) for name, each in limits.items()})
    return [
        "70B on 4xH100, C 100, safe rate 8, 4 replicas at first, TTFT 2 s, TPOT 100 ms, starts of 180 +- 30 s; bursts: C 25, safe rate 6",
        f"ours and the best static fleet on {len(seeds)} seeds, the others on {len(for_others)}",
        "kept: of all offered requests within TTFT and TPOT; most: replicas that existed; turns: changes of direction; means but for worst",
        *([f"chat: skipped, {absent}"] if isinstance(absent, str) else []),
        *(row for name in here for row in _table(name, found)),
        "",
        *lines(found),
        f"{time.monotonic() - began:.0f} s",
    ]


def _jobs(scenes: Iterable[str], seeds: Sequence[int], for_others: Sequence[int]) -> Iterator[Job]:
    for scene in scenes:
        killed = [KILLED.name] if scene in {*CONTESTED} else []
        static = [STATIC] if scene in CONTESTED else []
        yield from (Job(scene, law, seed) for law in (*OURS, *killed, *static) for seed in seeds)
        if scene in CONTESTED and for_others:
            names = rivals(scene)
            names = [CLAIRVOYANT, *names, *(f"{name}{LIMITED}" for name in names)]
            yield from (Job(scene, law, seed) for law in names for seed in for_others)


def _table(scene: str, found: Found) -> Iterator[str]:
    limit = found.bounds.get(scene)
    above = (
        f": no reactive law above {limit.safe:.2%} at the safe concurrency, {limit.ceiling:.2%} at any" if limit else ""
    )
    yield from ("", f"{scene}{above}", HEAD)
    each = {law: runs for (where, law), runs in found.told.items() if where == scene}
    static = fmean(one.worth.gpu_hours for one in each[STATIC]) if STATIC in each else None
    for law in sorted(each, key=lambda law: -fmean(one.worth.kept_ratio for one in each[law])):
        yield _row(law, each[law], static)


def _row(law: str, runs: Sequence[Told], static: float | None) -> str:
    worths = [one.worth for one in runs]
    kept, hours = [one.kept_ratio for one in worths], fmean(one.gpu_hours for one in worths)
    return (
        f"{law:36s} {fmean(kept):7.2%} {min(kept):7.2%} {fmean(one.ttft_ratio for one in worths):8.2%} {hours:7.1f}"
        f" {f'{hours / static:.2f}' if static else '-':>9s} {max(one.most_replicas for one in worths):5d}"
        f" {max(one.turns for one in worths):6d}"
    )


def _mean(each: Sequence[Bounds]) -> Bounds:
    return Bounds(fmean(one.safe for one in each), fmean(one.ceiling for one in each))
