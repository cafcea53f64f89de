"""The answer of a calibration in words, and as a JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.calibration.advice import NextTest, again, next_test, notes
from scaler.calibration.choose import Calibration, Confidence, Outcome
from scaler.calibration.judge import Check, Judged, Trouble, Verdict
from scaler.core.capacity import DEFAULT_HEADROOM_RATIO
from scaler.core.evidence import CONFIDENCE
from scaler.core.plain import plain

NAMES = {"ttft": "time to first token", "tpot": "time per output token"}
CONFIDENT = {
    Confidence.HIGH: "a level at most twice as high fails, or the engine holds no more",
    Confidence.MEDIUM: "safe, but a somewhat higher concurrency may be as well",
    Confidence.LOW: "safe, but nothing failed, so that the limit may be far above",
}


def rounded(value: float | None) -> float | None:
    """Four digits, more than any load test can tell; whole numbers as such."""
    if value is None:
        return None
    return _whole(float(f"{value:.4g}"))


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


def sentences(found: Calibration) -> Iterator[str]:
    """The answer for a person, the most important first."""
    yield _answer(found)
    if found.safe is not None:
        for check in found.safe.checks:
            yield f"  {_measured(found, check)}"
        if found.ceiling is not None:
            yield f"  no more is worth testing: {found.ceiling.text}"
        if found.stopper is not None and found.binding is not None:
            shown = "fails" if found.stopper.verdict is Verdict.FAILS else "is not shown to pass"
            yield f"  {found.stopper.level.load} {shown}: {_why(found, found.binding)}"
        yield f"  confidence {found.confidence.value}: {CONFIDENT[found.confidence]}"
    if (step := next_test(found)) is not None:
        yield f"test next: {_how(found, step)}"
    for note in notes(found):
        yield f"note: {note}"


def _how(found: Calibration, step: NextTest) -> str:
    """In the load tester's own options."""
    return f"{found.sweep.options.tool} {found.sweep.options.level(step.load, step.requests)}"


def _answer(found: Calibration) -> str:
    concurrency = found.safe_concurrency
    if found.safe is not None and concurrency is not None:
        head = "at least" if found.outcome is Outcome.AT_LEAST else "safe concurrency"
        target = rounded(concurrency * (1 - DEFAULT_HEADROOM_RATIO))
        rate = rounded(found.safe.level.rate_per_s)
        return f"{head} {concurrency:g}: {rate:g} requests/s a replica; the scaler aims at {target:g} (headroom {DEFAULT_HEADROOM_RATIO:g})"
    if found.outcome is Outcome.INFEASIBLE and found.stopper is not None and found.binding is not None:
        return (
            f"infeasible: the lowest tested level, {found.stopper.level.load}, fails: {_why(found, found.binding)}. More replicas do not "
            "help; a lower level, shorter prompts, a faster replica or another objective may"
        )
    if found.outcome is Outcome.NOT_ENOUGH:
        return "not enough samples: no level is shown to be safe; repeat those that lack requests"
    if found.sweep.warm is not None:
        return f"not usable: {found.sweep.warm.text}"
    return "not usable: no level can be judged, for the reasons beside them"


def _measured(found: Calibration, check: Check) -> str:
    bound = "" if check.bound_s is None else f", at most {check.bound_s:.3g} s ({CONFIDENCE:.0%} confidence)"
    name, limit = NAMES[check.name], f"objective {check.limit_s:g} s"
    return f"P{found.objectives.percentile:g} {name} {check.estimate_s or 0:.3g} s{bound}; {limit}"


def _why(found: Calibration, binding: Trouble | Check) -> str:
    return binding.text if isinstance(binding, Trouble) else _measured(found, binding)


def line(judged: Judged) -> str:
    """A level in one line, in which a latency's bound stands in brackets."""
    latencies = ", ".join(f"{check.name.upper()} {numbers(check)} s" for check in judged.checks)
    return f"{judged.level.load}: {latencies}, {judged.level.rate_per_s:.3g} requests/s; {judged.verdict.value}"


def numbers(check: Check) -> str:
    """A latency as measured, and its 95 % bound."""
    return f"{measured(check)} (≤ ?)" if check.bound_s is None else f"{measured(check)} (≤ {check.bound_s:.3g})"


def measured(check: Check) -> str:
    """A latency as measured."""
    return "?" if check.estimate_s is None else f"{check.estimate_s:.3g}"


def reasons(found: Calibration, judged: Judged) -> tuple[str, ...]:
    """Why a level does not pass, and what to do; empty when it does."""
    if judged.troubles:
        return tuple(trouble.text for trouble in judged.troubles)
    if judged.defects:
        return tuple(defect.text for defect in judged.defects)
    broken = tuple(_measured(found, check) for check in judged.checks if not check.passes)
    if judged.verdict is not Verdict.NOT_SHOWN:
        return broken
    level, options = judged.level, judged.level.options
    more = f"{options.tool} {options.level(level.load, again(judged, found.objectives.share).requests)}"
    sharper = f", or add {options.samples} for a sharper bound" if options.samples and level.runs[0].from_empty else ""
    return (*broken, f"more requests would tell: {more}{sharper}")


def hints(found: Calibration) -> Iterator[str]:
    """What the table of the levels does not show: why one fails in spite of its latencies, and what would make one usable."""
    for judged in found.levels:
        if judged.troubles or judged.verdict is not Verdict.FAILS:
            yield from (f"{judged.level.load}: {why}" for why in reasons(found, judged))


def body(found: Calibration) -> Mapping[str, Any]:
    """Everything, for ``json.dumps``. Seconds, requests a second, tokens; null is unknown."""
    concurrency, binding, step = found.safe_concurrency, found.binding, next_test(found)
    return {
        "outcome": found.outcome.value,
        "answer": _answer(found),
        "safe_concurrency": None if concurrency is None else _whole(concurrency),
        "safe_rate_per_s": None if found.safe is None else rounded(found.safe.level.rate_per_s),
        "unloaded_ttft_s": rounded(found.unloaded_ttft_s),
        "confidence": found.confidence.value,
        "objectives": {**_known(plain(found.objectives)), "confidence": CONFIDENCE},
        "binding": None if binding is None else {"name": binding.name, "text": _why(found, binding)},
        "next": None if step is None else {"load": str(step.load), "requests": step.requests, "how": _how(found, step)},
        "levels": [_level(found, judged) for judged in found.levels],
        "notes": list(notes(found)),
        "setup": _known(plain(found.sweep.setup)),
        "files": [{"file": result.file, "sha256": result.sha256} for result in found.sweep.files],
    }


def _level(found: Calibration, judged: Judged) -> Mapping[str, Any]:
    level = judged.level
    latencies = {
        f"{check.name}_{key}": rounded(value)
        for check in judged.checks
        for key, value in (("s", check.estimate_s), ("bound_s", check.bound_s))
    }
    return {
        "load": str(level.load),
        "concurrency": rounded(level.concurrency),
        "in_flight": rounded(level.little),
        "requests": level.completed,
        "failed": level.failed,
        "rate_per_s": rounded(level.rate_per_s),
        **latencies,
        "verdict": judged.verdict.value,
        "reasons": list(reasons(found, judged)),
    }


def _known(told: Any) -> dict[str, Any]:
    return {key: value for key, value in told.items() if value is not None}
