"""Two runs of the same traffic, with the gate and without it, in figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from scaler.demo.scenario import TPOT_BUDGET_S, TTFT_BUDGET_S
from scaler.demo.summary import Record, Sample, attains, problems, quantile, score
from scaler.demo.traffic import Ending, Outcome

P50, P99 = 0.5, 0.99
LONGEST_WAIT_S = 3600.0
NOTHING = "Nothing can be said about the gate: not both runs were whole and worked."


@dataclass(frozen=True, slots=True)
class Side:
    """How one fleet fared. ``in_objective``: requests served with TTFT and TPOT in their objectives, which is the goodput.

    TTFT counts from the attempt that was admitted; how long those who were refused and then served had been away before it is
    ``away_p50_s``. ``refused`` were so at their first attempt. ``gpu_s``: each replica, ready or starting, for as long as traffic lasts.
    """

    offered: int
    in_objective: int
    in_objective_ratio: float | None
    in_objective_per_s: float
    in_objective_at_once: int
    refused: int
    came_back: int
    away_p50_s: float | None
    gave_up: int
    failed: int
    unfinished: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    longest_wait_s: float
    ready_max: int
    gpu_s: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """What is printed. ``problems`` is empty when both loops worked, whichever side did better, which ``says`` tells."""

    ok: bool
    problems: tuple[str, ...]
    seed: int
    seconds: float
    cut_at_s: float | None
    objectives: dict[str, float]
    with_gate: Side
    without_gate: Side
    says: str

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object; every key is the name of its field."""
        return asdict(self)


def contrast(gated: Record, ungated: Record) -> Contrast:
    """The two runs side by side."""
    with_gate, without_gate, scenario = side(gated), side(ungated), gated.scenario
    found = tuple(_named("with the gate", gated)) + tuple(_named("without it", ungated))
    return Contrast(
        ok=not found,
        problems=found,
        seed=scenario.seed,
        seconds=scenario.seconds,
        cut_at_s=gated.cut_at_s if ungated.cut_at_s is None else ungated.cut_at_s,
        objectives={"ttft_s": TTFT_BUDGET_S, "tpot_s": TPOT_BUDGET_S},
        with_gate=with_gate,
        without_gate=without_gate,
        says=NOTHING if found else says(with_gate, without_gate),
    )


def side(record: Record) -> Side:
    """One run in figures."""
    outcomes, lasted_s = record.outcomes, record.cut_at_s or record.scenario.seconds
    found = score(outcomes, cut=record.cut_at_s is not None)
    good = [outcome for outcome in outcomes if attains(outcome)]
    served = [outcome for outcome in outcomes if outcome.ending is Ending.COMPLETED]
    back = [outcome for outcome in served if outcome.tried]
    return Side(
        offered=found.requests,
        in_objective=len(good),
        in_objective_ratio=found.attained_ratio,
        in_objective_per_s=round(len(good) / lasted_s, 2),
        in_objective_at_once=sum(not outcome.tried for outcome in good),
        refused=record.gateway.refused_first,
        came_back=len(back),
        away_p50_s=quantile([outcome.away_s for outcome in back], P50),
        gave_up=found.refused,
        failed=found.failed,
        unfinished=found.unfinished,
        ttft_p50_s=_ttft_s(served, P50),
        ttft_p99_s=_ttft_s(served, P99),
        longest_wait_s=round(min(LONGEST_WAIT_S, max(s.queue_wait_s for s in record.samples)), 2),
        ready_max=max(sample.ready for sample in record.samples),
        gpu_s=round(gpu_s(record.samples, lasted_s)),
    )


def gpu_s(samples: Sequence[Sample], lasted_s: float) -> float:
    """How long replicas existed, in seconds of one GPU each, from the start of traffic until it ended."""
    return sum(
        (before.ready + before.starting) * max(0.0, min(after.at_s, lasted_s) - max(before.at_s, 0.0))
        for before, after in pairwise(samples)
    )


def says(with_gate: Side, without_gate: Side) -> str:
    """What the figures say about the gate, also where that is nothing good."""
    gained = with_gate.in_objective - without_gate.in_objective
    how = "won" if gained > 0 else "lost" if gained < 0 else "made no difference"
    if not with_gate.refused:
        how = "refused nobody, so that any difference is chance"
    return (
        f"The gate {how}: {_share(with_gate.in_objective, with_gate)} of all requests in objective with it "
        f"({_share(with_gate.in_objective_at_once, with_gate)} without those who came back), "
        f"{_share(without_gate.in_objective, without_gate)} without it{_price(with_gate)}."
    )


def _price(with_gate: Side) -> str:
    if not with_gate.refused:
        return ""
    came = f"{with_gate.came_back} were served when they came back"
    after = "" if with_gate.away_p50_s is None else f", half of them after {with_gate.away_p50_s:.0f} s or more"
    return f"; it refused {with_gate.refused} at first, of whom {came}{after}, and {with_gate.gave_up} gave up"


def _share(count: int, of: Side) -> str:
    return f"{100 * count / of.offered:.0f} %" if of.offered else "0 %"


def _ttft_s(served: Iterable[Outcome], q: float) -> float | None:
    return quantile([outcome.ttft_s for outcome in served if outcome.ttft_s is not None], q)


def _named(name: str, record: Record) -> Iterator[str]:
    return (f"{name}: {problem}" for problem in problems(record))
