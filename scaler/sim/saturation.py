"""What one simulated replica bears of a mix of requests, found by loading it as a load tester would.

Two numbers, and the first is below the second. The *safe rate* is a tenth below the highest at which requests that come by chance keep
the objectives at their percentile, with nobody to hold them back. The *ceiling* is what the replica serves within the objectives when
somebody always holds it at its best concurrency, as an ideal gate would: no law and no gate can make more of a replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from scaler.core.capacity import Profile
from scaler.core.model import RequestClass
from scaler.errors import ConfigError
from scaler.sim.presets import Preset
from scaler.sim.replica import Replica
from scaler.sim.traffic import Draws
from scaler.sim.values import Finished, Request

REQUESTS = 1500
"""Of one level, after as many as it takes to fill the replica: P95 is then known to a percent."""
LEVEL_RATIO = 2**0.5
"""From one concurrency to the next; goodput is flat around its best."""
PAST_RATIO = 0.9
"""A goodput so far below the best is beyond it: chance moves it by a few hundredths."""
HALVINGS = 7
SAFE_RATIO = 0.9
"""Of the highest rate that passes: at that edge the residence time has no bound, and a load test's last level that passes is below it."""
FILLS_RATIO = 0.3
"""The share of the requests of a level that find a replica which is not yet as full as it will be."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """What one replica bears, safe and at most: requests a second, and at once. ``unloaded_ttft_s``: the median TTFT of one alone."""

    safe_rate_per_s: float
    safe_concurrency: float
    ceiling_per_s: float
    ceiling_concurrency: float
    unloaded_ttft_s: float

    @property
    def profile(self) -> Profile:
        """As the result of a load test."""
        return Profile(self.safe_concurrency, self.safe_rate_per_s, self.unloaded_ttft_s, name="simulated")


@dataclass(frozen=True, slots=True)
class Bench:
    """One replica, what it is sent, and what was promised for it at a quantile."""

    preset: Preset
    mix: Draws
    promised: RequestClass
    quantile: float = 0.95

    def kept(self, one: Finished) -> bool:
        """Whether a request was served within both objectives."""
        return self._ttft_kept(one) and self._tpot_kept(one)

    def passes(self, done: list[Finished]) -> bool:
        """Whether both objectives are kept at the quantile."""
        needed = self.quantile * len(done)
        return sum(map(self._ttft_kept, done)) >= needed and sum(map(self._tpot_kept, done)) >= needed

    def _ttft_kept(self, one: Finished) -> bool:
        return self.promised.ttft_s is None or one.ttft_s <= self.promised.ttft_s

    def _tpot_kept(self, one: Finished) -> bool:
        return self.promised.tpot_s is None or one.tpot_s is None or one.tpot_s <= self.promised.tpot_s


@lru_cache(maxsize=8)
def saturation(bench: Bench) -> Saturation:
    """Load it until it breaks its objectives. Raises ConfigError where it does not keep them even for one request at a time."""
    alone, ceiling, concurrency = _best_goodput(bench)
    if not ceiling:
        raise ConfigError(
            "ttft, tpot: a replica of this kind does not keep the objectives even for one request at a time, and more of them do not "
            "help: choose looser objectives, or another --preset"
        )
    edge = _edge(bench, ceiling)
    if not edge:
        raise ConfigError(
            "ttft, tpot: a replica of this kind keeps the objectives for no load to speak of; choose looser ones, or another --preset"
        )
    rate = SAFE_RATIO * edge
    done = list(_by_chance(bench, rate))
    return Saturation(rate, rate * sum(one.e2e_s for one in done) / len(done), max(ceiling, edge), concurrency, alone)


def _edge(bench: Bench, ceiling_per_s: float) -> float:
    """The highest rate that passes, to a hundredth of the ceiling; 0 where none does."""
    low, high = 0.0, ceiling_per_s
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (rate, high) if bench.passes(list(_by_chance(bench, rate))) else (low, rate)
    return low


def _best_goodput(bench: Bench) -> tuple[float, float, float]:
    """The median TTFT of a request that is alone, the most requests a second that are served within the objectives, and at how many."""
    best, best_level, level, alone = 0.0, 0.0, 1.0, 0.0
    while round(level) <= bench.preset.limits.max_num_seqs:
        done = _held(bench, round(level))
        if level == 1:
            alone = sorted(one.ttft_s for one in done)[len(done) // 2]
        goodput = sum(map(bench.kept, done)) / (done[-1].at - done[0].at)
        if goodput < PAST_RATIO * best:
            break
        if goodput > best:
            best, best_level = goodput, level
        level *= LEVEL_RATIO
    return alone, best, float(round(best_level))


def _held(bench: Bench, concurrency: int) -> list[Finished]:
    """What is finished while so many requests are always under way, once the first ones are gone."""
    chance, engine = Random(f"held {concurrency}"), Replica(bench.preset.coefficients, bench.preset.limits)
    for number in range(concurrency):
        engine.submit(_request(number, 0.0, bench, chance), 0.0)
    done: list[Finished] = []
    sent = concurrency
    while len(done) < REQUESTS + concurrency:
        at = engine.next_event_at()
        if at is None:
            break
        for event in engine.advance(at):
            if isinstance(event, Finished):
                done.append(event)
                engine.submit(_request(sent, at, bench, chance), at)
                sent += 1
    return done[concurrency:]


def _by_chance(bench: Bench, rate_per_s: float) -> Iterator[Finished]:
    """What becomes of requests that come by chance, once the replica is as full as it gets at this rate."""
    chance, engine = Random("by chance"), Replica(bench.preset.coefficients, bench.preset.limits)
    at, fills = 0.0, round(FILLS_RATIO * REQUESTS)
    for number in range(fills + REQUESTS):
        at += chance.expovariate(rate_per_s)
        engine.submit(_request(number, at, bench, chance), at)
    while (due := engine.next_event_at()) is not None:
        for event in engine.advance(due):
            if isinstance(event, Finished) and int(event.id) >= fills:
                yield event


def _request(number: int, at: float, bench: Bench, chance: Random) -> Request:
    prompt, output = bench.mix.draw(chance)
    return Request(number, at, prompt, output)
