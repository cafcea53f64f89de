"""The trigger: what KEDA asks, and how."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.sources import scaled_of, spec_of
from scaler.checks.verdicts import Outcome, check, failed, passed, warned
from scaler.core.pressure import RedRule

AVERAGE = "AverageValue"
SECRET_KEYS = ("caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile")
LONGEST_POLL_S = 60.0
ELSEWHERE = ("minReplicas", "maxReplicas", *SECRET_KEYS)
"""Keys whose warnings other checks speak of."""


@check(
    "T01",
    remedy="correct each key named; docs/reference.md lists what there is",
    docs="docs/slo-scaler.yaml",
)
def trigger_understood(facts: Facts) -> Outcome:
    """The scaler understands the trigger."""
    if facts.scaled is not None and (unquoted := facts.scaled.ours.unquoted):
        return failed(f"{', '.join(unquoted)}: not in quotes, and Kubernetes takes strings only", len(unquoted))
    if facts.faults:
        return failed("; ".join(facts.faults), len(facts.faults))
    spec = spec_of(facts)
    return passed(
        f"class{'es' if len(spec.classes) > 1 else ''} {', '.join(one.name for one in spec.classes)}, engine {spec.engine}"
    )


@check(
    "T02",
    remedy="take it out, or set it as the sentence says",
    docs="docs/slo-scaler.yaml",
)
def no_idle_keys(facts: Facts) -> Outcome:
    """No key of the trigger is without effect, or daring."""
    spec = spec_of(facts)
    told = [one for one in spec.warnings if one.partition(":")[0].removesuffix("FromEnv") not in ELSEWHERE]
    if spec.pressure.red_rule is RedRule.BUDGET:
        told.append(
            "redRule: budget is for comparison: with starts of minutes it is RED whenever something waits; leave it out"
        )
    return warned("; ".join(told), len(told)) if told else passed("none")


@check(
    "T03",
    remedy="metricType: AverageValue, or leave it out",
    docs="docs/keda.md",
)
def metric_type(facts: Facts) -> Outcome:
    """metricType is AverageValue."""
    written = scaled_of(facts).ours.metric_type
    if written in {"", AVERAGE}:
        return passed(written or f"{AVERAGE}, which is KEDA's default")
    return failed(f"{written}: the HPA multiplies it by the ready pods, so a cold start pulls the fleet to its minimum")


@check(
    "T04",
    remedy="keep this scaler's trigger alone: the HPA takes the largest proposal, and all must be idle for zero",
    docs="docs/keda.md",
)
def one_trigger(facts: Facts) -> Outcome:
    """One trigger decides."""
    scaled = scaled_of(facts)
    address = scaled.ours.metadata.get("scalerAddress")
    if any(one.metadata.get("scalerAddress") == address for one in scaled.others if address):
        return failed("two triggers ask the same scaler for one workload, which refuses both", len(scaled.others) + 1)
    if scaled.others:
        kinds = ", ".join(one.kind for one in scaled.others)
        return warned(f"beside it: {kinds}", len(scaled.others) + 1)
    return passed("one", 1)


@check(
    "T05",
    remedy="useCachedMetrics: false and pollingInterval of 5 to 30 s: the scaler answers from memory, nothing is saved",
    docs="docs/keda.md",
)
def not_cached(facts: Facts) -> Outcome:
    """The HPA is given the newest number."""
    scaled = scaled_of(facts)
    if scaled.ours.cached:
        return warned(f"useCachedMetrics: the HPA sees numbers up to {scaled.polling_s:g} s old", scaled.polling_s)
    if scaled.polling_s > LONGEST_POLL_S:
        return warned(f"pollingInterval {scaled.polling_s:g} s: so late does KEDA notice activity", scaled.polling_s)
    return passed(f"polled every {scaled.polling_s:g} s, asked at each sync of the HPA", scaled.polling_s)


@check(
    "T06",
    remedy="certificates in a TriggerAuthentication that authenticationRef names, enableTLS where only the server has one",
    docs="manifests/README.md",
)
def tls_agreed(facts: Facts) -> Outcome:
    """KEDA and the scaler agree on TLS."""
    ours = scaled_of(facts).ours
    misplaced = sorted(key for key in ours.metadata if key.removesuffix("FromEnv") in SECRET_KEYS)
    if misplaced:
        return failed(
            f"{', '.join(misplaced)} in the trigger's metadata: KEDA ignores them there, and connects in plain text"
        )
    secure = _true(ours.metadata.get("enableTLS")) or ours.authenticated
    if _true(ours.metadata.get("unsafeSsl")):
        note = "KEDA does not check who answers" if secure else "alone it means plain text"
        return warned(f"unsafeSsl: {note}")
    if facts.server_tls is None or secure == facts.server_tls:
        known = "" if facts.server_tls is not None else "; whether the scaler's port agrees is in its configuration"
        return passed(f"{'TLS' if secure else 'plain text, within the cluster'}{known}")
    if facts.server_tls:
        return failed("the scaler's configuration has server.tls, and the trigger connects in plain text")
    return failed("the trigger connects with TLS, and the scaler's configuration has no server.tls")


def _true(written: str | None) -> bool:
    return (written or "").lower() in {"true", "1", "t"}
