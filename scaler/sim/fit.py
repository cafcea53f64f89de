"""The four coefficients of the replica model, from what a real engine was seen to do.

From a *recorded run*, the times of each request: the model is run on the same requests, and its coefficients are moved until the times of
whole requests and of their decoding are nearest in their logarithms, least squares. From the *levels* of a load test likewise, from
the times per output token and to the first token of each.

What such data can tell apart is limited. In one run the batch and its context grow together, so ``a`` and ``d`` trade off; where the
batch hardly changes ``b`` is lost in them; at levels of one token mix ``b`` and ``d`` cannot be told apart at all, so ``b`` is kept in the
ratio to ``a`` that engines have. The fit says how sure each coefficient is. Used on loads like those that it was fitted to, it does not
matter which of them is right; for other lengths fit several runs of different lengths, or compare with a preset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from scaler.errors import ConfigError
from scaler.sim.least_squares import Solution, fitted
from scaler.sim.presets import PRESETS
from scaler.sim.replica import Replica
from scaler.sim.values import Coefficients, EngineLimits, Finished, FirstToken, Request

NAMES = ("a_s", "b_s", "c_s", "d_s")
FEW_REQUESTS, FEW_LEVELS = 30, 3
BATCH_SHARE = 0.002
"""``b`` as a share of ``a`` where it cannot be told: the presets' are from 0.0015 to 0.004."""
UNSURE_RATIO = 0.25
"""A standard error above that share of a coefficient is told."""
LEVEL_REQUESTS = 40
LEVEL_FILLS = 2
SPREAD_RATIO = 0.1
"""Of the lengths at a level: load testers send nearly equal ones, and quite equal ones would march in step."""
TINY_S = 1e-3


@dataclass(frozen=True, slots=True)
class Seen:
    """One request of a recorded run, times in seconds of one clock, lengths in tokens."""

    arrived_at: float
    first_token_at: float
    finished_at: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Held:
    """One level of a load test: so many requests at once, median times in seconds, mean lengths in tokens."""

    concurrency: int
    ttft_s: float
    tpot_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Fit:
    """``coefficients`` and how they were found.

    ``error_ratio``: by what share the model is off, median over ``what`` was not fitted, or over all levels. ``errors`` are the standard
    errors of ``a``, ``b``, ``c``, ``d`` as shares of them, None where a coefficient was not fitted. ``trade_off``: how ``a`` and ``d``
    go together, -1 where one makes up for the other wholly.
    """

    coefficients: Coefficients
    what: str
    error_ratio: float
    errors: tuple[float | None, ...]
    trade_off: float

    @property
    def unsure(self) -> tuple[str, ...]:
        """The coefficients of which these data tell little."""
        return tuple(
            name for name, error in zip(NAMES, self.errors, strict=True) if error is None or error > UNSURE_RATIO
        )


def fit_run(seen: Sequence[Seen], limits: EngineLimits, overhead_s: float = 0.0) -> Fit:
    """From a recorded run, all of whose requests are there, in order of arrival. Every second one is fitted, the others are the test.

    ``overhead_s`` is of the API server, 0 where the times are the engine's. Raises ConfigError for too few requests, or too long ones.
    """
    if len(seen) < FEW_REQUESTS:
        raise ConfigError(f"fit: {len(seen)} requests are too few; {FEW_REQUESTS} are needed, some hundreds are good")
    if any(one.prompt_tokens + one.output_tokens > limits.kv_tokens for one in seen):
        raise ConfigError("fit: a request there has more tokens than the KV cache; give the true --kv-tokens")

    def residuals(values: Sequence[float]) -> list[float]:
        ran = _ran(seen, _made(values, overhead_s), limits)
        return [
            left
            for one, (first_at, end_at) in zip(seen[::2], ran[::2], strict=True)
            for left in _left(one, first_at, end_at)
        ]

    found = _best(residuals, [_numbers(preset.coefficients) for preset in PRESETS.values()])
    coefficients = _made(found.values, overhead_s)
    ran = _ran(seen, coefficients, limits)
    off = [
        abs(end_at - one.finished_at) / max(TINY_S, one.finished_at - one.arrived_at)
        for one, (_, end_at) in zip(seen[1::2], ran[1::2], strict=True)
    ]
    return Fit(
        coefficients,
        f"the time of a whole request, {len(off)} requests that were not fitted",
        median(off),
        found.errors,
        found.correlations[0][3],
    )


