"""The load of some past hours as a Prometheus remembers it, to be replayed.

What was offered is told as the law tells it: first tokens and the change of what waits. An engine counts what entered it, so what a
gateway refused is not in it. A rate was counted: its requests are counted out (``sim.traffic.Spread``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from scaler.engines.row import Engine
from scaler.errors import ConfigError
from scaler.sim.traces.values import NOTHING_SAID, Assumed, Trace
from scaler.sim.traffic import Draws, Lengths, Rated, Rates, Spread, Stream
from scaler.sources.prometheus_api import Course, Grid, PrometheusApi, PrometheusSettings
from scaler.sources.promql import MODEL_LABEL, quoted

KIND = "a Prometheus"
MOST_STEPS = 10_000
"""Prometheus refuses more than 11,000 points."""
SCRAPES = 4
"""A rate is over so many scrapes at least: with two, one late scrape leaves a hole."""
REFUSED = "what gateways refused is not in an engine's metrics: the load is what entered"


@dataclass(frozen=True, slots=True)
class Past:
    """Which load: that of the pods of a namespace, or of one model there, between two instants in seconds since 1970, by steps."""

    engine: Engine
    namespace: str
    model_name: str | None
    begins_at: int
    ends_at: int
    step_s: int

    def __post_init__(self) -> None:
        """There must be at least two steps, and no more than a Prometheus answers."""
        if self.step_s < 1:
            raise ConfigError("step: at least 1 s is needed")
        steps = (self.ends_at - self.begins_at) // self.step_s
        if steps < 2:  # noqa: PLR2004 - one number is no course
            raise ConfigError(f"range: it must end at least two steps ({2 * self.step_s} s) after it begins")
        if steps > MOST_STEPS:
            needed_s = math.ceil((self.ends_at - self.begins_at) / MOST_STEPS)
            raise ConfigError(f"step: for so long a range at least {needed_s} s are needed")

    @property
    def grid(self) -> Grid:
        """Its instants."""
        return Grid(self.begins_at, self.ends_at, self.step_s)

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return (self.ends_at - self.begins_at) // self.step_s


@dataclass(frozen=True, slots=True)
class Queries:
    """PromQL, each giving one number for all pods; lengths are None where the engine tells none."""

    first_tokens_per_s: str
    waiting: str
    output_tokens_per_s: str | None
    prompt_tokens_per_s: str | None
    prompts_per_s: str | None


@dataclass(frozen=True, slots=True)
class Courses:
    """What those queries gave, in the same order; nothing where there was no query."""

    first_tokens_per_s: Course
    waiting: Course
    output_tokens_per_s: Course = Course()
    prompt_tokens_per_s: Course = Course()
    prompts_per_s: Course = Course()


def past_load(api: PrometheusApi, past: Past, assumed: Assumed = NOTHING_SAID) -> Trace:
    """The load of then. Blocks, for at most ``timeout_s`` a query.

    Raises SourceError when Prometheus does not answer, ConfigError when it knows of no such load.
    """
    asked = queries(past, api.settings)

    def course(promql: str | None) -> Course:
        if promql is None:
            return Course()
        return api.query_range(promql, past.grid, api.clock() + api.settings.timeout_s)

    return load(
        past,
        Courses(
            course(asked.first_tokens_per_s),
            course(asked.waiting),
            course(asked.output_tokens_per_s),
            course(asked.prompt_tokens_per_s),
            course(asked.prompts_per_s),
        ),
        assumed,
    )


def queries(past: Past, settings: PrometheusSettings) -> Queries:
    """What is asked for an engine."""
    engine = past.engine
    window_s = max(past.step_s, round(SCRAPES * settings.interval_s))

    def rate(names: Iterable[str], parts: tuple[str, ...]) -> str:
        return _total(past, settings, parts, [f"rate({_series(past, settings, name)}[{window_s}s])" for name in names])

    prompt, tokens = engine.prompt_tokens, engine.generation_tokens
    return Queries(
        rate([f"{name}_count" for name in engine.ttft.names], engine.ttft.parts),
        _total(past, settings, engine.waiting.parts, [_series(past, settings, name) for name in engine.waiting.names]),
        None if tokens is None else rate(tokens.names, tokens.parts),
        None if prompt is None else rate([f"{name}_sum" for name in prompt.names], prompt.parts),
        None if prompt is None else rate([f"{name}_count" for name in prompt.names], prompt.parts),
    )


def load(past: Past, courses: Courses, assumed: Assumed = NOTHING_SAID) -> Trace:
    """Those courses as traffic. A step without a rate has that of the one before it: missing is not zero."""
    rates, held = _rates(past, courses)
    lengths, unknown = _lengths(courses, assumed)
    lacks = next(filter(None, (course.partial for course in _all(courses))), "")
    notes = [
        REFUSED,
        f"{held} of {past.steps} steps have no sample; the rate beside them was held" if held else "",
        f"the answer is partial: {lacks}" if lacks else "",
        unknown,
    ]
    stream = Stream(assumed.request_class, rates, lengths, spread=Spread.COUNTED)
    name = f"{past.namespace}/{past.model_name}" if past.model_name else past.namespace
    return Trace(name, KIND, Rated((stream,), float(past.steps * past.step_s)), tuple(filter(None, notes)))


def _rates(past: Past, courses: Courses) -> tuple[Rates, int]:
    """Requests a second from the beginning of each step on, and for how many of them that is not known."""
    started, waiting = courses.first_tokens_per_s.values, courses.waiting.values
    found: dict[int, float] = {}
    for before, step in pairwise(range(past.steps + 1)):
        if step in started:
            grown = waiting[step] - waiting[before] if before in waiting and step in waiting else 0.0
            found[before] = max(0.0, started[step] + grown / past.step_s)
    if not found:
        whose = f"of model {past.model_name} in namespace" if past.model_name else "in namespace"
        raise ConfigError(
            f"range: Prometheus has no first tokens {whose} {past.namespace} then; "
            "compare the times, labels.namespace and labels.pod with its own graph of the engine's metrics"
        )
    first, *rest = sorted(found)
    return ((0.0, found[first]), *((float(at * past.step_s), found[at]) for at in rest)), past.steps - len(found)


def _lengths(courses: Courses, assumed: Assumed) -> tuple[Draws, str]:
    """The mean lengths over the whole range."""
    prompt = _ratio(courses.prompt_tokens_per_s, courses.prompts_per_s)
    output = _ratio(courses.output_tokens_per_s, courses.first_tokens_per_s)
    if prompt is None or output is None:
        return assumed.lengths, "Prometheus does not tell how long requests were; lengths were assumed"
    return Lengths(max(1, round(prompt)), max(1, round(output))), ""


def _ratio(upper: Course, lower: Course) -> float | None:
    both = upper.values.keys() & lower.values.keys()
    total = math.fsum(lower.values[step] for step in both)
    return math.fsum(upper.values[step] for step in both) / total if total > 0 else None


def _all(courses: Courses) -> tuple[Course, ...]:
    return (
        *(courses.first_tokens_per_s, courses.waiting, courses.output_tokens_per_s),
        *(courses.prompt_tokens_per_s, courses.prompts_per_s),
    )


def _total(past: Past, settings: PrometheusSettings, parts: tuple[str, ...], aliases: list[str]) -> str:
    """The sum over pods: of each pod the first alias that it has, copies of a series once."""
    pod = f"{settings.namespace_label}, {settings.pod_label}"
    by = ", ".join((pod, MODEL_LABEL, *past.engine.ranks, *parts))
    return f"sum({' or '.join(f'sum by ({pod}) (max by ({by}) ({alias}))' for alias in aliases)})"


def _series(past: Past, settings: PrometheusSettings, name: str) -> str:
    wanted = [f"__name__={quoted(name)}", f"{settings.namespace_label}={quoted(past.namespace)}"]
    if past.model_name is not None:
        wanted.append(f"{MODEL_LABEL}={quoted(past.model_name)}")
    wanted += [f"{label}=~{quoted('|'.join(allowed))}" for label, allowed in past.engine.keep]
    return f"{{{','.join(wanted)}}}"
