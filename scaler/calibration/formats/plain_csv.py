"""A CSV of one's own: one row for each load, its columns by name. Times are in seconds (``_s``) or in milliseconds (``_ms``).

Needed are ``concurrency`` or ``rate_per_s``, ``requests``, ``requests_per_s`` and percentiles of both latencies, such as ``ttft_p95_s``
and ``tpot_p95_ms``; a column that is not known is a fault.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scaler.calibration.document import Document, Fields
from scaler.calibration.runs import Latency, Lengths, Load, LoadKind, Options, Run, Setup, seconds
from scaler.errors import ConfigError

TOOL = "your CSV"
OPTIONS = Options(
    tool=TOOL,
    concurrency="a row with concurrency {load}, requests {requests}",
    rate="a row with rate_per_s {load}, requests {requests}",
    prompts="prompts that no earlier row sent, or an emptied prefix cache",
    percentiles="columns ttft_p95_s, ttft_p99_s, ttft_max_s",
    tpot="columns tpot_p95_s, tpot_p99_s, tpot_max_s",
    samples=None,
    ttft_field="ttft_p{}_s",
    tpot_field="tpot_p{}_s",
)
LOADS = ("concurrency", "rate_per_s")
TEXTS = ("tool", "tool_version", "model", "engine_version", "gpu", "tested_on")
NUMBERS = ("requests", "failed", "requests_per_s", "preemptions", "cached_ratio", "max_num_seqs", "kv_tokens")
LENGTHS = tuple(f"{side}_{statistic}" for side in ("input", "output") for statistic in ("mean", "p50", "p95"))
UNITS = {"s": 1.0, "ms": 1e-3}
SHARES = {"mean": None, "min": 0.0, "max": 1.0}
MOST_PERCENT = 100.0
_LATENCY = re.compile(r"(ttft|tpot|e2e)_(?:p(\d+(?:\.\d+)?)|(mean|min|max))_(s|ms)")
KNOWN = (*LOADS, *NUMBERS, *LENGTHS, *TEXTS, "ttft_p95_s", "tpot_p95_s", "e2e_mean_s")


@dataclass(frozen=True, slots=True)
class _Statistic:
    """One statistic of a latency: ``share`` is that of a quantile, None for the mean."""

    metric: str
    share: float | None
    unit_s: float


def recognises(document: Document) -> bool:
    """Whether the file is of this form."""
    return bool(document.rows) and not set(LOADS).isdisjoint(document.rows[0])


def runs(document: Document) -> tuple[Run, ...]:
    """The rows."""
    header = document.rows[0]
    faults = [f"{document.name}: {fault}" for fault in _header_faults(header)]
    rows = [(f"{document.name}, row {number}", row) for number, row in enumerate(document.rows[1:], 1)]
    faults += [
        f"{name}: {len(row)} cells under {len(header)} columns; was the file cut short, or is a decimal comma in it?"
        for name, row in rows
        if len(row) != len(header)
    ]
    if faults:
        raise ConfigError(*faults)
    return tuple(_run(Fields(name, dict(zip(header, row, strict=True)))) for name, row in rows)


def _header_faults(header: Sequence[str]) -> Iterator[str]:
    """Columns that nobody knows, and those that tell once more what another one does: one of them would win silently."""
    told: dict[object, str] = {}
    for name in filter(None, header):
        statistic = _statistic(name)
        if statistic is None and name not in KNOWN:
            yield _unknown(name)
        meaning = name if statistic is None else (statistic.metric, statistic.share)
        if (before := told.setdefault(meaning, name)) != name:
            yield f"{name}: {before} says the same; keep one"
    yield from (f"{name}: the column stands twice; keep one" for name in told.values() if header.count(name) > 1)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, KNOWN, n=1)
    return f"{name}: unknown column" + (f", did you mean {near[0]}?" if near else f"; known are {', '.join(KNOWN)}")


def _run(row: Fields) -> Run:
    load = _load(row)
    completed = row.count("requests")
    if completed is None:
        raise row.fault("requests", "missing; write how many requests succeeded")
    return Run(
        file=row.file,
        setup=Setup(
            tool=row.text("tool") or TOOL,
            tool_version=row.text("tool_version"),
            model=row.text("model"),
            engine_version=row.text("engine_version"),
            gpu=row.text("gpu"),
            max_num_seqs=row.number("max_num_seqs"),
            kv_tokens=row.number("kv_tokens"),
        ),
        options=OPTIONS,
        load=load,
        completed=completed,
        failed=row.count("failed"),
        rate_per_s=row.required("requests_per_s", "write how many requests succeeded in a second"),
        e2e_mean_s=_latency(row, "e2e", completed).mean_s,
        ttft=_latency(row, "ttft", completed),
        tpot=_latency(row, "tpot", completed),
        prompts=Lengths(row.number("input_mean"), None, row.number("input_p50"), row.number("input_p95")),
        outputs=Lengths(row.number("output_mean"), None, row.number("output_p50"), row.number("output_p95")),
        preemptions=row.number("preemptions"),
        cached_ratio=row.number("cached_ratio"),
        tested_on=row.text("tested_on"),
    )


def _load(row: Fields) -> Load:
    concurrency, rate = row.number("concurrency"), row.number("rate_per_s")
    if (concurrency is None) == (rate is None):
        raise row.fault("concurrency", "give either concurrency or rate_per_s")
    return Load(LoadKind.CONCURRENCY, concurrency) if concurrency is not None else Load(LoadKind.RATE, rate or 0.0)


def _latency(row: Fields, metric: str, completed: int) -> Latency:
    found = dict(_statistics(row, metric))
    mean = found.pop(None, None)
    quantiles = {share: value for share, value in found.items() if share is not None}
    return Latency(completed if quantiles else 0, mean, seconds(quantiles, 1.0))


def _statistics(row: Fields, metric: str) -> Iterator[tuple[float | None, float | None]]:
    """The statistics of a latency in seconds, by their share; the mean by None."""
    for name in row.data:
        statistic = _statistic(name)
        if statistic is not None and statistic.metric == metric and (value := row.number(name)) is not None:
            yield statistic.share, value * statistic.unit_s


def _statistic(name: str) -> _Statistic | None:
    """What a column tells of a latency, None for a column that tells something else."""
    match = _LATENCY.fullmatch(name)
    if match is None or float(match[2] or 0) > MOST_PERCENT:
        return None
    share = float(match[2]) / 100 if match[2] else SHARES[match[3]]
    return _Statistic(match[1], share, UNITS[match[4]])
