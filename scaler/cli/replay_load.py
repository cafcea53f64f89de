"""``slo-scaler replay``: the traffic, from a file, a shape, our own log or a Prometheus."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from scaler.cli.replay_options import LoadWish, PastWish
from scaler.engines import ENGINES
from scaler.errors import ConfigError, SourceError
from scaler.settings.file import Configuration
from scaler.sim.shapes import SHAPES, rated, shape
from scaler.sim.traces import Assumed, Trace, read
from scaler.sim.traffic import Lengths
from scaler.sources.prometheus_api import PrometheusApi
from scaler.sources.prometheus_range import MOST_STEPS, Past, past_load

SEED = 1
"""Of a shape whose load is a matter of chance: the load is the same in all runs, and only its requests are thrown anew."""


def loaded(wish: LoadWish, assumed: Assumed, configured: Configuration | None) -> Trace:
    """The traffic that is wished. Raises ConfigError."""
    given = [name for name, value in _ways(wish) if value is not None]
    if len(given) != 1:
        raise ConfigError(
            "TRACE: name a file or a shape such as step:low_per_s=15,high_per_s=60,begins_at_s=600,duration_s=3000, "
            f"or give --recorded or --from-prometheus{'; one of them' if given else ''}"
        )
    assumed = replace(assumed, lengths=_lengths(wish))
    trace = _past(wish.past, assumed, configured) if wish.past.prometheus is not None else _named(wish, assumed)
    return _cut(trace, wish)


def _ways(wish: LoadWish) -> tuple[tuple[str, object], ...]:
    return ("TRACE", wish.trace), ("--recorded", wish.recorded), ("--from-prometheus", wish.past.prometheus)


def _lengths(wish: LoadWish) -> Lengths:
    usual = Lengths()
    return Lengths(wish.input_tokens or usual.prompt_tokens, wish.output_tokens or usual.output_tokens)


def _named(wish: LoadWish, assumed: Assumed) -> Trace:
    if wish.recorded is not None:
        trace = _file(wish.recorded, assumed)
        if not trace.recorded:
            raise ConfigError(
                f"--recorded: {wish.recorded} is no decision log of ours, but {trace.kind}; give it as TRACE"
            )
        return trace
    text = wish.trace or ""
    if text.partition(":")[0] in SHAPES and not Path(text).exists():
        return Trace(text, "a shape", rated(shape(text), SEED, assumed))
    return _file(Path(text), assumed)


def _file(path: Path, assumed: Assumed) -> Trace:
    try:
        return read(str(path), path.read_bytes(), assumed)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file, and no shape; name a trace, or a shape: {', '.join(SHAPES)}"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a folder; name one file in it") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'unreadable'}; name a file that may be read") from None


def _past(wish: PastWish, assumed: Assumed, configured: Configuration | None) -> Trace:
    known = {} if configured is None else configured.prometheus
    settings = known.get(wish.prometheus or "")
    if settings is None:
        there = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"--from-prometheus: no such Prometheus in the --config; there are {there}")
    if wish.begins is None or wish.ends is None:
        raise ConfigError("--from, --to: both are needed with --from-prometheus, such as 2026-01-31T08:00:00+00:00")
    namespace = wish.namespace or (assumed.workload or "").partition("/")[0]
    if not namespace:
        raise ConfigError("--namespace: needed with --from-prometheus")
    begins_at, ends_at = _instant("--from", wish.begins), _instant("--to", wish.ends)
    step_s = max(round(settings.interval_s), (ends_at - begins_at) // MOST_STEPS + 1)
    past = Past(ENGINES["vllm"], namespace, wish.model_name, begins_at, ends_at, step_s)
    api = PrometheusApi(settings, time.monotonic)
    try:
        return past_load(api, past, assumed)
    except SourceError as error:
        raise ConfigError(f"--from-prometheus: {error}") from None
    finally:
        asyncio.run(api.close())


def _instant(option: str, text: str) -> int:
    """Seconds since 1970; a time without an offset is UTC."""
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option}: a time such as 2026-01-31T08:00:00+00:00 is needed") from None
    return round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp())


def _cut(trace: Trace, wish: LoadWish) -> Trace:
    """Clipped and scaled. What was recorded of another load says nothing of this one."""
    traffic, recorded = trace.traffic, trace.recorded
    if wish.clip is not None:
        begins_at, ends_at = _window(wish.clip)
        traffic = traffic.clipped(begins_at, ends_at)
        recorded = tuple(replace(one, at=one.at - begins_at) for one in recorded if begins_at <= one.at < ends_at)
    if wish.scale != 1:
        traffic, recorded = traffic.scaled(wish.scale), ()
    return replace(trace, traffic=traffic, recorded=recorded)


def _window(clip: str) -> tuple[float, float]:
    begins, _, ends = clip.partition(":")
    try:
        return float(begins or 0), float(ends or "inf")
    except ValueError:
        raise ConfigError("--clip: write it as A:B in seconds, such as 600:1800") from None
