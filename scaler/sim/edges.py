"""Whether other edges of GREEN and RED, and another set-point, would serve more on one profile.

All three are shares of the budget, and a workload that tells the law a budget of ``s`` times the true one moves them together by ``s``;
what is served is judged by the true one. The trial is an overload of the replica itself: a fixed fleet, a rate that chance makes rise
above what it bears, a gate in the path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from scaler.core.admission import SET_POINT_RATIO
from scaler.core.pressure import ENTER_RATIO
from scaler.core.step import WorkloadSpec
from scaler.sim.contest import Contender, Contest, Gating, ran
from scaler.sim.laws import LAWS
from scaler.sim.outcome import AS_GOOD_RATIO
from scaler.sim.saturation import Saturation
from scaler.sim.stage import Setting
from scaler.sim.traffic import Draws, Rated, Stream, surge
from scaler.sim.worth import worth

SCALES = (0.5, 0.75, 1.0, 1.25)
REPLICAS = 2
USUAL_RATIO, HIGH_RATIO = 0.7, 1.6
"""Of the safe rate."""
BEGINS_S, ENDS_S, LASTS_S = 20.0, 140.0, 180.0
SIGMAS = 2.0


@dataclass(frozen=True, slots=True)
class Edges:
    """Shares of the TTFT budget: GREEN until the first, the queue held at the second while shedding, RED from the third on."""

    scale: float

    @property
    def green(self) -> float:
        """Of the wait."""
        return ENTER_RATIO * self.scale

    @property
    def set_point(self) -> float:
        """Of the queue."""
        return SET_POINT_RATIO * self.scale

    @property
    def red(self) -> float:
        """Of the projected wait."""
        return self.scale


DEFAULT = Edges(1.0)


@dataclass(frozen=True, slots=True)
class Compared:
    """What each set of edges served within the objectives, by seed."""

    kept: Mapping[Edges, tuple[float, ...]]

    @property
    def best(self) -> Edges:
        """The default, unless another is better by half a point and by two standard errors of the difference, seed by seed."""
        gains = {edges: self.gain(edges) for edges in self.kept}
        found = [edges for edges, (mean, error) in gains.items() if mean > max(AS_GOOD_RATIO, SIGMAS * error)]
        return max(found, key=lambda edges: gains[edges][0], default=DEFAULT)

    def gain(self, edges: Edges) -> tuple[float, float]:
        """Over the default: the mean and its standard error."""
        pairs = zip(self.kept[edges], self.kept[DEFAULT], strict=True)
        differences = [one - usual for one, usual in pairs]
        several = len(differences) > 1
        return fmean(differences), stdev(differences) / math.sqrt(len(differences)) if several else math.inf


@dataclass(frozen=True, slots=True)
class Trials:
    """All edges on some seeds, and the best of these beside the default on fresh ones: the best of several is lucky, too.

    ``again`` is None where the defaults already stood.
    """

    first: Compared
    again: Compared | None = None

    @property
    def best(self) -> Edges:
        """Those that were better both times, else the default."""
        return DEFAULT if self.again is None else self.again.best


def trial(setting: Setting, bears: Saturation, lengths: Draws) -> Contest:
    """The overload."""
    spec = setting.spec
    scaling = replace(spec.scaling, min_replicas=REPLICAS, max_replicas=REPLICAS, warm_replicas=0)
    platform = replace(setting.platform, replicas=REPLICAS, max_replicas=REPLICAS)
    safe = REPLICAS * (spec.profile.safe_rate_per_s or bears.safe_rate_per_s)
    rates = surge(USUAL_RATIO * safe, HIGH_RATIO * safe, BEGINS_S, ENDS_S)
    stream = Stream(spec.classes[0].name, rates, lengths)
    return Contest(replace(setting, spec=replace(spec, scaling=scaling), platform=platform), Rated((stream,), LASTS_S))


def kept_ratio(contest: Contest, edges: Edges, seed: int) -> float:
    """What is served within the true objectives by a law with such edges."""
    setting = contest.setting
    told = replace(contest, setting=replace(setting, spec=_told(setting.spec, edges)))
    run = ran(told, Contender("ours", LAWS["ours"], Gating.IN_PATH), seed)
    return worth(run, setting.spec, setting.platform.preset.gpus, contest.traffic.duration_s).kept_ratio


def compared(results: Sequence[tuple[Edges, float]]) -> Compared:
    """Of runs in the order of their seeds, each set of edges as often."""
    each: dict[Edges, tuple[float, ...]] = {}
    for edges, kept in results:
        each[edges] = (*each.get(edges, ()), kept)
    return Compared(each)


def _told(spec: WorkloadSpec, edges: Edges) -> WorkloadSpec:
    classes = (replace(one, ttft_s=None if one.ttft_s is None else one.ttft_s * edges.scale) for one in spec.classes)
    return replace(spec, classes=tuple(classes))
