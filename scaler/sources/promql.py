"""The PromQL that we send, as text. Pure.

Three rules make an answer mean what a page would have said:

* ``max by`` over everything that tells two numbers apart comes before any sum: a pod scraped twice, or by a pair of
  Prometheus servers, shows copies of one number.
* A value counts only while its series had a sample lately. Without that, a series that ended without a mark (remote
  write, federation) is served for five minutes more, and would outvote the replica that took its place.
* Names and values from outside are quoted, and in patterns escaped; label names come from the operator alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from scaler.core.written import number
from scaler.engines.row import Buckets, Engine, Number, OneHot
from scaler.errors import ConfigError

MODEL_LABEL = "model_name"
LOWEST_SHARE, HIGHEST_SHARE = 0.1, 2.5
"""Edges within these shares of an objective are fetched: pressure begins at a fraction of it, and above it little matters."""

_LITERAL = re.compile(r"""(?P<pattern>[=!]~\s*)?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{(namespace|name)\}")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods a query is about: by namespace, under the labels of this Prometheus. ``fresh_s``: seconds a sample counts."""

    namespace_label: str
    pod_label: str
    namespaces: tuple[str, ...]
    fresh_s: float


@dataclass(frozen=True, slots=True)
class Signals:
    """Sample names that one query fetches, and the labels by which their series are told apart.

    ``buckets`` are the histograms among them; ``latency`` says whether they count seconds, so that objectives choose edges.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    buckets: tuple[str, ...] = ()
    latency: bool = False


def signals(engine: Engine) -> tuple[Signals, ...]:
    """What is asked for an engine. The first are the gauges and the proofs that a missing gauge means idle.

    Those must come from one evaluation: a gauge that is missing because it was asked for before the engine's first
    scrape, with counters at zero from after it, would read as idle.
    """
    deciding = [row for row in (engine.running, engine.waiting, engine.kv_usage, *engine.proofs) if row is not None]
    rest = (engine.prompt_tokens_total, engine.generation_tokens, engine.preemptions, engine.rejections, engine.awake)
    others = [row for row in rest if row is not None and row not in deciding]
    # Not ``duration``: nothing is decided by it, and its edges are not about any objective.
    latencies, lengths = (engine.ttft, engine.tpot, engine.queue_time), (engine.prompt_tokens, engine.output_tokens)
    rows = (*((row, True) for row in latencies), *((row, False) for row in lengths))
    histograms = [_histogram(engine, row, latency=latency) for row, latency in rows if row is not None]
    return (_plain(engine, deciding), *([_plain(engine, others)] if others else ()), *histograms)


def _plain(engine: Engine, rows: Iterable[Number | OneHot]) -> Signals:
    names = dict.fromkeys(name for row in rows for name in row.sample_names)
    split = [label for row in rows for label in (row.parts if isinstance(row, Number) else (row.label,))]
    return Signals(tuple(names), _labels(engine, split))


def _histogram(engine: Engine, row: Buckets, *, latency: bool) -> Signals:
    buckets = tuple(f"{name}_bucket" for name in row.names)
    return Signals(row.sample_names, _labels(engine, ("le", *row.parts)), buckets, latency)


def _labels(engine: Engine, split: Iterable[str]) -> tuple[str, ...]:
    kept = (label for label, _ in engine.keep)
    return tuple(dict.fromkeys(("__name__", MODEL_LABEL, *engine.ranks, *kept, *split)))


def newest(engine: Engine, scope: Scope) -> str:
    """When each pod was last scraped, in the Prometheus' own seconds.

    A pod without any signal of the engine is known by ``up``: it is reached, and its statistics are off.
    """
    rows = (engine.running, engine.waiting, *engine.proofs)
    each = " or ".join(f"timestamp({_series((name,), scope)})" for row in rows for name in row.sample_names)
    up, by = _series(("up",), scope), f"max by ({scope.namespace_label}, {scope.pod_label}) "
    return f"{by}({each}) or {by}(timestamp({up}) and {up} == 1)"


def values(wanted: Signals, scope: Scope, edges: Collection[str] = ()) -> str:
    """The signals of every pod, each series once. Only buckets with these ``edges`` (``le`` as spelled), all without any."""
    found = _series(wanted.names, scope, _le(edges))
    labels = ", ".join((scope.namespace_label, scope.pod_label, *wanted.labels))
    return f"max by ({labels}) ({found} and last_over_time({found}[{round(1000 * scope.fresh_s)}ms]))"


def edge_counts(names: Iterable[str], scope: Scope) -> str:
    """Which edges the histograms have."""
    return f"count by (__name__, le) ({_series(names, scope)})"


def series_counts(names: Iterable[str], scope: Scope) -> str:
    """How many bucket series each namespace has, by name."""
    return f"count by ({scope.namespace_label}, __name__) ({_series(names, scope)})"


def around(edges: Iterable[str], objectives_s: Collection[float]) -> tuple[str, ...]:
    """The edges about the objectives, one more on either side, and ``+Inf``; all of them when there is no objective."""
    known = {edge: _number(edge) for edge in edges}
    if not objectives_s:
        return tuple(sorted(known, key=lambda edge: known[edge]))
    kept = {edge for edge, value in known.items() if value == inf}
    for objective in objectives_s:
        low, high = LOWEST_SHARE * objective, HIGHEST_SHARE * objective
        kept |= {edge for edge, value in known.items() if low <= value <= high}
        kept |= _spellings(known, max((v for v in known.values() if v < low), default=None))
        kept |= _spellings(known, min((v for v in known.values() if v > high), default=None))
    return tuple(sorted(kept, key=lambda edge: (known[edge], edge)))


def _spellings(known: Mapping[str, float], value: float | None) -> set[str]:
    """``1`` and ``1.0`` are one edge."""
    return {edge for edge, number in known.items() if number == value}


def _number(edge: str) -> float:
    value = number(edge)
    return inf if value is None else value  # kept, so that the histogram is seen to be malformed


def _series(names: Iterable[str], scope: Scope, more: str = "") -> str:
    return f"{{__name__{_one_of(names)},{scope.namespace_label}{_one_of(scope.namespaces)}{more}}}"


def _le(edges: Collection[str]) -> str:
    """The empty alternative lets the sum through, which has no such label."""
    return f",le{_one_of((*edges, ''))}" if edges else ""


def _one_of(choices: Iterable[str]) -> str:
    listed = tuple(choices)
    if len(listed) == 1:
        return f"={quoted(listed[0])}"
    return f"=~{quoted('|'.join(re.escape(choice) for choice in listed))}"


def quoted(text: str) -> str:
    """A PromQL string literal."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Template:
    """An operator's PromQL with the placeholders ``{namespace}`` and ``{name}`` inside its string literals.

    Raises ConfigError for a placeholder anywhere else: only in a literal can a value be kept from becoming PromQL.
    """

    text: str

    def __post_init__(self) -> None:
        if _PLACEHOLDER.search(_LITERAL.sub("", self.text)):
            raise ConfigError("put {namespace} and {name} inside \"...\" or '...' in PromQL")

    def filled(self, namespace: str, name: str) -> str:
        """The query of one workload."""
        given = {"namespace": namespace, "name": name}

        def literal(found: re.Match[str]) -> str:
            matches = found["pattern"] is not None
            quote = found[0][-1]
            return _PLACEHOLDER.sub(lambda part: _inside(given[part[1]], quote, pattern=matches), found[0])

        return _LITERAL.sub(literal, self.text)


def _inside(value: str, quote: str, *, pattern: bool) -> str:
    plain = re.escape(value) if pattern else value
    return plain.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
