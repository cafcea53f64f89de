"""``slo-scaler plan``: from the options to everything that is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from statistics import fmean

from scaler.cli.plan_options import Gate
from scaler.cli.plan_runs import Ground, Runs, runs, telling
from scaler.cli.price import price_of_gpu_hour
from scaler.cli.replay_load import loaded
from scaler.cli.replay_options import LoadWish, PlaceWish, SpecWish
from scaler.cli.replay_place import Placed, configuration, placed, promised
from scaler.core.cost import HOUR_S, charged, per_million
from scaler.core.model import GateMode
from scaler.core.step import WorkloadSpec
from scaler.errors import ConfigError
from scaler.sim.bound import Load
from scaler.sim.contest import Contest, Gating
from scaler.sim.edges import DEFAULT, SCALES, Compared, Edges, Trials, compared, trial
from scaler.sim.fluid import Choice, Flow, Pool, flow
from scaler.sim.forecast import Aim, Forecasts, forecasts
from scaler.sim.idle import Zero, zero
from scaler.sim.plan import (
    SEED,
    UNPLAYABLE,
    Found,
    Judged,
    Stretch,
    as_fluid,
    busiest,
    cheapest,
    history,
    pool,
    put_together,
    worst,
)
from scaler.sim.stage import Setting
from scaler.sim.traces import Assumed, Trace
from scaler.sim.traffic import Arrival, Measured

SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Wish:
    """All options."""

    load: LoadWish
    spec: SpecWish
    place: PlaceWish
    gate: Gate | None
    price: float | None
    aim: Aim
    seeds: int
    jobs: int | None
    edges: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """All that was found. ``stretch`` is None where no part of the history could be played. ``price`` is of a GPU-hour, None: unknown.

    ``tokens_a_request`` is the mean of prompt and answer in the busiest stretch.
    """

    wish: Wish
    trace: Trace
    place: Placed
    offered: Load
    pool: Pool
    stretch: Stretch | None
    found: Found
    most: Flow
    zero: Zero
    forecasts: Forecasts
    edges: Trials
    price: float | None
    tokens_a_request: float

    @property
    def days(self) -> float:
        """How long the history is."""
        return self.offered.seconds / 86400

    def tokens(self, of: Judged) -> float:
        """Prompt and generated tokens of all that is served. Without a gate all is served, if late."""
        return self.offered.total * self.tokens_a_request * (of.kept_ratio if self.pool.sheds else 1.0)

    def cost_per_million(self, of: Judged) -> float | None:
        """The cost of a million tokens; None without a price."""
        return per_million(self.money(of.gpu_hours), self.tokens(of))

    def tokens_per_gpu_s(self, of: Judged) -> float | None:
        """How much the GPUs get done; None without any."""
        return self.tokens(of) / (of.gpu_hours * HOUR_S) if of.gpu_hours else None

    def money(self, gpu_hours: float) -> float | None:
        """What they cost; None without a price."""
        return None if self.price is None else charged(gpu_hours * HOUR_S, self.price)


def planned(wish: Wish) -> Planned:
    """Everything. Raises ConfigError."""
    with telling() as tell:
        return _planned(wish, tell)


def _planned(wish: Wish, tell: Callable[[str], None]) -> Planned:
    tell("reading the history")
    configured = configuration(wish.spec.config)
    spec = promised(wish.spec, configured)
    trace = loaded(wish.load, Assumed(spec.classes[0].name, workload=wish.spec.workload), configured)
    offered = history(trace.traffic)
    tell("loading a replica as a load tester would")
    place, coming = _placed(spec, wish, trace, busiest(offered))
    setting = place.setting
    sheds = _sheds(wish.gate, setting.spec)
    of = pool(setting, place.bears, sheds=sheds)
    tell("going through the history")
    stretch = _playable(offered, worst(offered, flow(offered, of, Choice(1)).lost))
    ground = _ground(setting, trace, stretch, Gating.IN_PATH if sheds else Gating.NONE, (place, coming))
    with runs(ground, wish.jobs) as started:
        judge = _Judge(started, _Whole(offered, of, stretch), wish.seeds, tell)
        found = cheapest(offered, of, judge, wish.aim.kept_ratio, wish.aim.most_warm)
        tell("trying other edges, and forecasts")
        overloads = _overloads(started, [Edges(scale) for scale in SCALES] if wish.edges else [], SEED, wish.seeds + 1)
        foreseen = forecasts(offered, of, wish.aim)
        edges = _trials(started, _settled(overloads), wish.seeds)
    return Planned(
        wish=wish,
        trace=trace,
        place=place,
        offered=offered,
        pool=of,
        stretch=stretch,
        found=found,
        most=flow(offered, of, Choice(of.max_replicas)),
        zero=zero(offered, of, setting.spec.stabilize.idle_s),
        forecasts=foreseen,
        edges=edges,
        price=price_of_gpu_hour(wish.price, configured, setting.spec, wish.place.preset),
        tokens_a_request=_tokens_a_request(coming),
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """A history, what goes through it, and which part of it is played."""

    offered: Load
    pool: Pool
    stretch: Stretch | None


class _Judge:
    """Goes through the history with a choice, and plays the stretch where there is one."""

    def __init__(self, started: Runs, of: _Whole, seeds: int, tell: Callable[[str], None]) -> None:
        self._runs, self._offered, self._pool, self._stretch = started, of.offered, of.pool, of.stretch
        self._seeds, self._tell = range(SEED, SEED + seeds), tell

    def __call__(self, choices: Sequence[Choice]) -> list[Judged]:
        for choice in choices:
            self._tell(
                f"playing the worst stretch with a minimum of {choice.min_replicas}, {choice.warm_replicas} warm"
            )
        wholes = [flow(self._offered, self._pool, choice) for choice in choices]
        stretch = self._stretch
        if stretch is None:
            return [as_fluid(whole, choice) for whole, choice in zip(wholes, choices, strict=True)]
        begun = [
            [self._runs.play(choice, whole.replicas[stretch.first], seed) for seed in self._seeds]
            for whole, choice in zip(wholes, choices, strict=True)
        ]
        return [
            put_together(whole, stretch, [each.result() for each in futures], choice)
            for whole, choice, futures in zip(wholes, choices, begun, strict=True)
        ]


def _placed(spec: WorkloadSpec, wish: Wish, trace: Trace, busy: Stretch) -> tuple[Placed, tuple[Arrival, ...]]:
    """The place by the busiest stretch: its lengths, and the maximum that it needs."""
    traffic = trace.traffic.clipped(busy.begins_at, busy.ends_at)
    coming = tuple(traffic.arrivals(SEED))
    return placed(spec, (wish.spec, wish.place), replace(trace, traffic=traffic, recorded=()), coming), coming


def _playable(offered: Load, stretch: Stretch) -> Stretch | None:
    return stretch if sum(offered.counts[stretch.first : stretch.last]) <= UNPLAYABLE else None


def _overloads(started: Runs, tried: Sequence[Edges], since: int, seeds: int) -> list[tuple[Edges, Future[float]]]:
    """Begun on as many seeds; one alone would say nothing of the noise."""
    return [(edges, started.overload(edges, seed)) for edges in tried for seed in range(since, since + seeds)]


def _settled(overloads: Sequence[tuple[Edges, Future[float]]]) -> Compared:
    return compared([(edges, future.result()) for edges, future in overloads])


def _trials(started: Runs, first: Compared, seeds: int) -> Trials:
    if first.best == DEFAULT:
        return Trials(first)
    fresh = SEED + seeds + 1
    return Trials(first, _settled(_overloads(started, [first.best, DEFAULT], fresh, seeds + 2)))


def _sheds(gate: Gate | None, spec: WorkloadSpec) -> bool:
    return spec.gate is GateMode.ENFORCE if gate is None else gate is Gate.IN_PATH


def _ground(
    setting: Setting, trace: Trace, stretch: Stretch | None, gating: Gating, known: tuple[Placed, Sequence[Arrival]]
) -> Ground:
    place, coming = known
    pairs = ((one.prompt_tokens, one.output_tokens) for one in coming[:: max(1, len(coming) // SAMPLES)])
    most = setting.platform.preset.limits.kv_tokens
    lengths = Measured(tuple(pair for pair in pairs if sum(pair) <= most))
    part = None if stretch is None else trace.traffic.clipped(stretch.begins_at, stretch.ends_at)
    return Ground(None if part is None else Contest(setting, part), gating, trial(setting, place.bears, lengths))


def _tokens_a_request(coming: Sequence[Arrival]) -> float:
    return fmean(one.prompt_tokens + one.output_tokens for one in coming)


def clock_s(text: str) -> float:
    """Seconds from midnight. Raises ConfigError."""
    hours, _, minutes = text.partition(":")
    try:
        hour, minute = int(hours), int(minutes)
    except ValueError:
        hour = minute = -1
    if not (0 <= hour < 24 and 0 <= minute < 60):  # noqa: PLR2004 - a clock
        raise ConfigError("--clock: write the time of day as HH:MM, such as 08:30")
    return hour * 3600.0 + minute * 60.0
