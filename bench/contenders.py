"""Who is compared, and one run of one of them in one scene: in as many processes as there are cores, each run by its names alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

from bench.laws import RIVALS
from scaler.sim.contest import Contender, Contest, Gating, best_static, ran, static
from scaler.sim.laws import LAWS, tuned
from scaler.sim.play import Run
from scaler.sim.score import flips_per_min
from scaler.sim.stage import Law
from scaler.sim.worth import Worth, worth
from tests.support.scenes import PRESET, SCENES, Bounds, Restarted, bounds, lengths_of

OURS = {
    "ours, in path": Contender("ours, in path", LAWS["ours"], Gating.IN_PATH),
    "ours, polled": Contender("ours, polled", LAWS["ours"], Gating.POLLED),
    "ours, no gate": Contender("ours, no gate", LAWS["ours"]),
}
KILLED = Contender("ours, polled, killed every 300 s", Restarted(), Gating.POLLED)
STATIC, CLAIRVOYANT, LIMITED = "best static", "clairvoyant", ", limit"
LIMIT_RATIO = 1.2
"""Where a rival's replicas refuse what is too much, that is above so many times the safe concurrency."""


def told(contest: Contest) -> Mapping[str, Law]:
    """The rivals with the numbers that a load test gives: what somebody would set who knows the engine as we do."""
    safe = contest.setting.spec.profile.safe_concurrency
    lengths = lengths_of(contest)
    kv = safe * (lengths.prompt_tokens + lengths.output_tokens / 2) / PRESET.limits.kv_tokens
    return {
        "kserve-running, C": tuned(RIVALS["kserve-running"], {"target": safe}),
        "ray-serve, C": tuned(RIVALS["ray-serve"], {"target_ongoing": safe}),
        "knative-kpa, C": tuned(RIVALS["knative-kpa"], {"target": safe}),
        "aibrix-apa, KV at C": tuned(RIVALS["aibrix-apa"], {"target": kv}),
        "dynamo-load, KV at C, 30 s": tuned(RIVALS["dynamo-load"], {"kv_up": kv, "kv_down": kv / 2, "every_s": 30.0}),
    }


@dataclass(frozen=True, slots=True)
class Job:
    """One run, by names."""

    scene: str
    law: str
    seed: int


@dataclass(frozen=True, slots=True)
class Told:
    """What became of it.

    ``asked``: the most replicas that the law ever asked for; ``changes``: how often the number or the colour that it decided changed
    within the window of the scene, and ``flips_per_min`` how often the colour did.
    """

    job: Job
    worth: Worth
    asked: float
    changes: int
    flips_per_min: float


def rivals(scene: str) -> list[str]:
    """The names of all rivals in a scene."""
    contest = SCENES[scene].contest(1)
    return [] if contest is None else [*RIVALS, *told(contest)]


def play(job: Job) -> Told:
    """One run."""
    contest = SCENES[job.scene].contest(job.seed)
    if contest is None:
        raise LookupError(job.scene)
    return play_in(contest, job)


def play_in(contest: Contest, job: Job) -> Told:
    """One run, in a place that may differ from that of the scene."""
    if job.law.endswith(LIMITED):
        limit = round(LIMIT_RATIO * contest.setting.spec.profile.safe_concurrency)
        platform = replace(contest.setting.platform, limit=limit)
        contest = replace(contest, setting=replace(contest.setting, platform=platform))
    run = ran(contest, _contender(job, contest), job.seed)
    spec, ends_at = contest.setting.spec, contest.traffic.duration_s
    window = SCENES[job.scene].window
    return Told(
        job,
        worth(run, spec, PRESET.gpus, ends_at),
        max((one.value for one in run.asked if one.value is not None), default=0.0),
        _changes(run, job.scene),
        flips_per_min(run.decisions, window) if window and run.decisions else 0.0,
    )


def bound(job: Job) -> Bounds:
    """What nobody can exceed who only reacts, for the seed of a job."""
    scene = SCENES[job.scene]
    contest = scene.contest(job.seed)
    return Bounds(math.nan, math.nan) if contest is None else bounds(scene, contest, job.seed)


def all_played(play_one: Callable[[Any], Told], jobs: Iterable[Any]) -> Iterator[Told]:
    """On all cores at once, in order; each run in a process that many of them share."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as executor:
        yield from executor.map(play_one, jobs)


def _contender(job: Job, contest: Contest) -> Contender:
    name = job.law.removesuffix(LIMITED)
    if name in OURS:
        return OURS[name]
    if name == KILLED.name:
        return KILLED
    if name == STATIC:
        return static(_best(job.scene))
    known = {**RIVALS, **told(contest), CLAIRVOYANT: LAWS[CLAIRVOYANT]}
    return Contender(name, known[name])


@cache
def _best(scene: str) -> int:
    """By the first seed: known only afterwards, and the same for all."""
    contest = SCENES[scene].contest(1)
    assert contest is not None
    found = best_static(contest, 1, (1.0,) * contest.setting.spec.scaling.max_replicas)
    return found.law.replicas  # type: ignore[attr-defined]


def _changes(run: Run, scene: str) -> int:
    window = SCENES[scene].window
    if window is None:
        return 0
    decided = [(one.desired, one.state) for one in run.decisions if window.has(one.decided_at)]
    return sum(before != after for before, after in pairwise(decided))
