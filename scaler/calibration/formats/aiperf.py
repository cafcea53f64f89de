"""NVIDIA AIPerf: ``profile_export_aiperf.json`` of one load, and ``profile_export_aiperf_sweep.json`` of several.

A metric is a block ``{unit, avg, min, max, p1 … p99, std}``; latencies are in milliseconds. ``inter_token_latency`` is the mean of each
request, which is TPOT. The count of failed requests is left out when it is 0. AIPerf counts the tokens of outputs itself, unless told
otherwise, and divides by that count: where it differs from the server's, TPOT is not the server's either.
"""

from __future__ import annotations

from scaler.calibration.document import Document, Fields
from scaler.calibration.runs import Defect, Latency, Lengths, Load, LoadKind, Options, Run, Setup, seconds

TOOL = "aiperf profile"
OPTIONS = Options(
    tool=TOOL,
    concurrency="--concurrency {load} --request-count {requests} --num-dataset-entries {requests}",
    rate="--request-rate {load} --request-count {requests} --num-dataset-entries {requests}",
    prompts="another --random-seed for each run, or an emptied prefix cache",
    percentiles="--streaming",
    tpot="--streaming, and outputs of two tokens or more",
    samples=None,
    ttft_field="time_to_first_token.p{}",
    tpot_field="inter_token_latency.p{}",
)
SAVE = "give the profile_export_aiperf.json of a finished run"
MS = 1e-3
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
COUNTED_ALIKE_RATIO = 1.1
"""How far the client's count of output tokens may be above the server's before TPOT is too flattering to use."""


def recognises(document: Document) -> bool:
    """Whether the file is of this tool; what it writes about the server, and its means over trials, have their ``metrics`` apart."""
    keys = document.first.keys()
    return ("aiperf_version" in keys and "metrics" not in keys) or "per_combination_metrics" in keys


def runs(document: Document) -> tuple[Run, ...]:
    """The run of a file, or those that a sweep put together."""
    return tuple(
        run for fields in document.fields() for run in (_of_sweep(fields) if _is_sweep(fields) else (_of_run(fields),))
    )


def _is_sweep(fields: Fields) -> bool:
    return "per_combination_metrics" in fields.data


def _of_run(result: Fields) -> Run:
    config = result.within("input_config")
    name = next((model.text("name") for model in config.within("models").each("items")), None)
    setup = Setup(tool=TOOL, tool_version=result.text("aiperf_version"), model=name)
    cancelled = result.data.get("was_cancelled") is True or result.data.get("is_complete") is False
    defects = (Defect("the run was cancelled before its end; let it finish"),) if cancelled else ()
    return _run(result, _load(config), setup, result.text("start_time"), defects)


def _of_sweep(sweep: Fields) -> tuple[Run, ...]:
    if (sweep.within("metadata").number("num_trials_per_value") or 1) > 1:
        raise sweep.fault(
            "metadata.num_trials_per_value",
            "a mean of percentiles is none; give the profile_export_aiperf.json of each trial",
        )
    found = []
    for combination in sweep.each("per_combination_metrics"):
        load = _swept_load(combination.within("parameters"))
        found.append(_run(combination.within("metrics"), load, Setup(tool=TOOL), None, ()))
    return tuple(found)


def _swept_load(parameters: Fields) -> Load:
    """The load of one combination; whatever else was swept makes it another test."""
    keys = {key.rpartition(".")[2]: key for key in parameters.data}
    for name, kind in (("concurrency", LoadKind.CONCURRENCY), ("request_rate", LoadKind.RATE), ("rate", LoadKind.RATE)):
        if set(keys) == {name}:
            return Load(kind, parameters.required(keys[name], SAVE))
    raise parameters.fault(
        ", ".join(sorted(keys)) or "concurrency", "a sweep of --concurrency or --request-rate alone is needed"
    )


def _load(config: Fields) -> Load:
    phase = next(
        (phase for phase in config.each("phases") if "profiling" in {phase.text("kind"), phase.text("name")}), None
    )
    phase = phase if phase is not None else config.within("loadgen")  # as releases before 0.2 call it
    for key, kind in (("rate", LoadKind.RATE), ("request_rate", LoadKind.RATE), ("concurrency", LoadKind.CONCURRENCY)):
        value = phase.number(key)
        if value:
            return Load(kind, value)
    raise config.fault("phases", f"no load that was held constant; run {TOOL} with --concurrency")


def _run(metrics: Fields, load: Load, setup: Setup, started: str | None, defects: tuple[Defect, ...]) -> Run:
    completed = int(_value(metrics, "request_count") or 0)
    prompts = "usage_prompt_tokens" if "usage_prompt_tokens" in metrics.data else "input_sequence_length"
    cached, sent = _value(metrics, "usage_prompt_cache_read_tokens"), _value(metrics, "usage_prompt_tokens")
    return Run(
        file=metrics.file,
        setup=setup,
        options=OPTIONS,
        load=load,
        completed=completed,
        failed=int(_value(metrics, "error_request_count") or 0),
        rate_per_s=metrics.within("request_throughput").required("avg", SAVE),
        e2e_mean_s=None if (mean := _value(metrics, "request_latency")) is None else mean * MS,
        ttft=_latency(metrics, "time_to_first_token", completed),
        tpot=_latency(metrics, "inter_token_latency", completed),
        prompts=_lengths(metrics, prompts),
        outputs=_lengths(metrics, _outputs(metrics)),
        cached_ratio=None if cached is None or not sent else cached / sent,
        tested_on=None if started is None else started[:10],
        defects=(*defects, *_miscounted(metrics)),
    )


def _outputs(metrics: Fields) -> str:
    return "usage_completion_tokens" if "usage_completion_tokens" in metrics.data else "output_sequence_length"


def _miscounted(metrics: Fields) -> tuple[Defect, ...]:
    here, there = _value(metrics, "output_sequence_length"), _value(metrics, "usage_completion_tokens")
    if here is None or not there or here <= COUNTED_ALIKE_RATIO * there:
        return ()
    text = f"TPOT is too small: AIPerf counted {here:.0f} output tokens where the server says {there:.0f}"
    return (Defect(f"{text}; run {TOOL} with --use-server-token-count", about="tpot"),)


def _value(metrics: Fields, tag: str) -> float | None:
    return metrics.within(tag).number("avg")


def _latency(metrics: Fields, tag: str, completed: int) -> Latency:
    block = metrics.within(tag)
    mean = block.number("avg")
    found = {percent / 100: block.number(f"p{percent}") for percent in PERCENTILES}
    found |= {0.0: block.number("min"), 1.0: block.number("max")}
    return Latency(completed if mean else 0, None if mean is None else mean * MS, seconds(found, MS) if mean else ())


def _lengths(metrics: Fields, tag: str) -> Lengths:
    block = metrics.within(tag)
    return Lengths(*(block.number(key) for key in ("avg", "std", "p50", "p95")))
