"""What an engine must declare about its /metrics page, and how one page becomes a ``Reading``.

Names differ between releases, and between replicas while a rollout runs, so each signal has a row of aliases, newest
first; the first alias that a page has is used for that page. One replica can show one number several times
(data-parallel ranks, several API servers, a port scraped twice): series of the same rank are copies of one number and
collapse to their maximum, after which ranks add up. Adding copies would double the load; taking one rank would hide
the rest.

Three rules keep "nobody told us" apart from zero:

* A signal with a line that cannot be a value (see ``samples``) is unknown, whole.
* A missing gauge is idle only on a page where the engine proves that it reports and that it has done nothing yet: its
  progress counters are there, all zero, and no gauge of the row is. An engine that has produced tokens has also set
  its gauges, so then the gauge was renamed or lost, and zero would let a loaded fleet shrink.
* A required signal that is unknown is named in ``Reading.absent``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf

from scaler.core.model import Absent, Histogram, Reading, Signal
from scaler.engines.samples import Sample, Samples, collapsed, histogram, summed

MOST_REQUESTS = 100_000
"""More running or waiting requests than any engine holds: such a gauge is garbled, and would ask for every replica there is."""

__all__ = ["Across", "Buckets", "Engine", "Number", "OneHot", "Sample", "Samples", "select", "spelled"]


class Across(StrEnum):
    """How the ranks of one replica make one number."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Number:
    """A gauge or counter: aliases as sample names, newest first.

    ``parts`` are labels that split one total into disjoint series (such as ``reason``), which therefore add up. A
    value above ``at_most`` is malformed.
    """

    names: tuple[str, ...]
    across: Across = Across.SUM
    parts: tuple[str, ...] = ()
    at_most: float = inf

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Every sample name that it may be read from."""
        return self.names


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: aliases without suffix, newest first; ``parts`` as for ``Number``."""

    names: tuple[str, ...]
    parts: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Every sample name that it may be read from."""
        return tuple(name + suffix for name in self.names for suffix in ("_bucket", "_sum"))


@dataclass(frozen=True, slots=True)
class OneHot:
    """A gauge that is 1 in the series whose ``label`` names the engine's state; ``value`` is the state that serves."""

    names: tuple[str, ...]
    label: str
    value: str

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Every sample name that it may be read from."""
        return self.names


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's row.

    ``ranks``: labels that tell apart the engines inside one replica; a page without them is one rank.
    ``proofs``: progress counters that exist at zero before the first request. Present and all zero: the engine
    reports and is unused, and a missing gauge means ``unused_gauge``. None present: statistics are off, or this is no
    such engine.
    ``keep``: label and allowed values; a series with another value of that label repeats what others already say.
    ``required``: the ``Reading`` fields without which the law cannot work.
    ``experimental``: written from documentation, never seen against the running engine.
    """

    name: str
    running: Number
    waiting: Number
    ttft: Buckets
    proofs: tuple[Number, ...]
    kv_usage: Number | None = None
    prompt_tokens_total: Number | None = None
    generation_tokens: Number | None = None
    preemptions: Number | None = None
    rejections: Number | None = None
    tpot: Buckets | None = None
    queue_time: Buckets | None = None
    duration: Buckets | None = None
    prompt_tokens: Buckets | None = None
    output_tokens: Buckets | None = None
    awake: OneHot | None = None
    ranks: tuple[str, ...] = ()
    keep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unused_gauge: Absent = Absent.IDLE
    required: tuple[str, ...] = ("running", "waiting", "ttft")
    experimental: bool = False

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Every sample name a source has to fetch for this engine, each once."""
        rows: tuple[Number | Buckets | OneHot | None, ...] = (
            *(self.running, self.waiting, self.kv_usage, self.ttft, self.tpot, self.queue_time, self.prompt_tokens),
            *(self.output_tokens, self.prompt_tokens_total, self.generation_tokens, self.preemptions, self.rejections),
            *(self.duration, self.awake, *self.proofs),
        )
        return tuple(dict.fromkeys(name for row in rows if row is not None for name in row.sample_names))


def spelled(prefixes: Iterable[str], *names: str) -> tuple[str, ...]:
    """The aliases of one signal: every name under every prefix, the names in the order given (newest first)."""
    each = tuple(prefixes)
    return tuple(prefix + name for name in names for prefix in each)


def select(engine: Engine, samples: Samples, replica: str, observed_at: float) -> Reading:
    """The reading of one page, in our words.

    Any page gives a reading and none raises: what the page lacks or garbles is unknown (None for counters and
    histograms).
    """
    number, buckets = partial(_number, engine, samples), partial(_buckets, engine, samples)
    no_gauge = engine.unused_gauge if _unused(engine, samples) else Absent.UNKNOWN
    running, waiting, ttft = number(engine.running), number(engine.waiting), buckets(engine.ttft)
    found = {"running": running, "waiting": waiting, "ttft": ttft}
    excused = () if no_gauge is Absent.UNKNOWN else ("running", "waiting")
    return Reading(
        replica=replica,
        observed_at=observed_at,
        running=_signal(running, no_gauge),
        waiting=_signal(waiting, no_gauge),
        kv_usage_ratio=_signal(number(engine.kv_usage), no_gauge if engine.kv_usage else Absent.UNKNOWN),
        awake=_awake(engine, samples),
        prompt_tokens_total=number(engine.prompt_tokens_total),
        generation_tokens_total=number(engine.generation_tokens),
        preemptions_total=number(engine.preemptions),
        rejections_total=number(engine.rejections),
        ttft=ttft,
        tpot=buckets(engine.tpot),
        queue_time=buckets(engine.queue_time),
        duration=buckets(engine.duration),
        prompt_tokens=buckets(engine.prompt_tokens),
        output_tokens=buckets(engine.output_tokens),
        absent=tuple(name for name in engine.required if found[name] is None and name not in excused),
    )


def _signal(value: float | None, otherwise: Absent) -> Signal:
    return otherwise if value is None else value


def _kept(engine: Engine, samples: Samples, name: str) -> Sequence[Sample]:
    found = samples.get(name, ())
    for label, allowed in engine.keep:
        found = [sample for sample in found if sample.labels.get(label, "") in allowed]
    return found


def _first(engine: Engine, samples: Samples, names: Iterable[str]) -> Sequence[Sample]:
    for name in names:
        if found := _kept(engine, samples, name):
            return found
    return ()


def _unused(engine: Engine, samples: Samples) -> bool:
    """Whether the engine proves that it reports and that it has not begun to work."""
    gauges = (engine.running, engine.waiting, engine.kv_usage)
    if any(_first(engine, samples, row.names) for row in gauges if row is not None):
        return False
    proofs = [row for row in engine.proofs if _first(engine, samples, row.names)]
    return bool(proofs) and all(_number(engine, samples, row) == 0.0 for row in proofs)


def _number(engine: Engine, samples: Samples, row: Number | None) -> float | None:
    if row is None:
        return None
    best = collapsed(_first(engine, samples, row.names), (*engine.ranks, *row.parts))
    if best is None:
        return None
    value = max(best.values()) if row.across is Across.MAX else summed(best)
    return value if value < inf and value <= row.at_most else None


def _awake(engine: Engine, samples: Samples) -> bool:
    """False only if every rank says that it does not serve: an engine that says nothing of sleep does not sleep."""
    row = engine.awake
    if row is None:
        return True
    serving = [s for s in _first(engine, samples, row.names) if s.labels.get(row.label) == row.value]
    best = collapsed(serving, engine.ranks)
    return best is None or any(best.values())


def _buckets(engine: Engine, samples: Samples, row: Buckets | None) -> Histogram | None:
    if row is None:
        return None
    for name in row.names:
        if found := _kept(engine, samples, name + "_bucket"):
            return histogram(found, _kept(engine, samples, name + "_sum"), (*engine.ranks, *row.parts))
    return None
