"""What is scaled: the engine's own limits, its probes, and how its pods come and go."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from scaler.checks.facts import Facts, Probe
from scaler.checks.hpa import TOLERANCE
from scaler.checks.sources import found, ready_s, scaled_of, serving_of, signal, spec_of, words
from scaler.checks.verdicts import Basis, Outcome, Untold, check, failed, passed, told, warned

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec

SERVES = frozenset({"/health", "/v1/models", "/health_generate", "/ready", "/readyz", "/v2/health/ready", "/healthz"})
"""Paths that engines and KServe's runtimes answer only when the model is loaded."""
LONG_FACTOR = 3.0
"""The P99 of a request is taken for so many times the mean at the safe point: answers' lengths are about exponential or wider."""
_SURGE = re.compile(r"\d+%?")
MANAGED = "KServe adds the rest of the pod: look at the pods themselves, with --cluster"


@check(
    "T31",
    remedy="start the engine with the limits of the load test (--max-num-seqs), or test with those it has",
    docs="docs/calibration.md",
)
def below_cap(facts: Facts) -> Outcome:
    """The safe concurrency is not above the engine's own cap."""
    if facts.live is not None and (above := found(facts.live, "safe_concurrency_above_cap")):
        return failed(words(above))
    spec, cap = spec_of(facts), serving_of(facts).cap
    cap = told(cap, "the engine's arguments do not say how many requests it runs at once (--max-num-seqs)")
    safe = spec.profile.safe_concurrency
    if safe > cap:
        return failed(f"safe concurrency {safe:g}, and the engine runs {cap} at once: the rest waits inside it", cap)
    return passed(f"safe concurrency {safe:g} of {cap}", cap)


@check(
    "T32",
    remedy="raise --max-num-queued-reqs above the safe concurrency and a budget's worth of queue, or leave it out",
    docs="docs/gateways.md",
)
def queue_limit_above_target(facts: Facts) -> Outcome:
    """The engine's queue limit is not below the target."""
    serving, spec = serving_of(facts), spec_of(facts)
    limit, target = serving.queue_limit, _target(spec)
    if limit is None:
        return passed("the engine's arguments set none") if serving.whole else _unseen("its queue limit")
    if limit < target:
        return failed(
            f"the engine refuses from {limit} requests on, and the target is {target:g}: a replica never fills", limit
        )
    rate, budget = spec.profile.safe_rate_per_s, spec.budget_s
    wanted = target + (rate or 0.0) * (budget or 0.0)
    if limit < wanted:
        return warned(
            f"the engine refuses from {limit} requests on; target and a budget's worth of queue are {wanted:g}", limit
        )
    return passed(f"{limit} requests, target {target:g}", limit)


def _target(spec: WorkloadSpec) -> float:
    return spec.profile.safe_concurrency * (1 - spec.headroom_ratio)


def _unseen(what: str) -> Outcome:
    raise Untold(f"{what} is not written here; {MANAGED}")


@check(
    "T33",
    remedy="readinessProbe: httpGet /health on the engine's port, which vLLM answers once the model is loaded",
    docs="docs/cluster.md",
    basis=Basis.INFERRED,
)
def ready_means_serving(facts: Facts) -> Outcome:
    """Ready means serving."""
    serving = serving_of(facts)
    probe = serving.readiness
    if probe is None:
        if not serving.whole:
            return _unseen("the readiness probe")
        return failed(
            "no readinessProbe: a replica counts as ready, and gets requests, while it loads the model",
            basis=Basis.VERIFIED,
        )
    if probe.kind == "tcp":
        return warned("readinessProbe tcpSocket: an open port is no loaded model")
    if probe.kind != "http" or probe.path not in SERVES:
        raise Untold(
            f"readinessProbe {probe.kind} {probe.path}: whether that passes only with the model loaded, nobody told".replace(
                "  ", " "
            )
        )
    return passed(f"httpGet {probe.path}")


@check(
    "T34",
    remedy="a startupProbe whose periodSeconds × failureThreshold is well above the time to load the model",
    docs="docs/cluster.md",
    basis=Basis.INFERRED,
)
def loading_survives(facts: Facts) -> Outcome:
    """No probe ends a replica that is still loading."""
    serving, (took_s, by, _) = serving_of(facts), ready_s(facts)
    probe = serving.startup or serving.liveness
    if probe is None:
        return passed("neither a startup nor a liveness probe") if serving.whole else _unseen("the startup probe")
    name = "startupProbe" if serving.startup else "livenessProbe without a startupProbe"
    evidence = f"{name} ends the container after {probe.patience_s:g} s, loading takes {took_s:g} s ({by})"
    return _enough(probe, took_s, evidence)


