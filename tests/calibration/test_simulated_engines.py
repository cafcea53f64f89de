"""Simulated engines, loaded as a load tester loads real ones: knees that are known are found, and tests that prove nothing are refused.

The truth is the P95 of all seeds together, without the requests of each start; a test sees one seed, through the file that
``vllm bench serve`` writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

import pytest

from scaler.calibration import Objectives, Outcome, Setup, assemble, calibrate, read
from scaler.calibration.advice import NextTest, next_test
from scaler.calibration.runs import Load, LoadKind
from scaler.errors import ConfigError
from scaler.sim import PRESETS, EngineLimits, Preset
from tests.calibration.closed_loop import Lengths, LoadTest, as_vllm, load_test, quantile

SEEDS = 20


def lognormal(median: float, sigma: float, least: int, most: int):
    return lambda random: round(min(most, max(least, median * math.exp(sigma * random.gauss(0, 1)))))


def fixed(tokens: int):
    return lambda random: tokens


def mix(prompt, output) -> Lengths:
    return lambda random: (prompt(random), output(random))


@dataclass(frozen=True, slots=True)
class Case:
    """An engine, its traffic and its objectives. ``binding`` is what may break first, ``kv_tokens`` what the load tester's user names."""

    preset: Preset
    lengths: Lengths
    objectives: Objectives
    ladder: tuple[int, ...]
    binding: frozenset[str]
    kv_tokens: int | None = None


H100, A100, L40S = (PRESETS[f"llama-3.1-8b-{gpu}"] for gpu in ("h100", "a100", "l40s"))
CHAT = mix(lognormal(600, 0.8, 16, 8000), lognormal(200, 0.6, 4, 1000))
CASES = {
    "chat": Case(H100, CHAT, Objectives(2.0, 0.012), (1, 2, 4, 8, 16, 32, 64), frozenset({"tpot"})),
    "code": Case(
        A100,
        mix(lognormal(2500, 0.5, 100, 12000), lognormal(60, 0.6, 4, 400)),
        Objectives(1.0, 0.1),
        (1, 2, 4, 8, 16, 32, 64),
        frozenset({"ttft", "tpot"}),
    ),
    "reasoning": Case(
        PRESETS["qwen3-32b-2xh100"],
        mix(lognormal(400, 0.5, 16, 4000), lognormal(1500, 0.5, 100, 8000)),
        Objectives(2.0, 0.0165),
        (1, 2, 4, 8, 16, 32, 64),
        frozenset({"tpot"}),
    ),
    "long context": Case(
        PRESETS["llama-3.1-70b-4xh100"],
        mix(lognormal(12000, 0.4, 1000, 40000), lognormal(300, 0.4, 10, 1000)),
        Objectives(2.0, 0.15),
        (1, 2, 4, 8, 16, 32),
        frozenset({"ttft", "kv_cache", "preemptions"}),
        kv_tokens=483_000,
    ),
    "KV-bound": Case(
        replace(H100, limits=EngineLimits(1024, 8192, 40_000)),
        mix(lognormal(600, 0.5, 16, 4000), lognormal(400, 0.5, 4, 2000)),
        Objectives(1.0, 0.1),
        (1, 2, 4, 8, 16, 32, 64),
        frozenset({"preemptions"}),
    ),
    "prefill-bound": Case(
        L40S, mix(fixed(3000), fixed(16)), Objectives(2.0, 0.5), (1, 2, 4, 8, 16, 32), frozenset({"ttft"})
    ),
}


def ladder_test(case: Case, seed: int, requests: int = 300) -> list[LoadTest]:
    """One test of every level, with a twentieth of its requests at the start."""
    return [
        load_test(case.preset, case.lengths, level, max(requests, 21 * level), f"{seed} at {level}")
        for level in case.ladder
    ]


def answer(case: Case, tests: list[LoadTest], *, detailed: bool = True):
    results = [
        read(f"c{test.concurrency}.json", as_vllm(test, detailed=detailed, preemptions=test.preemptions))
        for test in tests
    ]
    return calibrate(assemble(results, Setup("", kv_tokens=case.kv_tokens)), case.objectives)


def truth(tests: list[list[LoadTest]]) -> list[tuple[float, float]]:
    """The P95 of TTFT and TPOT at each level, over all seeds."""
    found = []
    for same in zip(*tests, strict=True):
        steady = [done for test in same for done in test.done[test.concurrency :]]
        ttft, tpot = (quantile([getattr(done, name) for done in steady], 0.95) for name in ("ttft_s", "tpot_s"))
        found.append((ttft, tpot))
    return found


def knee(objectives: Objectives, p95s: list[tuple[float, float]]) -> int:
    """The place on the ladder of the highest level that keeps the objectives, with every lower one."""
    broken = (ttft > objectives.ttft_s or tpot > (objectives.tpot_s or math.inf) for ttft, tpot in p95s)
    return next(place for place, fails in enumerate(broken) if fails) - 1


