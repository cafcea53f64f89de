"""Every alert fires in a real promtool when it should, says what it should, and none fires otherwise."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from scaler.report.alerts import ALERTS, RUNBOOKS, prometheus_rule
from tests.support.exported import healthy, unknown_metrics
from tests.support.promtool import Trial, faults

SPEC = prometheus_rule()["spec"]
ROWS = {alert.name: alert for alert in ALERTS}
W = 'namespace="prod",name="llama"'
OURS = {"namespace": "prod", "name": "llama"}
CHAT = {**OURS, "class": "chat"}
FILE = {"file": "server"}
DAY_S = 86400
RUNNING = {
    "slo_scaler_leading": "1+0x120",
    "slo_scaler_configuration_valid": "1+0x120",
    f"slo_scaler_slo_ratio{{{W}}}": "0.95+0x120",
}
LATE, TOTAL = f"slo_scaler_first_tokens_late_total{{{W}}}", f"slo_scaler_first_tokens_total{{{W}}}"
LEFT = f'slo_scaler_remaining_budget_seconds{{{W},class="chat"}}'
REFUSED, OFFERED = f"slo_scaler_refused_per_second{{{W}}}", f"slo_scaler_offered_per_second{{{W}}}"
DESIRED, READY_S = f"slo_scaler_desired_replicas{{{W}}}", f"slo_scaler_replica_ready_seconds{{{W}}}"
GREEN, UNKNOWN = (f'slo_scaler_state{{{W},state="{state}"}}' for state in ("GREEN", "UNKNOWN"))
EXPIRY = 'slo_scaler_certificate_expiry_timestamp_seconds{file="server"}'
TTFT, QUEUE, REFUSAL = (
    {f"SloScaler{name}Burn{how}" for how in ("Fast", "Slow")} for name in ("Ttft", "QueueWait", "Refusal")
)


def each(minutes: int, *values: float) -> str:
    """The values in turn, each for so many minutes, for two hours."""
    turns = chain.from_iterable(repeat(value, minutes) for value in values * (120 // (minutes * len(values)) + 1))
    return " ".join(f"{value:g}" for value in turns)


def alert(name: str, labels: dict[str, str], description: str) -> dict:
    """What promtool must be told by an alert: its summary is the row's with these labels."""
    row, summary = ROWS[name], ROWS[name].summary
    for label, value in labels.items():
        summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
    return {
        "alertname": name,
        "exp_alerts": [
            {
                "exp_labels": {"severity": row.severity.value, **labels},
                "exp_annotations": {
                    "summary": summary,
                    "description": description,
                    "runbook_url": f"{RUNBOOKS}#{name.lower()}",
                },
            }
        ],
    }


def fires(name: str, labels: dict[str, str], says: str, series: dict[str, str], minute: int, *more: str) -> Trial:
    """The alert fires with that text, and beside it nothing but ``more``."""
    return Trial(name, RUNNING | series, minute, {name, *more}, [alert(name, labels, says)])