def fit_levels(levels: Sequence[Held], limits: EngineLimits, overhead_s: float = 0.015) -> Fit:
    """From the levels of a load test, all of one mix. ``b`` is not fitted. Raises ConfigError for too few levels below the engine's cap."""
    below = [level for level in levels if level.concurrency <= limits.max_num_seqs]
    if len(below) < FEW_LEVELS:
        raise ConfigError(
            f"fit: {len(below)} levels within --max-num-seqs are too few; {FEW_LEVELS} are needed, the lowest of one request"
        )

    def coefficients(values: Sequence[float]) -> Coefficients:
        a, c, d = values
        return Coefficients(a, BATCH_SHARE * a, c, d, overhead_s)

    def residuals(values: Sequence[float]) -> list[float]:
        made = coefficients(values)
        found = [_held(level, made, limits) for level in below]
        return [
            math.log(model / max(TINY_S / 100, true))
            for level, pair in zip(below, found, strict=True)
            for model, true in zip(pair, (level.ttft_s, level.tpot_s), strict=True)
        ]

    starts = [(one.a_s, one.c_s, one.d_s) for one in (preset.coefficients for preset in PRESETS.values())]
    found = _best(residuals, starts)
    a, c, d = found.errors
    off = [abs(math.exp(left) - 1) for left in residuals(found.values)]
    return Fit(
        coefficients(found.values),
        f"TTFT and TPOT of {len(below)} levels, all of them fitted",
        median(off),
        (a, None, c, d),
        found.correlations[0][2],
    )


def _best(residuals: Callable[[Sequence[float]], list[float]], starts: Sequence[Sequence[float]]) -> Solution:
    """The least squares of several starts: a model that counts steps has more than one valley."""
    return min((fitted(residuals, start) for start in starts), key=lambda found: found.rms)


def _made(values: Sequence[float], overhead_s: float) -> Coefficients:
    a, b, c, d = values
    return Coefficients(a, b, c, d, overhead_s)


def _numbers(of: Coefficients) -> tuple[float, ...]:
    return of.a_s, of.b_s, of.c_s, of.d_s


def _left(one: Seen, first_at: float, end_at: float) -> tuple[float, float]:
    """By how much the logarithms of the whole time and of the decoding are off."""
    whole = (end_at - one.arrived_at) / max(TINY_S, one.finished_at - one.arrived_at)
    decoding = (end_at - first_at + TINY_S) / (max(0.0, one.finished_at - one.first_token_at) + TINY_S)
    return math.log(whole), math.log(decoding)


def _ran(seen: Sequence[Seen], made: Coefficients, limits: EngineLimits) -> list[tuple[float, float]]:
    """When the model has the first and the last token of each."""
    engine = Replica(made, limits)
    for number, one in enumerate(seen):
        engine.submit(Request(number, one.arrived_at, one.prompt_tokens, one.output_tokens), one.arrived_at)
    first, last = [0.0] * len(seen), [0.0] * len(seen)
    while (due := engine.next_event_at()) is not None:
        for event in engine.advance(due):
            if isinstance(event, FirstToken):
                first[int(event.id)] = event.at
            elif isinstance(event, Finished):
                last[int(event.id)] = event.at
    return list(zip(first, last, strict=True))


def _held(level: Held, made: Coefficients, limits: EngineLimits) -> tuple[float, float]:
    """The median TTFT and TPOT of the model at a level, once it is full."""
    chance, engine = Random("level"), Replica(made, limits)

    def request(number: int, at: float) -> Request:
        prompt, output = (
            max(2, round(mean * chance.uniform(1 - SPREAD_RATIO, 1 + SPREAD_RATIO)))
            for mean in (level.prompt_tokens, level.output_tokens)
        )
        return Request(number, at, prompt, output)

    sent = level.concurrency
    for number in range(sent):
        engine.submit(request(number, 0.0), 0.0)
    done: list[Finished] = []
    wanted = LEVEL_FILLS * level.concurrency + LEVEL_REQUESTS
    while len(done) < wanted and (at := engine.next_event_at()) is not None:
        for event in engine.advance(at):
            if isinstance(event, Finished):
                done.append(event)
                engine.submit(request(sent, at), at)
                sent += 1
    settled = done[level.concurrency :]
    return median(one.ttft_s for one in settled), median(one.tpot_s or TINY_S for one in settled)
