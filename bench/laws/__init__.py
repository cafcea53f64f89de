"""More laws of others, beside those that ``scaler.sim.laws`` ships: one file a law, and one line here.

They have the protocol of ``scaler.sim.stage.Law``, their documented parameters as defaults, and can be tuned as ours (``laws.tuned``).
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.laws.aibrix import Apa
from bench.laws.dynamo import LoadPlanner
from bench.laws.knative import Kpa
from bench.laws.token_aware import TokenAware
from bench.laws.wva import Saturation
from scaler.sim.laws import LAWS
from scaler.sim.stage import Law

RIVALS: Mapping[str, Law] = {
    **{name: law for name, law in LAWS.items() if name not in {"ours", "static", "clairvoyant"}},
    "knative-kpa": Kpa(),
    "aibrix-apa": Apa(),
    "wva-saturation": Saturation(),
    "dynamo-load": LoadPlanner(),
    "llm-d-token-aware": TokenAware(),
}
"""All rivals, by name."""
