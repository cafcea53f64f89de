"""``vllm bench serve --save-result`` and the runs of ``vllm bench sweep``: a flat JSON object each, latencies in milliseconds.

Percentiles are over the successful requests, and the time to the first token begins when the client sends, after its own wait for a free
place. ``max_concurrent_requests`` counts whole seconds and is never the concurrency. What ``--metadata KEY=VALUE`` and a sweep's
overrides add stands beside the results; of those, the keys of a setup are read.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import zip_longest

from scaler.calibration.document import Document, Fields
from scaler.calibration.runs import Defect, Latency, Lengths, Load, LoadKind, Options, Run, Setup, seconds

TOOL = "vllm bench serve"
OPTIONS = Options(
    tool=TOOL,
    concurrency="--max-concurrency {load} --num-prompts {requests}",
    rate="--request-rate {load} --num-prompts {requests}",
    prompts="another --seed for each run, or an emptied prefix cache",
    percentiles="--metric-percentiles 50,90,95,96,97,98,99",
    tpot="--percentile-metrics ttft,tpot,itl,e2el",
    samples="--save-detailed",
    ttft_field="p{}_ttft_ms",
    tpot_field="p{}_tpot_ms",
)
SAVE = f"save it with {TOOL} --save-result"
MS = 1e-3
WARMUP = -1
"""The run number that a sweep gives to its warm-up."""
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)_(ttft|tpot)_ms")


def recognises(document: Document) -> bool:
    """Whether the file is of this tool."""
    return "request_throughput" in document.first and bool({"endpoint_type", "tokenizer_id"} & document.first.keys())


def runs(document: Document) -> tuple[Run, ...]:
    """The runs of a file: one, or those that ``--append-result`` or a sweep collected."""
    return tuple(_run(result) for result in document.fields() if result.number("run_number") != WARMUP)


@dataclass(frozen=True, slots=True)
class _Request:
    """One successful request of ``--save-detailed``."""

    started_at: float
    ttft_s: float
    e2e_s: float
    prompt: float
    output: float


def _run(result: Fields) -> Run:
    completed = result.count("completed")
    if completed is None:
        raise result.fault("completed", f"missing; {SAVE}")
    load = _load(result)
    ttft, tpot = _latency(result, "ttft", completed), _latency(result, "tpot", completed)
    prompts, outputs = _mean_lengths(result, "input", completed), _mean_lengths(result, "output", completed)
    requests = _requests(result)
    if requests:
        prompts = Lengths.of_samples(request.prompt for request in requests)
        outputs = Lengths.of_samples(request.output for request in requests)
        first = int(load.value) if load.kind is LoadKind.CONCURRENCY else 0
        steady = sorted(requests, key=lambda request: request.started_at)[first:]
        ttft = Latency.of_samples(request.ttft_s for request in steady)
        tpot = Latency.of_samples(
            (request.e2e_s - request.ttft_s) / (request.output - 1) for request in steady if request.output > 1
        )
    return Run(
        file=result.file,
        setup=_setup(result),
        options=OPTIONS,
        load=load,
        completed=completed,
        failed=_failed(result, completed),
        rate_per_s=result.required("request_throughput", SAVE),
        e2e_mean_s=_e2e_mean_s(result, completed),
        ttft=ttft,
        tpot=tpot,
        prompts=prompts,
        outputs=outputs,
        from_empty=not requests or load.kind is LoadKind.RATE,
        preemptions=result.number("preemptions"),
        tested_on=_date(result.text("date")),
        defects=_defects(result),
    )


def _load(result: Fields) -> Load:
    """What was held constant. With a rate, ``max_concurrency`` is only a limit; with neither, all prompts are sent at once."""
    rate = result.data.get("request_rate")
    if rate not in (None, "inf"):
        return Load(LoadKind.RATE, result.required("request_rate", f"set it with {TOOL} --request-rate"))
    most = result.number("max_concurrency")
    if most is None:
        most = result.required("num_prompts", f"set a load with {TOOL} --max-concurrency")
    return Load(LoadKind.CONCURRENCY, most)


def _failed(result: Fields, completed: int) -> int | None:
    """Up to vLLM 0.11 the file says only how many there should be."""
    failed, sent = result.count("failed"), result.count("num_prompts")
    return failed if failed is not None or sent is None else max(0, sent - completed)


def _latency(result: Fields, metric: str, completed: int) -> Latency:
    if not completed:
        return Latency(0)
    found = {
        float(match[1]) / 100: result.number(key)
        for key in result.data
        if (match := _PERCENTILE.fullmatch(key)) and match[2] == metric
    }
    found.setdefault(0.5, result.number(f"median_{metric}_ms"))
    mean = result.number(f"mean_{metric}_ms")
    if not mean and not any(found.values()):  # the endpoint does not stream, or outputs have one token
        return Latency(0)
    return Latency(completed, None if mean is None else mean * MS, seconds(found, MS))


def _mean_lengths(result: Fields, kind: str, completed: int) -> Lengths:
    total = result.number(f"total_{kind}_tokens")
    return Lengths() if total is None or not completed else Lengths(mean=total / completed)


def _requests(result: Fields) -> list[_Request]:
    """The successful requests, where all of them were saved; a failed one has an error, and 0 as its time to the first token."""
    columns = [result.numbers(key) for key in ("start_times", "ttfts", "latencies", "input_lens", "output_lens")]
    errors = result.data.get("errors")
    if not all(columns) or len({len(column) for column in columns}) > 1:
        return []
    rows = zip_longest(zip(*columns, strict=True), errors if isinstance(errors, list) else ())
    return [_Request(*row) for row, error in rows if row is not None and not error and row[1] > 0]


def _e2e_mean_s(result: Fields, completed: int) -> float | None:
    """The mean latency of whole requests, from the best that the file has; failed ones are 0 in ``latencies``."""
    mean = result.number("mean_e2el_ms")
    if mean is not None:
        return mean * MS
    latencies = result.numbers("latencies")
    if latencies and completed:
        return math.fsum(latencies) / completed
    ttft, tpot, tokens = (result.number(key) for key in ("mean_ttft_ms", "mean_tpot_ms", "total_output_tokens"))
    if ttft is None or tpot is None or tokens is None or not completed:
        return None
    return (ttft + tpot * (tokens / completed - 1)) * MS


def _setup(result: Fields) -> Setup:
    return Setup(
        tool=TOOL,
        model=result.text("model_id"),
        engine_version=result.text("engine_version") or result.text("vllm_version"),
        gpu=result.text("gpu"),
        max_num_seqs=result.number("max_num_seqs"),
        kv_tokens=result.number("kv_tokens"),
    )


def _defects(result: Fields) -> tuple[Defect, ...]:
    if result.text("ramp_up_strategy") is None:
        return ()
    return (Defect(f"the rate was raised while it was measured; run {TOOL} without --ramp-up-strategy"),)


def _date(written: str | None) -> str | None:
    """``20261130-144159`` as a date."""
    return None if written is None or len(written) < 8 else f"{written[:4]}-{written[4:6]}-{written[6:8]}"  # noqa: PLR2004 - YYYYMMDD
