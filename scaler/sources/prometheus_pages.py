"""From the samples of many pods to one reading a pod. Pure.

A sample's time is the server's, and two servers of a pair disagree a little; the law wants ours. So a page is dated by
its age, which one server measures with one clock, and keeps the date it was given first: the same scrape seen twice is
one reading, and a server that lags behind its twin cannot turn a counter back, which would pass for a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.core.model import Reading
from scaler.engines.row import Engine, Sample, select
from scaler.sources.promql import MODEL_LABEL, Scope

CLOCK_TOLERANCE_S = 5.0
"""A sample may seem to come from the future by this much: querier and scraper can be two machines."""

PodId = tuple[str, str]
"""Namespace and pod."""


@dataclass(frozen=True, slots=True)
class Page:
    """What Prometheus knows of one pod from one scrape.

    ``sampled_at`` in the server's seconds, ``observed_at`` in ours. ``readings`` by model name, ``None`` for the pod as
    a whole. ``series`` is how many there were.
    """

    sampled_at: float
    observed_at: float
    series: int
    readings: Mapping[str | None, Reading]

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the pod serves, by their names."""
        return tuple(sorted(name for name in self.readings if name is not None))

    def reading(self, model_name: str | None) -> Reading | None:
        """The reading of one model, or of the pod when it names no models; None when it serves others."""
        return self.readings.get(model_name, None if self.models else self.readings[None])


@dataclass(frozen=True, slots=True)
class Found:
    """The pods of one answer: their pages, and why some of them cannot be used."""

    pages: Mapping[PodId, Page] = field(default_factory=dict)
    faults: Mapping[PodId, str] = field(default_factory=dict)
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything asked in one chunk: the times of the pods' scrapes, and their values.

    ``newest`` was evaluated at ``evaluated_at`` of the server's clock, and asked for at ``asked_at`` of ours.
    """

    newest: Iterable[Sample]
    evaluated_at: float
    asked_at: float
    samples: Iterable[Sample]
    partial: str = ""


def pages(engine: Engine, scope: Scope, got: Gathered, before: Mapping[PodId, Page]) -> Found:
    """The page of each pod. ``before`` are the pages known so far."""
    by_pod = _by_pod(scope, got.samples)
    found: dict[PodId, Page] = {}
    faults: dict[PodId, str] = {}
    for labels, sampled_at in got.newest:
        pod = _pod(scope, labels)
        age_s = got.evaluated_at - sampled_at
        if not age_s >= -CLOCK_TOLERANCE_S:  # not true of NaN either
            faults[pod] = f"clocks disagree: newest sample {-age_s:.0f} s in the future"
            continue
        prior = before.get(pod)
        observed_at = got.asked_at - max(0.0, age_s)
        if prior is not None and (prior.sampled_at == sampled_at or observed_at <= prior.observed_at):
            found[pod] = prior
            continue
        page = _page(engine, pod[1], (sampled_at, observed_at), by_pod.get(pod, {}))
        if got.partial and not _is_whole(page, prior):
            faults[pod] = f"partial answer: {got.partial}"
        else:
            found[pod] = page
    return Found(found, faults, got.partial)


def _is_whole(page: Page, prior: Page | None) -> bool:
    """Whether a partial answer has all of a pod: as many series as before, or no signal that the law needs missing.

    A rank that is left out must not halve the load, and a gauge that is left out must not read as idle.
    """
    if prior is not None:
        return page.series >= prior.series
    whole = page.readings[None]
    return not whole.absent and isinstance(whole.running, float) and isinstance(whole.waiting, float)


def _page(engine: Engine, replica: str, dated: tuple[float, float], found: Mapping[str, list[Sample]]) -> Page:
    sampled_at, observed_at = dated
    models = {sample.labels.get(MODEL_LABEL, "") for samples in found.values() for sample in samples} - {""}
    whole = select(engine, found, replica, observed_at)
    readings: dict[str | None, Reading] = {None: whole}
    for model in models:
        readings[model] = whole if len(models) == 1 else select(engine, _of(model, found), replica, observed_at)
    return Page(sampled_at, observed_at, sum(map(len, found.values())), readings)


def _of(model: str, found: Mapping[str, list[Sample]]) -> dict[str, list[Sample]]:
    """The samples of one model, and those that name none."""
    kept = {name: [s for s in samples if s.labels.get(MODEL_LABEL, model) == model] for name, samples in found.items()}
    return {name: samples for name, samples in kept.items() if samples}


def _by_pod(scope: Scope, samples: Iterable[Sample]) -> dict[PodId, dict[str, list[Sample]]]:
    found: dict[PodId, dict[str, list[Sample]]] = {}
    for sample in samples:
        labels = sample.labels
        found.setdefault(_pod(scope, labels), {}).setdefault(labels.get("__name__", ""), []).append(sample)
    return found


def _pod(scope: Scope, labels: Mapping[str, str]) -> PodId:
    return labels.get(scope.namespace_label, ""), labels.get(scope.pod_label, "")
