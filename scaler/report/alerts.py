"""The alerts, as the Prometheus operator takes them. What each one means and what to do is in ``docs/runbooks.md``.

Every pod of the scaler exports what it knows, so workloads are looked at by ``max by (namespace, name)``: one pod that is in trouble is
enough. Thresholds are numbers, not settings: whoever wants others has this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.report import alerts_burn, costs
from scaler.report.alerts_row import Alert, Record, Severity

RUNBOOKS = "https://git.example.org/slo-scaler/blob/main/docs/runbooks.md"
WORKLOAD = "{{ $labels.namespace }}/{{ $labels.name }}"
EVERY = "30s"

Json = dict[str, Any]


def _worst(metric: str) -> str:
    """The largest value that any pod has for each workload."""
    return f"max by (namespace, name) ({metric})"


DESIRED = "slo_scaler_desired_replicas"
UNKNOWN, GREEN = 'slo_scaler_state{state="UNKNOWN"}', 'slo_scaler_state{state="GREEN"}'
READY_S = "slo_scaler_replica_ready_seconds"
TRAVELLED = f"sum_over_time(abs({DESIRED} - {DESIRED} offset 1m)[1h:1m])"
ROUND_TRIP = f"2 * (max_over_time({DESIRED}[1h]) - min_over_time({DESIRED}[1h]))"

_KNOWLEDGE = (
    Alert(
        "SloScalerBlind",
        Severity.CRITICAL,
        f"{_worst('slo_scaler_decision_age_seconds')}\nand on (namespace, name) {_worst(UNKNOWN)} == 1",
        "2m",
        f"nothing is known of {WORKLOAD}",
        "The newest reading of any replica is {{ $value | humanizeDuration }} old. The number of replicas stands still and all requests "
        "are admitted.",
    ),
    Alert(
        "SloScalerUndecided",
        Severity.CRITICAL,
        f"{_worst('slo_scaler_scrape_failures_total')} unless on (namespace, name) {DESIRED}",
        "10m",
        f"{WORKLOAD} has no decision yet",
        "The workload is followed and was never read whole ({{ $value }} readings failed), so KEDA gets no answer and nothing scales.",
    ),
    Alert(
        "SloScalerReplicasUnread",
        Severity.WARNING,
        f"{_worst('slo_scaler_missing_replicas')} > 0",
        "10m",
        f"ready replicas of {WORKLOAD} cannot be read",
        "{{ $value }} ready replicas give no reading. They count as full when scaling down and as empty when scaling up.",
    ),
    Alert(
        "SloScalerDrift",
        Severity.WARNING,
        f"{_worst('slo_scaler_profile_mismatch_ratio')} > 0.1",
        "30m",
        f"the load test of {WORKLOAD} no longer fits",
        "Live latency or the mix of tokens is {{ $value | humanizePercentage }} away from the load test, and the number of replicas is "
        "corrected by that much.",
    ),
)
_SUPPLY = (
    Alert(
        "SloScalerStuck",
        Severity.WARNING,
        f"{_worst('slo_scaler_stuck_replicas')} > 0",
        "5m",
        f"replicas of {WORKLOAD} do not become ready",
        "{{ $value }} starting replicas have outlived the usual start. Nobody counts on them, and no others are asked for in their place.",
    ),
    Alert(
        "SloScalerReplicasNotMade",
        Severity.WARNING,
        f"{_worst(DESIRED)} - {_worst('slo_scaler_ready_replicas')} - {_worst('slo_scaler_starting_replicas')} > 0",
        "15m",
        f"what is asked for {WORKLOAD} is not made",
        "{{ $value }} replicas that are asked for do not exist, not even as starting ones.",
    ),
    Alert(
        "SloScalerStartsSlow",
        Severity.WARNING,
        f"{_worst(f'avg_over_time({READY_S}[1h])')} > 2 * {_worst(f'avg_over_time({READY_S}[1d] offset 1h)')}\n"
        f"and on (namespace, name) {_worst(f'avg_over_time({READY_S}[5m])')} > "
        f"2 * {_worst(f'avg_over_time({READY_S}[1d] offset 1h)')}",
        "15m",
        f"replicas of {WORKLOAD} take longer to become ready",
        "Nine of ten replicas are ready within {{ $value | humanizeDuration }}, more than twice the mean of the day before.",
    ),
    Alert(
        "SloScalerCapped",
        Severity.WARNING,
        f'{_worst("slo_scaler_max_replicas")}\nand on (namespace, name) slo_scaler_reason{{reason="max_replicas"}} == 1',
        "10m",
        f"{WORKLOAD} needs more replicas than are allowed",
        "The load asks for more than the maximum of {{ $value }} replicas; what they cannot carry waits or is refused.",
    ),
    Alert(
        "SloScalerInfeasible",
        Severity.WARNING,
        f"{_worst('slo_scaler_offered_per_second')} * on (namespace, name) group_right ()\n"
        'max by (namespace, name, code) (slo_scaler_finding{code=~"infeasible_.+"})',
        "2m",
        f"no autoscaler can keep what {WORKLOAD} promises",
        "{{ $labels.code }}, at {{ $value | humanize }} requests/s. The finding of that name in /v1/explain says what would help.",
    ),
    Alert(
        "SloScalerReplicasFlap",
        Severity.WARNING,
        f"{_worst(f'{TRAVELLED} / ({ROUND_TRIP} > 0)')} >= 3",
        "5m",
        f"the number of replicas of {WORKLOAD} goes up and down",
        "It went up and down {{ $value | humanize }} times in the last hour; each time replicas are started for minutes of use.",
    ),
    Alert(
        "SloScalerStateFlaps",
        Severity.WARNING,
        f"{_worst(f'changes({GREEN}[1h])')} >= 12",
        "5m",
        f"the state of {WORKLOAD} flaps",
        "It became or ceased to be GREEN {{ $value }} times in the last hour.",
    ),
    Alert(
        "SloScalerOverruled",
        Severity.WARNING,
        'count by (namespace, name, code) (slo_scaler_finding{code=~"gate_annotated|floor_over"})',
        "1h",
        f"the glass of {WORKLOAD} is still broken",
        "{{ $labels.code }}, told by {{ $value }} pods for an hour: an annotation that somebody set in an emergency is still there.",
    ),
)
_PROCESS = (
    Alert(
        "SloScalerDown",
        Severity.CRITICAL,
        "absent(slo_scaler_leading == 1)",
        "2m",
        "no scaler answers KEDA",
        "{{ $value }}: no pod that Prometheus reads says that it is the one that KEDA is led to. Without one, replicas stay as they are.",
    ),
    Alert(
        "SloScalerCrashes",
        Severity.WARNING,
        "sum(increase(slo_scaler_crashes_total[15m])) > 0",
        "0m",
        "ticks of the scaler crash",
        "{{ $value | humanize }} ticks raised something unexpected in the last 15 minutes. The log holds the traceback; it is a bug.",
    ),
    Alert(
        "SloScalerConfigurationRefused",
        Severity.WARNING,
        "count(slo_scaler_configuration_valid == 0) > 0",
        "5m",
        "the newest configuration is not in use",
        "{{ $value }} pods refused the newest configuration file and go on with the one before.",
    ),
    Alert(
        "SloScalerCertificateExpiresSoon",
        Severity.WARNING,
        "min by (file) (slo_scaler_certificate_expiry_timestamp_seconds) - time() < 14 * 86400",
        "1h",
        "the certificate {{ $labels.file }} is not renewed",
        "It expires in {{ $value | humanizeDuration }}. KEDA and gateways then get no answer.",
    ),
    Alert(
        "SloScalerCertificateExpires",
        Severity.CRITICAL,
        "min by (file) (slo_scaler_certificate_expiry_timestamp_seconds) - time() < 2 * 86400",
        "5m",
        "the certificate {{ $labels.file }} is about to expire",
        "It expires in {{ $value | humanizeDuration }}. KEDA and gateways then get no answer.",
    ),
    Alert(
        "SloScalerCertificateNotRead",
        Severity.WARNING,
        "sum(slo_scaler_certificate_reload_failing) > 0",
        "10m",
        "the renewed certificate cannot be used",
        "{{ $value }} pods serve an older certificate because the files as they are now cannot be used.",
    ),
)
ALERTS = (*alerts_burn.alerts(), *_KNOWLEDGE, *_SUPPLY, *_PROCESS)


def prometheus_rule(runbooks: str = RUNBOOKS) -> Json:
    """The object. ``runbooks`` is the address of the page that has a heading for each alert."""
    burning = alerts_burn.alerts()
    records, of_cost = (_records(each) for each in (alerts_burn.records(), costs.RECORDS))
    groups: list[Json] = [
        {"name": "slo-scaler.burn", "interval": EVERY, "rules": [*records, *(_rule(one, runbooks) for one in burning)]},
        *(
            {"name": f"slo-scaler.{name}", "interval": EVERY, "rules": [_rule(one, runbooks) for one in alerts]}
            for name, alerts in (("knowledge", _KNOWLEDGE), ("supply", _SUPPLY), ("process", _PROCESS))
        ),
        {"name": "slo-scaler.cost", "interval": EVERY, "rules": of_cost},
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "slo-scaler",
            "namespace": "slo-scaler",
            "labels": {"app.kubernetes.io/name": "slo-scaler"},
        },
        "spec": {"groups": groups},
    }


def _records(records: Iterable[Record]) -> list[Json]:
    return [{"record": one.name, "expr": one.expr} for one in records]


def _rule(alert: Alert, runbooks: str) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.holds,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{runbooks}#{alert.name.lower()}",
        },
    }
