"""What one replica can safely do: from a load test, corrected by what is seen, or learnt when only the safe concurrency is given.

``W`` is the residence time *at the safe point*. It is never today's residence time: saturation inflates that, and a scaler that used it
would chase its own tail.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.core.decision import Capacity
from scaler.core.model import Absent
from scaler.core.shown import FIRST_CONCURRENCY, STEP_RATIO, TRY_STEPS, Shown

if TYPE_CHECKING:
    from scaler.core.model import Kind
    from scaler.core.windows import Quantile

DEFAULT_HEADROOM_RATIO = 0.1
DERATE_DOWN, DERATE_UP, DERATE_FLOOR, DERATE_EVERY_S = 0.95, 1.02, 0.5, 30.0
DERATE_SAMPLES = 20
SATURATED_RATIO = 0.8
"""Derating needs real saturation: without this test a chat trace wasted two thirds more GPU-hours in simulation."""
MIX_WEIGHT = 0.6
"""How much of a change of the prompts' or the answers' length reaches the residence time at one concurrency.

In simulated engines (8B to 70B, H100 to L40S) 0.2 to 0.6 of the former and 0.6 to 0.9 of the latter do with chat, 0.8 and 0.3 with code,
0.0 and 0.7 with reasoning.
"""
MIX_SAMPLES, MIX_FLOOR = 50, 0.5
MIX_DRIFT_RATIO = 0.25
"""By how much the median prompt must differ from the load test's: load tests draw lengths at random, too."""
LEARN_FROM_RATIO, LEARN_SAMPLES, LEARN_WINDOWS, LEARN_SHARE = 0.2, 20, 3, 0.3
LEARN_STEADY_RATIO = 0.2


_WORD, _VERSION = re.compile(r"[a-z0-9]+"), re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True)
class Match:
    """Where a profile holds: the words of a GPU's name, and how the engine's version begins. Empty: anywhere."""

    gpu: str = ""
    engine_version: str = ""

    def __str__(self) -> str:
        """As a person would say it."""
        engine = self.engine_version and f"engine {self.engine_version}"
        return ", ".join(word for word in (self.gpu, engine) if word)

    def fits(self, kind: Kind) -> bool | None:
        """Whether the profile holds for such a replica; None when too little is known of it."""
        told = [
            fits(wanted, found) if found else None
            for wanted, found, fits in (
                (self.gpu, kind.node_class, _fits_gpu),
                (self.engine_version, kind.engine_version, _fits_version),
            )
            if wanted
        ]
        if False in told:
            return False
        return None if None in told else True


def _fits_gpu(wanted: str, found: str) -> bool:
    """Whole words, in any order: L4 is in the name of an L40S, and A10 in that of an A100."""
    return set(_WORD.findall(wanted.lower())) <= set(_WORD.findall(found.lower()))


def _fits_version(wanted: str, found: str) -> bool:
    """Part by part: 0.32 is a beginning of 0.32.1, and 0.3 is not."""
    begins, whole = (_VERSION.match(version) for version in (wanted, found))
    if begins is None or whole is None:
        return False
    parts = begins[1].split(".")
    return whole[1].split(".")[: len(parts)] == parts


@dataclass(frozen=True, slots=True)
class Profile:
    """The result of a load test with one model, GPU and token mix.

    ``safe_rate_per_s`` None: only the safe concurrency is known. ``input_p50`` and ``output_p50`` are the median lengths of the test's
    prompts and answers in tokens. ``confidence`` is what the person who wrote it says of it. ``alternatives`` are profiles for replicas
    that this one does not match. ``learnt``: the safe concurrency is learnt from live traffic.
    """

    safe_concurrency: float
    safe_rate_per_s: float | None = None
    unloaded_ttft_s: float | None = None
    input_p50: float | None = None
    name: str = ""
    confidence: str = ""
    match: Match = Match()
    alternatives: tuple[Profile, ...] = ()
    output_p50: float | None = None
    learnt: bool = False


AUTO = Profile(FIRST_CONCURRENCY, name="auto", confidence="low", learnt=True)
"""The profile of ``safeConcurrency: auto``."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What was seen of one replica's capacity. ``residence_s`` counts after ``windows`` enough; ``derate_ratio`` scales the safe rate.

    ``shown`` is the safe concurrency that traffic has shown, where that is to be learnt.
    """

    residence_s: float = 0.0
    windows: int = 0
    learned_at: float = -math.inf
    derate_ratio: float = 1.0
    derated_at: float = -math.inf
    shown: Shown = Shown()


