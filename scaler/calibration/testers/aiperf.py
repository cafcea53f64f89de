"""NVIDIA AIPerf. It refuses an option that is given twice, and sends only 100 different prompts unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.calibration.testers.command import Option, Tester, Traffic, Turn

WARMUPS = 3
LONGEST_S, MOST_FAILED_RATIO = 600, 0.1
"""Its own defaults are six hours and all: an endpoint that hangs or refuses would hold up the sweep."""


def _fixed(traffic: Traffic, turn: Turn) -> Iterator[Option]:
    yield Option("--model", "--model-names", "-m", value=traffic.model)
    yield Option("--url", "-u", value=traffic.url)
    yield Option("--streaming")
    yield Option("--concurrency", value=turn.concurrency)
    yield Option("--request-count", "--num-requests", value=turn.requests)
    yield Option("--random-seed", value=str(turn.seed))
    yield Option("--artifact-dir", "--output-artifact-dir", value=turn.folder)


def _usual(traffic: Traffic, turn: Turn) -> Iterator[Option]:
    yield Option("--endpoint-type", value="chat")
    if traffic.input_tokens is not None:
        prompts = str(turn.step.requests + WARMUPS)
        yield Option("--num-dataset-entries", "--num-prompts", value=prompts)
        lengths = str(traffic.input_tokens)
        yield Option("--isl", "--prompt-input-tokens-mean", "--synthetic-input-tokens-mean", value=lengths)
    if traffic.output_tokens is not None:
        lengths = str(traffic.output_tokens)
        yield Option("--osl", "--prompt-output-tokens-mean", "--output-tokens-mean", value=lengths)
        yield Option("--extra-inputs", value="ignore_eos:true")
    if traffic.tokenizer is not None:
        yield Option("--tokenizer", value=traffic.tokenizer)
    if traffic.api_key is not None:
        yield Option("--api-key", value=traffic.api_key)
    yield Option("--use-server-token-count")
    yield Option("--warmup-request-count", "--num-warmup-requests", value=str(WARMUPS))
    yield Option("--request-timeout-seconds", value=str(LONGEST_S))
    yield Option("--failed-request-threshold", value=str(MOST_FAILED_RATIO))
    yield Option("--no-gpu-telemetry")
    yield Option("--ui", "--ui-type", value="none")
    yield Option("--export-level", "--profile-export-level", value="summary")


TESTER = Tester("aiperf", ("aiperf", "profile"), _fixed, _usual, "profile_export_aiperf.json")