def _enough(probe: Probe, took_s: float, evidence: str) -> Outcome:
    return failed(evidence, probe.patience_s) if probe.patience_s < took_s else passed(evidence, probe.patience_s)


@check(
    "T35",
    remedy="terminationGracePeriodSeconds above the P99 duration of a request, and a preStop hook that waits for the endpoint to go",
    docs="docs/cluster.md",
    basis=Basis.INFERRED,
)
def grace_suffices(facts: Facts) -> Outcome:
    """A stopping replica has time to end what it serves."""
    serving = serving_of(facts)
    grace_s = told(serving.grace_s, f"terminationGracePeriodSeconds is not written here; {MANAGED}")
    long_s, why, basis = _longest(facts)
    evidence = f"terminationGracePeriodSeconds {grace_s:g}, a long request takes {long_s:.3g} s ({why})"
    return (warned if grace_s < long_s else passed)(evidence, grace_s, basis=basis)


def _longest(facts: Facts) -> tuple[float, str, Basis]:
    """How long a long request takes (seconds), who says so, and what that is worth."""
    measured = None if facts.live is None else signal(facts.live, "duration_p99_s")
    if measured:
        return measured, "the P99 of the last minute", Basis.VERIFIED
    spec = spec_of(facts)
    promised = max((one.e2e_s for one in spec.classes if one.e2e_s is not None), default=None)
    if promised is not None:
        return promised, "e2e_s of its classes", Basis.INFERRED
    rate = told(
        spec.profile.safe_rate_per_s,
        "how long requests take is not known: neither e2e_s nor a profile with its rate is given",
    )
    took_s = LONG_FACTOR * spec.profile.safe_concurrency / rate
    return took_s, f"{LONG_FACTOR:g} times the load test's mean", Basis.INFERRED


@check(
    "T36",
    remedy='maxSurge 0 (GPU nodes seldom have room for it), or behavior.scaleDown.tolerance: "0"',
    docs="docs/keda.md",
    basis=Basis.INFERRED,
)
def no_ratchet(facts: Facts) -> Outcome:
    """Rolling updates do not ratchet the fleet up."""
    serving, scaled = serving_of(facts), scaled_of(facts)
    if serving.surge is None:
        return passed("no surge") if serving.whole else _unseen("the update strategy")
    if _SURGE.fullmatch(serving.surge) is None:
        raise Untold(f"maxSurge {serving.surge} is neither a number nor a percentage")
    down = scaled.directions[1].tolerance
    tolerance = TOLERANCE if down is None else down
    at = next((n for n in range(1, scaled.highest) if _held(n, _surge(serving.surge, n), tolerance)), None)
    if at is None:
        return passed(
            f"maxSurge {serving.surge}, tolerance {tolerance:g}: a surge is outside the tolerance, so the number stands"
        )
    return warned(
        f"maxSurge {serving.surge} and tolerance {tolerance:g}: from {at} replicas on the HPA takes the surge for the count",
        at,
    )


def _surge(written: str, replicas: int) -> int:
    if written.endswith("%"):
        return math.ceil(replicas * float(written.removesuffix("%")) / 100)
    return int(written)


def _held(replicas: int, surge: int, tolerance: float) -> bool:
    return surge > 0 and tolerance > 0 and replicas / (replicas + surge) >= 1 - tolerance


@check(
    "T37",
    remedy="a PodDisruptionBudget with maxUnavailable 1 whose selector is the pods'",
    docs="docs/cluster.md",
)
def disruption_bounded(facts: Facts) -> Outcome:
    """A PodDisruptionBudget keeps drains from taking the fleet, and lets them go on."""
    budgets = told(
        facts.disruptions,
        "PodDisruptionBudgets were not looked for: name the files of target and budget, or look with --cluster",
    )
    if not budgets:
        return warned("none selects the pods: draining nodes may take all replicas at once", 0)
    blocking = [one.name for one in budgets if one.blocks]
    if blocking:
        return warned(f"{', '.join(blocking)} lets no pod go: a node with a replica can never be drained")
    if len(budgets) > 1:
        return failed(
            f"{', '.join(one.name for one in budgets)} select the same pods: evictions are then refused", len(budgets)
        )
    return passed(budgets[0].name)


@check(
    "T38",
    remedy="delete replicas from the manifest: every apply would set the fleet back to it",
    docs="docs/migrate.md",
)
def count_unwritten(facts: Facts) -> Outcome:
    """The manifest of the target writes no replica count."""
    serving = serving_of(facts)
    counted = told(serving.counted, "only its manifest shows that: name its file")
    return warned(f"{serving.name} writes replicas") if counted else passed("none")