BURNING = [
    fires(
        "SloScalerTtftBurnFast",
        OURS,
        "40% of the first tokens came later than the TTFT objective in the last hour, more than 6 times what is allowed, and it goes on "
        "in the last 5 minutes.",
        {TOTAL: "0+600x120", LATE: "0+240x120"},
        110,
        *TTFT,
    ),
    fires(
        "SloScalerTtftBurnSlow",
        OURS,
        "20% of the first tokens came later than the TTFT objective in the last 6 hours, more than 3 times what is allowed, and it goes "
        "on in the last 30 minutes.",
        {TOTAL: "0+600x120", LATE: "0+120x120"},
        110,
    ),
    fires(
        "SloScalerQueueWaitBurnFast",
        CHAT,
        "100% of the time the queue wait was over the TTFT budget of class chat in the last hour, more than 6 times what is allowed, and "
        "it goes on in the last 5 minutes.",
        {LEFT: "0+0x120"},
        110,
        *QUEUE,
    ),
    fires(
        "SloScalerQueueWaitBurnSlow",
        CHAT,
        "25% of the time the queue wait was over the TTFT budget of class chat in the last 6 hours, more than 3 times what is allowed, "
        "and it goes on in the last 30 minutes.",
        {LEFT: each(10, 0, 1.5, 1.5, 1.5, 1.5)},
        115,
    ),
    fires(
        "SloScalerRefusalBurnFast",
        OURS,
        "20% of the offered requests were refused in the last hour, more than 14.4 times what is allowed, and it goes on in the last 5 "
        "minutes.",
        {REFUSED: "2+0x120", OFFERED: "10+0x120"},
        110,
        *REFUSAL,
    ),
    fires(
        "SloScalerRefusalBurnSlow",
        OURS,
        "8% of the offered requests were refused in the last 6 hours, more than 6 times what is allowed, and it goes on in the last 30 "
        "minutes.",
        {REFUSED: "0.8+0x120", OFFERED: "10+0x120"},
        110,
    ),
]
CONDITIONS = [
    fires(
        "SloScalerBlind",
        OURS,
        "The newest reading of any replica is 10m 0s old. The number of replicas stands still and all requests are admitted.",
        {f"slo_scaler_decision_age_seconds{{{W}}}": "0+60x20", UNKNOWN: "1+0x20", DESIRED: "3+0x20"},
        10,
    ),
    fires(
        "SloScalerUndecided",
        OURS,
        "The workload is followed and was never read whole (60 readings failed), so KEDA gets no answer and nothing scales.",
        {f"slo_scaler_scrape_failures_total{{{W}}}": "0+4x20"},
        15,
    ),
    fires(
        "SloScalerReplicasUnread",
        OURS,
        "2 ready replicas give no reading. They count as full when scaling down and as empty when scaling up.",
        {f"slo_scaler_missing_replicas{{{W}}}": "2+0x20"},
        15,
    ),
    fires(
        "SloScalerDrift",
        OURS,
        "Live latency or the mix of tokens is 30% away from the load test, and the number of replicas is corrected by that much.",
        {f"slo_scaler_profile_mismatch_ratio{{{W}}}": "0.3+0x60"},
        45,
    ),
    fires(
        "SloScalerStuck",
        OURS,
        "1 starting replicas have outlived the usual start. Nobody counts on them, and no others are asked for in their place.",
        {f"slo_scaler_stuck_replicas{{{W}}}": "1+0x20"},
        10,
    ),
    fires(
        "SloScalerReplicasNotMade",
        OURS,
        "2 replicas that are asked for do not exist, not even as starting ones.",
        {
            DESIRED: "5+0x30",
            f"slo_scaler_ready_replicas{{{W}}}": "2+0x30",
            f"slo_scaler_starting_replicas{{{W}}}": "1+0x30",
        },
        20,
    ),
    fires(
        "SloScalerStartsSlow",
        OURS,
        "Nine of ten replicas are ready within 5m 0s, more than twice the mean of the day before.",
        {READY_S: "120+0x59 300+0x90"},
        120,
    ),
    fires(
        "SloScalerCapped",
        OURS,
        "The load asks for more than the maximum of 8 replicas; what they cannot carry waits or is refused.",
        {
            f"slo_scaler_max_replicas{{{W}}}": "8+0x20",
            f'slo_scaler_reason{{{W},reason="max_replicas"}}': "1+0x20",
        },
        15,
    ),
    fires(
        "SloScalerInfeasible",
        {**OURS, "code": "infeasible_burst"},
        "infeasible_burst, at 42 requests/s. The finding of that name in /v1/explain says what would help.",
        {OFFERED: "42+0x20", REFUSED: "0+0x20", f'slo_scaler_finding{{{W},code="infeasible_burst"}}': "1+0x20"},
        10,
    ),
    fires(
        "SloScalerReplicasFlap",
        OURS,
        "It went up and down 3 times in the last hour; each time replicas are started for minutes of use.",
        {DESIRED: each(10, 3, 4)},
        115,
    ),
    fires(
        "SloScalerStateFlaps",
        OURS,
        "It became or ceased to be GREEN 30 times in the last hour.",
        {GREEN: each(2, 1, 0)},
        110,
    ),
    fires(
        "SloScalerOverruled",
        {**OURS, "code": "gate_annotated"},
        "gate_annotated, told by 1 pods for an hour: an annotation that somebody set in an emergency is still there.",
        {f'slo_scaler_finding{{{W},code="gate_annotated"}}': "1+0x80"},
        70,
    ),
    Trial(
        "SloScalerDown",
        RUNNING | {"slo_scaler_leading": "0+0x20"},
        10,
        {"SloScalerDown"},
        [
            alert(
                "SloScalerDown",
                {},
                "1: no pod that Prometheus reads says that it is the one that KEDA is led to. Without one, replicas stay as they are.",
            )
        ],
    ),
    fires(
        "SloScalerCrashes",
        {},
        "3 ticks raised something unexpected in the last 15 minutes. The log holds the traceback; it is a bug.",
        {"slo_scaler_crashes_total": "0+0x29 3+0x30"},
        35,
    ),
    fires(
        "SloScalerConfigurationRefused",
        {},
        "1 pods refused the newest configuration file and go on with the one before.",
        {"slo_scaler_configuration_valid": "0+0x20"},
        10,
    ),
    fires(
        "SloScalerCertificateExpiresSoon",
        FILE,
        "It expires in 9d 22h 0m 0s. KEDA and gateways then get no answer.",
        {EXPIRY: f"{10 * DAY_S}+0x150"},
        120,
    ),
    fires(
        "SloScalerCertificateExpires",
        FILE,
        "It expires in 23h 0m 0s. KEDA and gateways then get no answer.",
        {EXPIRY: f"{DAY_S}+0x150"},
        60,
        "SloScalerCertificateExpiresSoon",
    ),
    fires(
        "SloScalerCertificateNotRead",
        {},
        "1 pods serve an older certificate because the files as they are now cannot be used.",
        {"slo_scaler_certificate_reload_failing": "1+0x20"},
        15,
    ),
]
QUIET = [
    Trial("a healthy scaler", RUNNING | healthy(minutes=90), 90, expressions={"ALERTS": []}),
    Trial("late tokens that are over", RUNNING | {TOTAL: "0+600x90", LATE: "0+600x40 24000+0x50"}, 85),
    Trial("a share of six requests", RUNNING | {TOTAL: "0+0.2x120", LATE: "0+0.2x120"}, 110),
    Trial("as much late as P95 allows", RUNNING | {TOTAL: "0+600x120", LATE: "0+30x120"}, 110),
    Trial(
        "half late where P50 is promised",
        RUNNING | {f"slo_scaler_slo_ratio{{{W}}}": "0.5+0x120", TOTAL: "0+600x120", LATE: "0+300x120"},
        110,
    ),
    Trial("a morning's rise and an evening's fall", RUNNING | {DESIRED: each(4, *range(1, 9), *range(7, 0, -1))}, 65),
    Trial("one bad reading", RUNNING | {f"slo_scaler_missing_replicas{{{W}}}": "0+0x9 1 0+0x20"}, 25),
    Trial("a start that was always slow", RUNNING | {READY_S: "900+0x120"}, 115),
    Trial("at the maximum, and enough", RUNNING | {f'slo_scaler_reason{{{W},reason="flow"}}': "1+0x60"}, 50),
]


@pytest.mark.parametrize(
    "trials",
    [pytest.param(BURNING, id="burning"), pytest.param(CONDITIONS, id="conditions"), pytest.param(QUIET, id="quiet")],
)
def test_what_should_fire_fires_with_its_text_and_nothing_else_does(tmp_path, trials):
    assert faults(tmp_path, SPEC, trials) == ""


def test_a_wrong_expectation_is_a_fault(tmp_path):
    assert "SloScalerStuck" in faults(tmp_path, SPEC, [Trial("never", RUNNING, 10, {"SloScalerStuck"})])


def test_every_alert_has_its_trial():
    assert sorted(trial.name for trial in BURNING + CONDITIONS) == sorted(ROWS)


def test_every_metric_of_a_rule_is_exported_or_recorded():
    rules = [rule for group in SPEC["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert unknown_metrics([rule["expr"] for rule in rules], recorded) == []
