"""GuideLLM's report, ``benchmarks.json`` or ``benchmarks.csv``: one benchmark for each load.

``inter_token_latency_ms`` is TPOT; what GuideLLM calls ``time_per_output_token_ms`` includes the first token. Whole requests are in
seconds. ``p01`` is the first percentile. Requests that the time limit cut off are *incomplete*: they are in no latency, and the longest of
all are among them. The CSV has three rows of headers, and its percentiles are an array in one cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from scaler.calibration.document import Document, Fields
from scaler.calibration.runs import Defect, Latency, Lengths, Load, LoadKind, Options, Run, Setup, seconds

TOOL = "guidellm run"
OPTIONS = Options(
    tool=TOOL,
    concurrency="--profile kind=concurrent,streams={load} --constraint kind=max_requests,count={requests}",
    rate="--profile kind=poisson,rate={load} --constraint kind=max_requests,count={requests}",
    prompts="another --seed kind=static,value=N for each run, or an emptied prefix cache",
    percentiles="--output kind=json",
    tpot="a backend that streams, and outputs of two tokens or more",
    samples=None,
    ttft_field="metrics.time_to_first_token_ms.successful.percentiles.p{}",
    tpot_field="metrics.inter_token_latency_ms.successful.percentiles.p{}",
)
CONCURRENT = "use --profile kind=concurrent,streams=N"
MS = 1e-3
PERCENTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CSV_PERCENTILES = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")
CSV_METRICS = {
    "requests_per_second": ("Server Throughput", "Requests/Sec"),
    "request_concurrency": ("Server Throughput", "Concurrency"),
    "request_latency": ("Request Latency", "Sec"),
    "time_to_first_token_ms": ("Time to First Token", "ms"),
    "inter_token_latency_ms": ("Inter Token Latency", "ms"),
    "prompt_token_count": ("Token Metrics", "Input Tokens"),
    "output_token_count": ("Token Metrics", "Output Tokens"),
}
"""Where the CSV has each metric: its group, and its unit after ``Successful``."""


def recognises(document: Document) -> bool:
    """Whether the file is of this tool."""
    if document.rows:
        return len(document.rows) > 3 and "Request Counts" in document.rows[0]  # noqa: PLR2004 - the rows of headers
    return isinstance(document.first.get("benchmarks"), list)


def runs(document: Document) -> tuple[Run, ...]:
    """The benchmarks of a report, in order."""
    reports = (Fields(document.name, _of_csv(document)),) if document.rows else document.fields()
    return tuple(_run(report, benchmark) for report in reports for benchmark in report.each("benchmarks"))


def _run(report: Fields, benchmark: Fields) -> Run:
    metrics = benchmark.within("metrics")
    totals = metrics.within("request_totals")
    load, defects = _load(benchmark)
    completed = totals.count("successful")
    if completed is None:
        raise totals.fault("successful", "missing; save the report with --output kind=json")
    mean = _successful(metrics, "request_latency").number("mean")
    return Run(
        file=benchmark.file,
        setup=_setup(report, benchmark),
        options=OPTIONS,
        load=load,
        completed=completed,
        failed=totals.count("errored"),
        rate_per_s=_successful(metrics, "requests_per_second").required(
            "mean", "save the report with --output kind=json"
        ),
        e2e_mean_s=mean,
        ttft=_latency(metrics, "time_to_first_token_ms", completed),
        tpot=_latency(metrics, "inter_token_latency_ms", completed),
        prompts=_lengths(metrics, "prompt_token_count"),
        outputs=_lengths(metrics, "output_token_count"),
        from_empty=not benchmark.number("warmup_duration"),
        cut_off=totals.count("incomplete") or 0,
        cached_ratio=_cached_ratio(benchmark),
        defects=defects,
    )


def _load(benchmark: Fields) -> tuple[Load, tuple[Defect, ...]]:
    """What was held constant. Every strategy has a ``max_concurrency`` too, which is a limit and not the load."""
    strategy = benchmark.within("config", "strategy")
    if not strategy.data:  # up to GuideLLM 0.3
        strategy = benchmark.within("args", "strategy")
    kind = strategy.text("type_") or "unknown"
    if kind == "synchronous":
        return Load(LoadKind.CONCURRENCY, 1.0), ()
    if kind == "concurrent":
        return Load(LoadKind.CONCURRENCY, strategy.required("streams", CONCURRENT)), ()
    if kind in {"constant", "poisson"}:
        return Load(LoadKind.RATE, strategy.required("rate", "use --profile kind=poisson,rate=N")), ()
    seen = _successful(benchmark.within("metrics"), "request_concurrency").number("mean")
    if seen is None:
        raise strategy.fault("type_", f"{kind} holds no load constant; {CONCURRENT}")
    return Load(LoadKind.CONCURRENCY, seen), (Defect(f"the strategy {kind} holds no load constant; {CONCURRENT}"),)


def _setup(report: Fields, benchmark: Fields) -> Setup:
    backends = (benchmark.within("config", "backend"), report.within("config", "spec", "backend"))
    return Setup(
        tool=TOOL,
        tool_version=report.within("metadata").text("guidellm_version"),
        model=next((name for backend in backends if (name := backend.text("model"))), None),
    )


def _successful(metrics: Fields, name: str) -> Fields:
    return metrics.within(name, "successful")


def _latency(metrics: Fields, name: str, completed: int) -> Latency:
    block = _successful(metrics, name)
    mean = block.number("mean")
    if not mean:
        return Latency(0)
    percentiles = block.within("percentiles")
    found = {share: percentiles.number(key) for key, share in PERCENTILES.items()}
    found |= {0.0: block.number("min"), 1.0: block.number("max")}
    # Tokens weigh in the distribution of inter-token latencies, but the samples that are independent are the requests.
    return Latency(completed, mean * MS, seconds(found, MS))


def _lengths(metrics: Fields, name: str) -> Lengths:
    block = _successful(metrics, name)
    percentiles = block.within("percentiles")
    return Lengths(block.number("mean"), block.number("std_dev"), percentiles.number("p50"), percentiles.number("p95"))


def _cached_ratio(benchmark: Fields) -> float | None:
    """Of the requests that the report lists; None unless the server tells (vLLM: ``--enable-prompt-tokens-details``)."""
    tokens = [request.within("input_metrics") for request in benchmark.within("requests").each("successful")]
    told = [
        (cached, total)
        for each in tokens
        if (cached := each.number("cached_tokens")) is not None and (total := each.number("total_tokens"))
    ]
    return sum(cached for cached, _ in told) / sum(total for _, total in told) if told else None


def _of_csv(document: Document) -> Mapping[str, Any]:
    """The report that the CSV stands for, as far as it is read here."""
    columns = list(zip(*document.rows[:3], strict=False))
    benchmarks = []
    for row in document.rows[3:]:
        cells = dict(zip(columns, row, strict=False))
        kind, _, value = cells.get(("Benchmark", "Strategy", ""), "").partition("@")
        counts = {
            name.lower(): cells.get(("Request Counts", name, "")) for name in ("Successful", "Errored", "Incomplete")
        }
        benchmarks.append(
            {
                "config": {
                    "strategy": {"type_": kind, "streams": value, "rate": value},
                    "backend": _cell(cells.get(("Run Info", "Backend", ""))),
                },
                "warmup_duration": cells.get(("Timings", "Warmup", "Sec")),
                "metrics": {"request_totals": counts}
                | {name: {"successful": _csv_block(cells, *place)} for name, place in CSV_METRICS.items()},
            }
        )
    metadata = dict(zip(columns, document.rows[3], strict=False)).get(("Runtime Info", "Metadata", ""))
    return {"metadata": _cell(metadata), "benchmarks": benchmarks}


def _csv_block(cells: Mapping[tuple[str, ...], str], group: str, unit: str) -> Mapping[str, Any]:
    told = {
        name: cells.get((group, f"Successful {unit}", name)) for name in ("Mean", "Median", "Std Dev", "Percentiles")
    }
    listed = re.findall(r"[^\[\], ]+", told["Percentiles"] or "")
    percentiles: Mapping[str, Any] = dict(zip(CSV_PERCENTILES, listed, strict=False))
    return {
        "mean": told["Mean"],
        "std_dev": told["Std Dev"],
        "min": percentiles.get("min"),
        "max": percentiles.get("max"),
        "percentiles": {**percentiles, "p50": told["Median"]},
    }


def _cell(text: str | None) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {}
