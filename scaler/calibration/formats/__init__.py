"""The files that can be read. To add a format: a file with ``recognises`` and ``runs``, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scaler.calibration.document import Document, NoResult, parse
from scaler.calibration.formats import aiperf, guidellm, inference_perf, plain_csv, unread, vllm_bench
from scaler.calibration.runs import Load, Run
from scaler.errors import ConfigError

MANY_KEYS = 8
LEAST_LOAD, MOST_LOAD, MOST_REQUESTS = 1e-3, 1e6, 10_000_000
"""What a load test can be about; what is beyond was not written by one."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file: whether a document is of it, and its runs. Both are told by content alone; a file's name means nothing."""

    name: str
    recognises: Callable[[Document], bool]
    runs: Callable[[Document], tuple[Run, ...]]


FORMATS = (
    Format("AIPerf", aiperf.recognises, aiperf.runs),
    Format("GuideLLM", guidellm.recognises, guidellm.runs),
    Format("inference-perf", inference_perf.recognises, inference_perf.runs),
    Format("vllm bench serve", vllm_bench.recognises, vllm_bench.runs),
    Format("a plain CSV", plain_csv.recognises, plain_csv.runs),
    Format("others, which are refused", unread.recognises, unread.runs),
)


@dataclass(frozen=True, slots=True)
class Results:
    """A file's runs, and what proves later which file it was."""

    file: str
    sha256: str
    runs: tuple[Run, ...]


def read(name: str, content: bytes) -> Results:
    """The runs in a file; none in a warm-up or a summary. Raises NoResult for an unknown file, ConfigError for one that cannot be used."""
    document = parse(name, content)
    for known in FORMATS:
        if known.recognises(document):
            return Results(name, document.sha256, tuple(_sound(run) for run in known.runs(document)))
    found = list(document.first or (document.rows[0] if document.rows else ()))
    told = ", ".join(str(key) for key in found[:MANY_KEYS]) + (", …" if len(found) > MANY_KEYS else "")
    readable = ", ".join(known.name for known in FORMATS[:-1])
    raise NoResult(f"{name}: not a load test's result: it holds {told or 'nothing'}; readable are {readable}")


def _sound(run: Run) -> Run:
    """The run, if it can have happened."""
    if not LEAST_LOAD <= run.load.value <= MOST_LOAD:
        raise ConfigError(
            f"{run.file}: {run.load} is no load; test with {run.options.level(Load(run.load.kind, 1.0), 240)} and more"
        )
    if run.completed and not run.rate_per_s > 0:
        raise ConfigError(
            f"{run.file}: {run.completed} requests succeeded at {run.rate_per_s:g} requests/s; the file contradicts itself"
        )
    if run.completed > MOST_REQUESTS:
        raise ConfigError(
            f"{run.file}: {run.completed} requests are more than any load test sends; the file is damaged"
        )
    if any(number is not None and number < 0 for number in _never_negative(run)):
        raise ConfigError(f"{run.file}: a length, a count, a time or a share below zero; the file is damaged")
    return run


def _never_negative(run: Run) -> Iterator[float | None]:
    """What no clock can make negative, and the mean of whole requests. A time to the first token that is negative is told by itself."""
    for lengths in (run.prompts, run.outputs):
        yield from (lengths.mean, lengths.std, lengths.p50, lengths.p95)
    yield from (
        run.e2e_mean_s,
        run.failed,
        run.completed,
        run.preemptions,
        run.cached_ratio,
        run.setup.max_num_seqs,
        run.setup.kv_tokens,
    )
