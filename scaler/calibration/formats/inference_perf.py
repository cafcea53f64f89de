"""inference-perf: ``stage_N_lifecycle_metrics.json``, one stage each, in seconds.

Its loads are mostly rates: the requests in flight are then told by Little's law, which holds as long as the server keeps up. Its
inter-token latency counts chunks, not tokens, so ``time_per_output_token`` is TPOT.
"""

from __future__ import annotations

from scaler.calibration.document import Document, Fields
from scaler.calibration.runs import Latency, Lengths, Load, LoadKind, Options, Run, Setup, seconds

TOOL = "inference-perf"
OPTIONS = Options(
    tool=TOOL,
    concurrency="load: {{type: concurrent, stages: [{{concurrency_level: {load}, num_requests: {requests}}}]}}",
    rate="load: {{type: poisson, stages: [{{rate: {load}, duration: {seconds}}}]}}",
    prompts="data that no earlier stage sent, or an emptied prefix cache",
    percentiles="report.request_lifecycle.percentiles: [50, 90, 95, 99]",
    tpot="api.streaming: true",
    samples=None,
    ttft_field="successes.latency.time_to_first_token.p{}",
    tpot_field="successes.latency.time_per_output_token.p{}",
)
SAVE = "give the stage_*_lifecycle_metrics.json that report.request_lifecycle.per_stage: true writes"
PERCENTILES = {"min": 0.0, "median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def recognises(document: Document) -> bool:
    """Whether the file is of this tool."""
    return {"load_summary", "successes"} <= document.first.keys()


def runs(document: Document) -> tuple[Run, ...]:
    """The stage of a file; none in the summary of all stages, which is no load of its own."""
    return tuple(_run(stage, load) for stage in document.fields() if (load := _load(stage)) is not None)


def _load(stage: Fields) -> Load | None:
    summary = stage.within("load_summary")
    concurrency, rate = summary.number("concurrency"), summary.number("requested_rate")
    if concurrency is not None:
        return Load(LoadKind.CONCURRENCY, concurrency)
    return None if rate is None else Load(LoadKind.RATE, rate)


def _run(stage: Fields, load: Load) -> Run:
    successes = stage.within("successes")
    completed = successes.count("count")
    if completed is None:
        raise successes.fault("count", f"missing; {SAVE}")
    latencies = successes.within("latency")
    prompts = successes.within("prompt_tokens" if "prompt_tokens" in successes.data else "prompt_len")
    outputs = successes.within("output_tokens" if "output_tokens" in successes.data else "output_len")
    cached, total = prompts.number("cached"), prompts.number("total")
    rate = successes.within("throughput").number("requests_per_sec")
    if rate is None and completed:
        raise successes.fault("throughput.requests_per_sec", f"missing; {SAVE}")
    return Run(
        file=stage.file,
        setup=Setup(tool=TOOL),
        options=OPTIONS,
        load=load,
        completed=completed,
        failed=stage.within("failures").count("count"),
        rate_per_s=rate or 0.0,
        e2e_mean_s=latencies.within("request_latency").number("mean"),
        ttft=_latency(latencies.within("time_to_first_token"), completed),
        tpot=_latency(latencies.within("time_per_output_token"), completed),
        prompts=_lengths(prompts),
        outputs=_lengths(outputs),
        cached_ratio=cached / total if cached and total else None,  # 0 is also what stands there when nobody tells
    )


def _latency(block: Fields, completed: int) -> Latency:
    mean = block.number("mean")
    found = {share: block.number(key) for key, share in PERCENTILES.items()}
    return Latency(completed, mean, seconds(found, 1.0)) if mean else Latency(0)


def _lengths(block: Fields) -> Lengths:
    p50 = block.number("median")
    return Lengths(mean=block.number("mean"), p50=p50, p95=block.number("p95"))
