"""Kubernetes and KEDA themselves: which they are, and whether they act."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.sources import found, scaled_of, serving_of, words
from scaler.checks.verdicts import Outcome, check, failed, passed, told, warned


@check(
    "T16",
    remedy="kubectl describe the HPA and the ScaledObject; kubectl -n keda logs deploy/keda-operator says what KEDA cannot do",
    docs="docs/keda.md",
)
def hpa_acts(facts: Facts) -> Outcome:
    """KEDA's HPA acts."""
    if facts.live is not None and (seen := found(facts.live, "hpa_inactive", "hpa_unable", "hpa_limited")):
        return failed(words(seen))
    troubles = told(facts.hpa_troubles, "only a cluster shows the HPA: look with --cluster")
    return failed("; ".join(troubles)) if troubles else passed("it exists and reports no trouble")


@check(
    "T17",
    remedy="remove the annotation",
    docs="docs/keda.md",
)
def not_held(facts: Facts) -> Outcome:
    """KEDA is not held."""
    held = scaled_of(facts).held
    return warned(", ".join(held), len(held)) if held else passed("no annotation that pauses or forces")


@check(
    "T52",
    remedy="write maxReplicaCount: the GPUs that there are",
    docs="docs/keda.md",
)
def maximum_written(facts: Facts) -> Outcome:
    """The maximum is written."""
    scaled = scaled_of(facts)
    if scaled.max_replicas is None:
        return warned(f"maxReplicaCount is not written: KEDA takes {scaled.highest}", scaled.highest)
    return passed(f"{scaled.highest}", scaled.highest)


TOLERANCE_KUBERNETES, TOLERANCE_KEDA, OLDEST_KEDA = (1, 35), (2, 18), (2, 17)
OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 31), (1, 37)


@check(
    "T53",
    remedy="KEDA 2.18 or later (2.20 for TLS), Kubernetes 1.35 or later for tolerance",
    docs="docs/keda.md",
)
def versions_fit(facts: Facts) -> Outcome:
    """The versions of KEDA and Kubernetes carry out what is written."""
    kubernetes = told(facts.versions.kubernetes, "only a cluster tells its versions: look with --cluster")
    if not OLDEST_KUBERNETES <= kubernetes <= NEWEST_KUBERNETES:
        return warned(f"Kubernetes {_text(kubernetes)}: 1.31 to 1.37 are supported")
    keda, tolerant = facts.versions.keda, any(one.tolerance is not None for one in scaled_of(facts).directions)
    if tolerant and kubernetes < TOLERANCE_KUBERNETES:
        return warned(
            f"Kubernetes {_text(kubernetes)} ignores tolerance unless the gate HPAConfigurableTolerance is on (1.33)"
        )
    if keda is not None and keda < OLDEST_KEDA:
        return failed(f"KEDA {_text(keda)} reads whole numbers only, and acts on a pushed false")
    if tolerant and keda is not None and keda < TOLERANCE_KEDA:
        return failed(f"KEDA {_text(keda)} drops tolerance")
    told(keda, f"Kubernetes {_text(kubernetes)}; which KEDA, the cluster does not tell us")
    return passed(f"Kubernetes {_text(kubernetes)}, KEDA {_text(keda or ())}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


OLDEST_VLLM, NEWEST_VLLM = (0, 8), (0, 33)


@check(
    "T54",
    remedy="run an engine whose metrics are known here, or compare its /metrics with docs/law.md before the launch",
    docs="docs/law.md",
)
def engine_known(facts: Facts) -> Outcome:
    """The engine's version is one whose metrics are known."""
    serving = serving_of(facts)
    written = told(serving.engine_version or None, "the image's tag names no version of vLLM")
    major, minor, *_ = (int(part) for part in written.split("."))
    if not OLDEST_VLLM <= (major, minor) <= NEWEST_VLLM:
        return warned(f"engine {written}; vLLM {_text(OLDEST_VLLM)} to {_text(NEWEST_VLLM)} were tested")
    return passed(f"engine {written}")