@pytest.mark.parametrize("name", CASES)
def test_a_known_knee_is_found_within_one_tested_step_and_not_overstated(name):
    case = CASES[name]
    tests = [ladder_test(case, seed) for seed in range(SEEDS)]
    found = [answer(case, of_seed) for of_seed in tests]
    p95s = truth(tests)
    place = knee(case.objectives, p95s)
    steps = [case.ladder.index(int(one.safe_concurrency or 0)) - place for one in found]
    assert set(steps) <= {-1, 0}
    assert steps.count(0) >= 3 / 4 * SEEDS
    assert {one.outcome for one in found} == {Outcome.SAFE}
    assert {one.binding.name for one in found} <= case.binding
    # Requests that share a batch are not independent, so a bound may be below the truth: by a tenth, which is the headroom.
    bounds = [[check.bound_s for check in judged.checks] for one in found for judged in one.levels[: place + 1]]
    truths = [list(level) for _ in found for level in p95s[: place + 1]]
    assert (
        min(
            bound / true
            for row, level in zip(bounds, truths, strict=True)
            for bound, true in zip(row, level, strict=True)
        )
        > 0.9
    )


def test_summaries_find_the_same_knee_with_more_requests():
    """Without single requests the P99 has to bound the P95, and a burst of one in a hundred requests is all that may be below it."""
    case = replace(CASES["code"], ladder=(1, 4, 8, 16, 32))
    found = [
        answer(
            case,
            [
                load_test(case.preset, case.lengths, level, 110 * level + 300, f"{seed}/{level}")
                for level in case.ladder
            ],
            detailed=False,
        )
        for seed in range(3)
    ]
    assert {one.safe_concurrency for one in found} <= {8.0, 16.0}


def test_a_test_that_ends_below_the_knee_is_refused_an_exact_answer():
    case = replace(CASES["chat"], ladder=(1, 4, 8))
    found = answer(case, ladder_test(case, 1))
    assert (found.outcome, found.safe_concurrency, next_test(found)) == (
        Outcome.AT_LEAST,
        8.0,
        NextTest(Load(LoadKind.CONCURRENCY, 16.0), 320),
    )


def test_a_test_with_too_few_requests_is_refused():
    case = CASES["chat"]
    short = [load_test(case.preset, case.lengths, level, 3 * level, level) for level in case.ladder]
    found = answer(case, short)
    assert (found.outcome, found.safe_concurrency) == (Outcome.NOT_ENOUGH, None)


def test_a_test_that_sends_the_same_prompts_at_every_level_is_refused():
    """A prompt that is in the cache is prefilled but for its last block."""
    case = CASES["code"]

    def cached(random: Random) -> tuple[int, int]:
        prompt, output = case.lengths(random)
        return 1 + prompt % 16, output

    cold, *warm = (
        load_test(case.preset, lengths, level, max(300, 21 * level), "the same seed")
        for level, lengths in zip((1, 2, 4, 8, 16), (case.lengths, cached, cached, cached, cached), strict=True)
    )
    # the client counts the prompts that it sends, whatever is cached
    asked = [replace(test, done=tuple(replace(done, prompt=2500) for done in test.done)) for test in (cold, *warm)]
    found = answer(case, asked)
    assert (found.outcome, found.safe_concurrency) == (Outcome.UNUSABLE, None)
    assert "the prefix cache was warm" in found.sweep.warm.text


def test_a_test_over_an_upgrade_of_the_engine_is_refused():
    case = replace(CASES["chat"], ladder=(1, 4))
    first, second = ladder_test(case, 1)
    files = [
        read("a.json", as_vllm(first, engine_version="0.31.0")),
        read("b.json", as_vllm(second, engine_version="0.32.0")),
    ]
    with pytest.raises(ConfigError, match=r"engine_version: 0\.31\.0 in a\.json and 0\.32\.0 in b\.json"):
        assemble(files, Setup(""))


def test_a_test_of_two_kinds_of_traffic_is_refused():
    chat, code = (ladder_test(replace(CASES[name], ladder=(2,)), 1) for name in ("chat", "code"))
    files = [read("chat.json", as_vllm(*chat)), read("code.json", as_vllm(*code))]
    with pytest.raises(ConfigError, match="length of prompts"):
        assemble(files, Setup(""))


def test_a_client_that_cannot_keep_up_is_refused():
    case = replace(CASES["chat"], ladder=(8,))
    (test,) = ladder_test(case, 1)
    found = answer(case, [replace(test, seconds=1.4 * test.seconds)])
    assert (found.outcome, found.levels[0].defects[0].text) == (
        Outcome.UNUSABLE,
        "5.6 requests were in flight (requests/s × mean latency), not 8: the load tester did not keep up",
    )
