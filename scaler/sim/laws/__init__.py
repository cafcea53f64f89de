"""Laws that scale a fleet: ours, and those of others as their documents have them. One file a law, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from scaler.errors import ConfigError
from scaler.sim.laws.clairvoyant import Clairvoyant
from scaler.sim.laws.gpu import GpuUtilisation
from scaler.sim.laws.kserve import Running
from scaler.sim.laws.ours import Ours
from scaler.sim.laws.ray import RayServe
from scaler.sim.laws.slo_aware import SloAware
from scaler.sim.laws.static import Static
from scaler.sim.laws.waiting import GkeWaiting, Waiting
from scaler.sim.stage import Law

LAWS: Mapping[str, Law] = {
    "ours": Ours(),
    "static": Static(),
    "clairvoyant": Clairvoyant(),
    "kserve-running": Running(),
    "production-stack-waiting": Waiting(),
    "gke-waiting": GkeWaiting(),
    "hpa-gpu": GpuUtilisation(),
    "ray-serve": RayServe(),
    "llm-d-slo-aware": SloAware(),
}
"""By name, with the parameters that their documents give."""


NUMBERS = frozenset({"int", "float", "int | None", "float | None"})


def tuned(law: Law, values: Mapping[str, float]) -> Law:
    """The law with other numbers, by the names of its parameters or of those by which the fleet follows it (``target``).

    ConfigError names a parameter that it does not have, and those that it has.
    """
    for name, value in values.items():
        law = _set(law, name, value)
    return law


def parameters(law: Law) -> Mapping[str, float | None]:
    """The numbers that can be tuned: its own, and those by which the fleet follows it. None: found out by the law itself."""
    return {**_numbers(_follower(law)), **_numbers(law)}


def _set(law: Any, name: str, value: float) -> Any:
    if name in _numbers(law):
        whole = any(field.name == name and field.type in {"int", "int | None"} for field in fields(law))
        return replace(law, **{name: round(value) if whole else value})
    if name in _numbers(_follower(law)):
        return replace(law, follows=replace(law.follows, **{name: value}))
    raise ConfigError(f"{name}: no such parameter of this law; it has {', '.join(parameters(law)) or 'none'}")


def _follower(law: Any) -> Any:
    """How the fleet follows the law, where that is a parameter and not made of the law's own."""
    return law.follows if "follows" in {field.name for field in fields(law)} else None


def _numbers(of: Any) -> dict[str, float | None]:
    return (
        {field.name: getattr(of, field.name) for field in fields(of) if field.type in NUMBERS}
        if is_dataclass(of)
        else {}
    )
