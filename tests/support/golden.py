"""The golden example of the law: 8 replicas, of which backlog asks for the most."""

from scaler.core.decision import LawInputs, ShapeInputs

GOLDEN = LawInputs(
    offered_per_s=30.0,
    arrival_per_s=30.0,
    drain_per_s=16.0,
    queue=40.0,
    ongoing=140.0,
    running=100.0,
    eta_s=90.0,
    growth_ratio=1.0,
    residence_s=12.5,
    safe_rate_per_s=8.0,
    target=80.0,
    drain_deadline_s=60.0,
    deadline_s=None,
    missing=0,
    current=2,
    warm_replicas=0,
    min_replicas=1,
    max_replicas=100,
)
UNTOUCHED = ShapeInputs(
    recommended=8,
    published=2,
    current=2,
    min_replicas=1,
    max_replicas=100,
    start_floor=2,
    window_max=8,
    window_min=8,
    idle=False,
    red=False,
    pressed=False,
    blind=False,
)
