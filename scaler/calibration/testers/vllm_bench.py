"""``vllm bench serve``. It takes an API key from OPENAI_API_KEY itself."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.calibration.formats.vllm_bench import OPTIONS
from scaler.calibration.testers.command import Option, Tester, Traffic, Turn

RESULT = "result.json"


def _fixed(traffic: Traffic, turn: Turn) -> Iterator[Option]:
    yield Option("--model", value=traffic.model)
    yield Option("--base-url", "--host", "--port", value=traffic.url)
    yield Option("--max-concurrency", value=turn.concurrency)
    yield Option("--num-prompts", value=turn.requests)
    yield Option("--seed", value=str(turn.seed))
    yield Option("--save-result")
    yield Option("--save-detailed")
    yield Option("--result-dir", value=turn.folder)
    yield Option("--result-filename", value=RESULT)


def _usual(traffic: Traffic, turn: Turn) -> Iterator[Option]:  # noqa: ARG001 - the signature of every load tester
    yield Option("--backend", value="openai-chat")
    yield Option("--endpoint", value="/v1/chat/completions")
    if traffic.input_tokens is not None:
        yield Option("--dataset-name", value="random")
        yield Option("--random-input-len", "--input-len", value=str(traffic.input_tokens))
    if traffic.output_tokens is not None:
        yield Option("--random-output-len", "--output-len", value=str(traffic.output_tokens))
        yield Option("--ignore-eos")
    if traffic.tokenizer is not None:
        yield Option("--tokenizer", value=traffic.tokenizer)
    for option in (OPTIONS.tpot, OPTIONS.percentiles):
        name, value = option.split()
        yield Option(name, value=value)
    yield Option("--disable-tqdm")


TESTER = Tester("vllm", ("vllm", "bench", "serve"), _fixed, _usual, RESULT)
