"""Metrics from a Prometheus (or Thanos, Mimir, VictoriaMetrics): one poll serves every workload that it knows of.

A control loop asks for one workload; what goes out is a handful of queries for all namespaces that anyone asked for
lately. Loops whose beats fall within half an interval share one poll, and while a poll is under way the next one
gathers who came too late for it.

What Prometheus does not say is a reason and never a zero. From good to bad, for one replica:

* a sample of a scrape: a reading, dated by the age of the sample;
* the same scrape seen again: the same reading, so no rate is computed from it;
* no sample in this answer, an older one than ``stale_s``, one from the future, or an answer that is partial: missing,
  with the reason. The law then holds what it knew, for as long as a reading counts;
* no answer: all replicas missing, and what was known is kept to go on from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from scaler.control.ports import Ask, Clock, Scrape
from scaler.core.model import Missing, Reading
from scaler.engines.row import Engine
from scaler.errors import SourceError
from scaler.sources.prometheus_api import GRACE_S, PrometheusApi, PrometheusSettings
from scaler.sources.prometheus_pages import Found, Page
from scaler.sources.prometheus_poll import Plan, Poller

__all__ = ["Polled", "PrometheusApi", "PrometheusSettings", "PrometheusSource"]

SHARED_RATIO = 0.5
"""A poll serves whoever asks within this share of an interval."""
FORGET_INTERVALS, FORGET_AFTER_S = 4, 60.0


@dataclass(frozen=True, slots=True)
class Polled:
    """What the newest poll said of one engine in one namespace. Instants of our clock.

    ``pages`` are those of this answer, ``kept`` also earlier ones that still count. ``faults`` are reasons of single
    pods, ``why`` the reason that there was no answer at all, ``partial`` what the answer said it lacks.
    """

    at: float
    answered_at: float | None = None
    pages: Mapping[str, Page] = field(default_factory=dict)
    kept: Mapping[str, Page] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    partial: str = ""
    why: str = ""


@dataclass(slots=True)
class _Wish:
    """Somebody wants to know of an engine in a namespace; ``at`` is when it was last asked for."""

    engine: Engine
    namespace: str
    at: float


class PrometheusSource:
    """The ``MetricSource`` port over one Prometheus. ``Target.replica`` is the pod's name; its URL is not used.

    ``objectives_s`` are the latencies, in seconds, that workloads of this Prometheus are held to: histograms are
    fetched with the edges around them, with all edges while there are none.
    """

    def __init__(
        self, api: PrometheusApi, clock: Clock, objectives_s: Callable[[], Collection[float]] = tuple[float, ...]
    ) -> None:
        """Asks nothing yet. Closing ``api`` is for whoever opened it, after ``close``."""
        self.settings = api.settings
        self._api = api
        self._clock = clock
        self._objectives_s = objectives_s
        self._poller = Poller(api)
        self._wishes: dict[tuple[str, str], _Wish] = {}
        self._plans: dict[str, tuple[Plan, frozenset[float]]] = {}
        self._known: dict[tuple[str, str], Polled] = {}
        self._flight: asyncio.Task[None] | None = None
        self._wished = asyncio.Event()

    async def read(self, ask: Ask) -> Scrape:
        """The targets' readings, from a poll of now or of the last half interval. Within ``timeout_s``; raises nothing."""
        engine, namespace = ask.engine, ask.key.namespace
        self.wish(engine, namespace)
        try:
            async with asyncio.timeout(self.settings.timeout_s + GRACE_S):
                await self._refreshed(engine, namespace, SHARED_RATIO * self.settings.interval_s)
        except TimeoutError:
            return _all_missing(ask, str(self._api.late()))
        polled, now = self._known[engine.name, namespace], self._clock()
        if polled.why:
            return _all_missing(ask, polled.why)
        answers = [self._reading(polled, target.replica, ask.model_name, now) for target in ask.targets]
        return Scrape(
            tuple(answer for answer in answers if isinstance(answer, Reading)),
            tuple(answer for answer in answers if isinstance(answer, Missing)),
        )

    def wish(self, engine: Engine, namespace: str) -> None:
        """Include an engine's pods of a namespace in the polls of the next minute."""
        key = engine.name, namespace
        if key not in self._wishes:
            self._wished.set()
        self._wishes[key] = _Wish(engine, namespace, self._clock())

    def polled(self, engine: Engine, namespace: str) -> Polled | None:
        """What the newest poll said, None before the first one. Answers from memory."""
        return self._known.get((engine.name, namespace))

    async def run(self) -> None:
        """Keep everything wished for no older than an interval, for ever: for those who only look at ``polled``."""
        while True:
            self._wished.clear()
            for wish in self._current():
                await self._refreshed(wish.engine, wish.namespace, self.settings.interval_s)
            try:
                async with asyncio.timeout(self.settings.interval_s):
                    await self._wished.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """End a poll that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _reading(self, polled: Polled, replica: str, model_name: str | None, now: float) -> Reading | Missing:
        page = polled.pages.get(replica)
        if page is None:
            why = polled.faults.get(replica) or (polled.partial and f"partial answer: {polled.partial}")
            return Missing(replica, why or f"Prometheus has no fresh sample with {self.settings.pod_label} {replica}")
        age_s = now - page.observed_at
        if age_s > self.settings.stale_s:
            return Missing(replica, f"newest sample is {age_s:.0f} s old, stale after {self.settings.stale_s:g} s")
        reading = page.reading(model_name)
        if reading is None:
            return Missing(replica, f"no model of the name in modelName, but {', '.join(page.models)}")
        return reading

    async def _refreshed(self, engine: Engine, namespace: str, age_s: float) -> None:
        """Return when a poll of this namespace ended since the call, or no longer than ``age_s`` before it.

        Or when nobody wishes for it any more.
        """
        key, oldest = (engine.name, namespace), self._clock() - age_s
        while key in self._wishes and self._is_due(key, oldest):
            if self._flight is None or self._flight.done():
                self._flight = asyncio.create_task(self._poll(), name=f"poll {self.settings.url}")
            await asyncio.shield(self._flight)

    def _is_due(self, key: tuple[str, str], oldest: float) -> bool:
        polled = self._known.get(key)
        return polled is None or polled.at <= oldest

    def _current(self) -> list[_Wish]:
        """The wishes that somebody still has; the rest is forgotten."""
        oldest = self._clock() - max(FORGET_AFTER_S, FORGET_INTERVALS * self.settings.interval_s)
        self._wishes = {key: wish for key, wish in self._wishes.items() if wish.at >= oldest}
        self._known = {key: polled for key, polled in self._known.items() if key in self._wishes}
        return list(self._wishes.values())

    async def _poll(self) -> None:
        """Ask for all that is older than half an interval, whoever asked first."""
        now = self._clock()
        deadline, oldest = now + self.settings.timeout_s, now - SHARED_RATIO * self.settings.interval_s
        due: dict[str, tuple[Engine, list[str]]] = {}
        for wish in self._current():
            if self._is_due((wish.engine.name, wish.namespace), oldest):
                due.setdefault(wish.engine.name, (wish.engine, []))[1].append(wish.namespace)
        await asyncio.gather(*(self._ask(engine, namespaces, deadline) for engine, namespaces in due.values()))

    async def _ask(self, engine: Engine, namespaces: Collection[str], deadline: float) -> None:
        try:
            plan = await self._plan(engine, namespaces, deadline)
        except SourceError as error:
            self._failed(engine, namespaces, error)
            return
        await asyncio.gather(*(self._look(engine, plan, chunk, deadline) for chunk in plan.chunks(namespaces)))

    async def _plan(self, engine: Engine, namespaces: Collection[str], deadline: float) -> Plan:
        objectives = frozenset(self._objectives_s())
        plan, chosen_for = self._plans.get(engine.name, (None, objectives))
        if plan is None or chosen_for != objectives or not plan.holds(namespaces, self._clock()):
            everywhere = frozenset(wish.namespace for wish in self._wishes.values() if wish.engine == engine)
            count = partial(self._poller.plan, engine, everywhere.union(namespaces), objectives, deadline)
            plan = await self._api.off_loop(count, deadline)
            self._plans[engine.name] = plan, objectives
        return plan

    async def _look(self, engine: Engine, plan: Plan, namespaces: tuple[str, ...], deadline: float) -> None:
        before = {
            (namespace, pod): page
            for namespace in namespaces
            if (polled := self._known.get((engine.name, namespace))) is not None
            for pod, page in polled.kept.items()
        }
        try:
            look = partial(self._poller.look, engine, plan, namespaces, before, deadline)
            found = await self._api.off_loop(look, deadline)
        except SourceError as error:
            self._failed(engine, namespaces, error)
            return
        for namespace in namespaces:
            self._answered(engine, namespace, found)

    def _failed(self, engine: Engine, namespaces: Collection[str], error: SourceError) -> None:
        for namespace in namespaces:
            before = self._known.get((engine.name, namespace), Polled(0.0))
            self._known[engine.name, namespace] = replace(before, at=self._clock(), why=f"Prometheus: {error}")

    def _answered(self, engine: Engine, namespace: str, found: Found) -> None:
        now = self._clock()
        before = self._known.get((engine.name, namespace), Polled(now))
        pages = {pod: page for (where, pod), page in found.pages.items() if where == namespace}
        kept = {pod: page for pod, page in before.kept.items() if now - page.observed_at <= self.settings.stale_s}
        faults = {pod: why for (where, pod), why in found.faults.items() if where == namespace}
        self._known[engine.name, namespace] = Polled(now, now, pages, {**kept, **pages}, faults, found.partial)


def _all_missing(ask: Ask, why: str) -> Scrape:
    return Scrape((), tuple(Missing(target.replica, why) for target in ask.targets))