@dataclass(frozen=True, slots=True)
class LoadWindow:
    """One window of load on the ready replicas, to learn from.

    ``running_change_ratio`` is how much running rose or fell within it, relative to its mean: Little's law holds in steady load only.
    """

    at: float
    length_s: float
    running_per_replica: float
    running_change_ratio: float
    waiting: float
    throughput_per_replica_s: float


def within_cap(profile: Profile, engine_cap: int | None) -> Profile:
    """The profile of an engine that runs at most so many requests at once: what it does not run cannot be safe to run.

    The residence time stays; at the smaller concurrency it is no longer, so the rate is not overstated by much, and never the room.
    """
    if engine_cap is None or engine_cap >= profile.safe_concurrency:
        return profile
    share = engine_cap / profile.safe_concurrency
    rate = None if profile.safe_rate_per_s is None else profile.safe_rate_per_s * share
    return replace(profile, safe_concurrency=float(engine_cap), safe_rate_per_s=rate)


def capacity(profile: Profile, headroom_ratio: float, learned: Learned, drift_ratio: float) -> Capacity:
    """The capacity to use now: the profile's, or the learnt one, after derating and drift."""
    safe, shown = profile.safe_concurrency, learned.shown
    tried = profile.learnt and safe == shown.value  # and not less, by the engine's own cap
    target = shown.target(headroom_ratio) if tried else safe * (1 - headroom_ratio)
    found = Capacity(
        safe,
        target,
        safe_rate_per_s=None,
        residence_s=None,
        origin="unknown rate",
        confidence=profile.confidence,
        basis=shown.basis if profile.learnt else None,
    )
    if profile.safe_rate_per_s is not None:
        residence, origin = safe / profile.safe_rate_per_s, "profile"
    elif learned.windows >= LEARN_WINDOWS:
        residence, origin = learned.residence_s, "learned"
    else:
        return found
    residence *= drift_ratio / learned.derate_ratio
    return replace(
        found,
        safe_rate_per_s=safe / residence,
        residence_s=residence,
        derate_ratio=learned.derate_ratio,
        drift_ratio=drift_ratio,
        origin=origin,
    )


def learn(learned: Learned, profile: Profile, window: LoadWindow) -> Learned:
    """The residence time by Little's law, from a steady window below the safe concurrency, at most one a window.

    Where that is learnt, a little more is tried, and counts. Windows nearer to the safe point weigh more, since batching makes a replica
    slower as it fills.
    """
    fill = window.running_per_replica / profile.safe_concurrency
    steady = window.waiting < 1 and window.running_change_ratio <= LEARN_STEADY_RATIO
    enough = window.throughput_per_replica_s * window.length_s >= LEARN_SAMPLES
    due = learned.windows == 0 or window.at - learned.learned_at >= window.length_s
    most = STEP_RATIO**TRY_STEPS if profile.learnt else 1.0
    if profile.safe_rate_per_s is not None or not (steady and enough and due and LEARN_FROM_RATIO <= fill <= most):
        return learned
    seen = window.running_per_replica / window.throughput_per_replica_s
    share = LEARN_SHARE * fill if learned.windows else 1.0
    mixed = learned.residence_s + share * (seen - learned.residence_s)
    return replace(learned, residence_s=mixed, windows=learned.windows + 1, learned_at=window.at)


def derate(learned: Learned, now: float, *, contradicted: bool) -> Learned:
    """The derating after this tick: a step down while measured latency contradicts a GREEN model, else a step back, every 30 s."""
    if now - learned.derated_at < DERATE_EVERY_S:
        return learned
    step = DERATE_DOWN if contradicted else DERATE_UP
    ratio = min(1.0, max(DERATE_FLOOR, learned.derate_ratio * step))
    return learned if ratio == learned.derate_ratio else replace(learned, derate_ratio=ratio, derated_at=now)


def mix_drift(profile: Profile, prompt: Quantile | Absent, output: Quantile | Absent) -> float:
    """How the token mix changes the residence time: 1.0 unless a median length has left the load test's by more than a quarter.

    It must have left its bucket, too: the engine's token buckets are wide (1-2-5), so a difference within one means nothing.
    """
    longer = _longer(profile.input_p50, prompt) + _longer(profile.output_p50, output)
    return max(MIX_FLOOR, 1 + MIX_WEIGHT * longer)


def _longer(tested: float | None, seen: Quantile | Absent) -> float:
    """By which share the median length differs, 0 where it does not or is not known."""
    if tested is None or isinstance(seen, Absent) or seen.samples < MIX_SAMPLES or seen.low <= tested <= seen.high:
        return 0.0
    longer = seen.value / tested - 1
    return longer if abs(longer) > MIX_DRIFT_RATIO else 0.0
