"""What a simulated engine counts, as the text of a vLLM 0.32 /metrics page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scaler.core.model import Histogram, Reading, known
from scaler.demo.families import FAMILIES, Family, Kind
from scaler.sim import Accumulator, Counters, Finished, Request

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
"""What vLLM answers, whatever the client says it accepts."""


class Finishes:
    """The histograms that vLLM feeds when a request finishes and that the simulated engine does not keep. One owner."""

    def __init__(self) -> None:
        """All empty, as after a start."""
        self._accumulators = {f.name: Accumulator(f.edges) for f in FAMILIES if f.kind is Kind.HISTOGRAM}
        self._finished = 0

    @property
    def finished(self) -> int:
        """Requests that gave all their tokens."""
        return self._finished

    def add(self, request: Request, event: Finished) -> None:
        """Count one finished request."""
        self._finished += 1
        self._observe("request_generation_tokens", request.output_tokens)
        self._observe("request_max_num_generation_tokens", request.output_tokens)
        self._observe("request_params_max_tokens", request.output_tokens)
        self._observe("request_params_n", 1)
        self._observe("request_num_preemptions", 0)
        self._observe("request_prefill_kv_computed_tokens", request.prompt_tokens)
        self._observe("e2e_request_latency_seconds", event.e2e_s)
        self._observe("request_inference_time_seconds", event.e2e_s - event.queue_wait_s)
        self._observe("request_prefill_time_seconds", event.ttft_s - event.queue_wait_s)
        self._observe("request_decode_time_seconds", event.e2e_s - event.ttft_s)
        if event.tpot_s is not None:
            for _ in range(request.output_tokens - 1):  # weighted by tokens; each gap is taken as the request's mean
                self._observe("inter_token_latency_seconds", event.tpot_s)

    def histograms(self) -> dict[str, Histogram]:
        """Every histogram of a page by its name, those of the engine still empty."""
        return {name: accumulator.read() for name, accumulator in self._accumulators.items()}

    def _observe(self, family: str, value: float) -> None:
        self._accumulators[f"vllm:{family}"].observe(float(value))


@dataclass(frozen=True, slots=True)
class Contents:
    """All numbers of one page: what a scrape of the engine reads, its counters, and the histograms beside them.

    ``created_at`` is the wall time at which the engine started, in seconds.
    """

    reading: Reading
    counters: Counters
    finished: int
    histograms: Mapping[str, Histogram]
    created_at: float


def page(model: str, contents: Contents) -> str:
    """The page of an engine with one rank that serves ``model``."""
    numbers, histograms = _numbers(contents), {**contents.histograms, **_engine_histograms(contents.reading)}
    lines: list[str] = []
    for family in FAMILIES:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.kind is Kind.HISTOGRAM:
            lines += _histogram_lines(family, model, histograms[family.name])
        else:
            lines += _number_lines(family, model, numbers.get(family.name, ()))
        if family.kind is not Kind.GAUGE:
            lines.append(f"# TYPE {family.created} gauge")
            lines += [f"{family.created}{labels} {contents.created_at}" for labels in _label_sets(family, model)]
    return "\n".join(lines) + "\n"


def _numbers(contents: Contents) -> dict[str, tuple[float, ...]]:
    """The numbers that are not always zero, in the order of the family's label values."""
    reading, counters = contents.reading, contents.counters
    prompt = float(counters.prompt_tokens)
    return {
        "vllm:num_requests_running": (known(reading.running) or 0.0,),
        "vllm:num_requests_waiting": (known(reading.waiting) or 0.0,),
        "vllm:num_requests_waiting_by_reason": (known(reading.waiting) or 0.0,),
        "vllm:engine_sleep_state": (1.0,),
        "vllm:kv_cache_usage_perc": (known(reading.kv_usage_ratio) or 0.0,),
        "vllm:num_preemptions_total": (float(counters.preemptions),),
        "vllm:prompt_tokens_total": (prompt,),
        "vllm:prompt_tokens_by_source_total": (prompt,),
        "vllm:generation_tokens_total": (float(counters.generation_tokens),),
        # Every request runs to its max_tokens. As in vLLM, one whose client left is counted nowhere.
        "vllm:request_success_total": (0.0, float(contents.finished)),
    }


def _engine_histograms(reading: Reading) -> dict[str, Histogram]:
    found = {
        "vllm:time_to_first_token_seconds": reading.ttft,
        "vllm:request_time_per_output_token_seconds": reading.tpot,
        "vllm:request_queue_time_seconds": reading.queue_time,
        "vllm:request_prompt_tokens": reading.prompt_tokens,
    }
    return {name: histogram for name, histogram in found.items() if histogram is not None}


def _number_lines(family: Family, model: str, values: tuple[float, ...]) -> Iterator[str]:
    for index, labels in enumerate(_label_sets(family, model)):
        yield f"{family.name}{labels} {values[index] if index < len(values) else 0.0}"


def _histogram_lines(family: Family, model: str, histogram: Histogram) -> Iterator[str]:
    edges = [*(str(edge) for edge in histogram.edges), "+Inf"]
    for edge, count in zip(edges, histogram.counts, strict=True):
        yield f'{family.name}_bucket{{engine="0",le="{edge}",model_name="{model}"}} {count}'
    labels = next(_label_sets(family, model))
    yield f"{family.name}_count{labels} {histogram.count}"
    yield f"{family.name}_sum{labels} {histogram.sum}"


def _label_sets(family: Family, model: str) -> Iterator[str]:
    """The labels of each series of a family, sorted by name as prometheus_client writes them."""
    always = (("engine", "0"), ("model_name", model)) if family.engine else (("model_name", model),)
    for value in family.values or ("",):
        pairs = sorted((*always, (family.label, value))) if family.label else always
        yield "{" + ",".join(f'{name}="{text}"' for name, text in pairs) + "}"
