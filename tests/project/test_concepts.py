"""docs/concepts.md: the numbers of its example are those of the law."""

from dataclasses import replace
from pathlib import Path

from scaler.core.admission import SET_POINT_RATIO, towards
from scaler.core.decision import LawInputs
from scaler.core.pressure import projected_rise_s
from scaler.core.target import DRAIN_DEADLINE_S, recommend
from tests.support import decisions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts.md"
BUDGET_S, REACTION_S = 2.0, 4.0
INPUTS = LawInputs(
    offered_per_s=30.0,
    arrival_per_s=30.0,
    drain_per_s=16.0,
    queue=40.0,
    ongoing=240.0,
    running=200.0,
    eta_s=90.0,
    growth_ratio=1.0,
    residence_s=12.5,
    safe_rate_per_s=8.0,
    target=90.0,
    drain_deadline_s=DRAIN_DEADLINE_S,
    deadline_s=None,
    missing=0,
    current=2,
    warm_replicas=0,
    min_replicas=1,
    max_replicas=20,
)


def example() -> str:
    said, terms = recommend(INPUTS), recommend(INPUTS).terms
    estimate = replace(
        decisions.red().estimate,
        offered_per_s=INPUTS.offered_per_s,
        drain_per_s=INPUTS.drain_per_s,
        eta_s=INPUTS.eta_s,
    )
    wait = INPUTS.queue / INPUTS.drain_per_s
    set_point = SET_POINT_RATIO * BUDGET_S * INPUTS.drain_per_s
    want = towards(set_point, INPUTS.queue, INPUTS.drain_per_s, REACTION_S)
    return f"""```
flow     = 30 × 12.5 ÷ 90 = {terms.flow:.2f}
backlog  = (40 + (30 − 16) × 90) ÷ (8 × 120) = {terms.backlog_at_ready_requests:.0f} ÷ 960 = {terms.backlog:.2f}
desired  = ceil({terms.flow:.2f} + {terms.backlog:.2f}) = {said.replicas}, because of the {said.reason}
wait     = 40 ÷ 16 = {wait:.1f} s, above 0.4 × 2 s
RED      : {wait:.1f} + (30 − 16) ÷ 16 × 90 = {wait + projected_rise_s(estimate):.0f} s ≥ 2 s
admit    = (16 + ({set_point:.1f} − 40) ÷ 4) ÷ 30 = {want:.1f} ÷ 30 = {want / INPUTS.offered_per_s:.2f}
```
"""


def test_the_example_has_the_numbers_of_the_law():
    assert example() in PAGE.read_text(encoding="utf-8"), f"put this into docs/concepts.md:\n{example()}"
