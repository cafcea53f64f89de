"""The dashboard over all workloads, and over the scaler itself."""

from __future__ import annotations

from scaler.report import costs
from scaler.report.dashboard import STATES, Dashboard, Panel, Query, Row, Table

WORKLOAD_UID = "slo-scaler-workload"


def _each(metric: str) -> str:
    """What a workload has, whichever pod of the scaler says so."""
    return f"max by (namespace, name) ({metric})"


def _all(metric: str) -> str:
    """The sum over all workloads, each counted once."""
    return f"sum({_each(metric)})"


STATE = (
    'max by (namespace, name) (0 * slo_scaler_state{state="GREEN"} or 1 * (slo_scaler_state{state="YELLOW"} == 1)'
    ' or 2 * (slo_scaler_state{state="RED"} == 1) or 3 * (slo_scaler_state{state="UNKNOWN"} == 1))'
)
NAME = "{{namespace}}/{{name}}"

_FLEET = Row(
    "Fleet",
    (
        Panel(
            "Workloads by state",
            "One of which two pods of the scaler think differently is counted in both states.",
            tuple(Query(_all(f'slo_scaler_state{{state="{state}"}}'), state) for state, _ in STATES),
        ),
        Panel(
            "Replicas",
            "Of all workloads together. Asked for and not made, or made and stuck, is supply that is waited for.",
            (
                Query(_all("slo_scaler_desired_replicas"), "asked for"),
                Query(_all("slo_scaler_ready_replicas"), "ready"),
                Query(_all("slo_scaler_starting_replicas"), "starting"),
                Query(_all("slo_scaler_stuck_replicas"), "stuck", "red"),
            ),
        ),
        Panel(
            "Requests",
            "Of all workloads together. Offered is what wants to enter, refusals included.",
            (
                Query(_all("slo_scaler_offered_per_second"), "offered"),
                Query(_all("slo_scaler_arrival_per_second"), "admitted"),
                Query(_all("slo_scaler_refused_per_second"), "refused", "red"),
            ),
            "reqps",
        ),
        Table(
            "Workloads",
            "The name leads to all about the workload.",
            (
                ("state", STATE, "state"),
                ("asked for", _each("slo_scaler_desired_replicas"), "short"),
                ("ready", _each("slo_scaler_ready_replicas"), "short"),
                ("starting", _each("slo_scaler_starting_replicas"), "short"),
                ("stuck", _each("slo_scaler_stuck_replicas"), "short"),
                ("offered", _each("slo_scaler_offered_per_second"), "reqps"),
                ("refused", _each("slo_scaler_refused_per_second"), "reqps"),
                ("queue wait", _each("slo_scaler_queue_wait_seconds"), "s"),
                ("TTFT", _each("slo_scaler_ttft_seconds"), "s"),
                ("TTFT objective", _each("slo_scaler_ttft_objective_seconds"), "s"),
                ("late, 1 h", _each("workload:slo_scaler_first_tokens_late:ratio_1h"), "percentunit"),
                ("saturation", _each("slo_scaler_saturation_ratio"), "percentunit"),
                ("age", _each("slo_scaler_decision_age_seconds"), "s"),
            ),
            WORKLOAD_UID,
        ),
    ),
)
_PROMISES = Row(
    "Promises",
    (
        Panel(
            "Late first tokens, 1 h",
            "Share of first tokens later than the TTFT objective. P95 allows 5 %.",
            (Query("workload:slo_scaler_first_tokens_late:ratio_1h", NAME),),
            "percentunit",
        ),
        Panel(
            "Queue wait over budget, 1 h",
            "Share of the time in which a request that arrives would have waited longer than its class's TTFT objective.",
            (Query("workload_class:slo_scaler_over_budget:ratio_1h", NAME + " {{class}}"),),
            "percentunit",
        ),
        Panel(
            "Refused, 1 h",
            "Share of the offered requests that was refused. An alert comes above 14.4 %, a ticket above 6 % of 6 hours.",
            (Query("workload:slo_scaler_refused:ratio_1h", NAME),),
            "percentunit",
        ),
        Panel(
            "Findings",
            "What a person should know; /v1/explain of the workload has the sentence.",
            (Query("count by (code) (max by (namespace, name, code) (slo_scaler_finding))", "{{code}}"),),
            width=12,
        ),
        Panel(
            "Replica-ready latency (P90)",
            "From asking for a replica to ready.",
            (Query(_each("slo_scaler_replica_ready_seconds"), NAME),),
            "s",
            width=12,
        ),
    ),
)
_COST = Row(
    "Cost",
    (
        Panel(
            "Cost of a million tokens, 1 h",
            "Prompt and generated tokens, in the money of the configuration's prices.",
            (Query(costs.PER_MILLION.name, NAME),),
        ),
        Panel(
            "Cost an hour, 1 h",
            "What the workload's GPUs cost, starting and draining included.",
            (Query(costs.PER_HOUR.name, NAME),),
        ),
        Panel(
            "Tokens per GPU-second, 1 h",
            "Needs no price.",
            (Query(costs.PER_GPU_SECOND.name, NAME),),
        ),
    ),
)
_SCALER = Row(
    "The scaler itself",
    (
        Panel(
            "Duration of ticks",
            "All workloads of a pod together.",
            tuple(
                Query(
                    f"histogram_quantile({q}, sum by (le) (rate(slo_scaler_tick_duration_seconds_bucket[$__rate_interval])))",
                    f"P{q * 100:g}",
                )
                for q in (0.5, 0.99)
            ),
            "s",
        ),
        Panel(
            "gRPC latency (P95)",
            "By method. StreamIsActive lasts as long as KEDA keeps it open.",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, grpc_method) (rate(grpc_server_handling_seconds_bucket"
                    '{grpc_method!="StreamIsActive"}[$__rate_interval])))',
                    "{{grpc_method}}",
                ),
            ),
            "s",
        ),
        Panel(
            "gRPC calls",
            "By method and code. UNAVAILABLE is the right answer while a workload is blind.",
            (
                Query(
                    "sum by (grpc_method, grpc_code) (rate(grpc_server_handled_total[$__rate_interval]))",
                    "{{grpc_method}} {{grpc_code}}",
                ),
            ),
            "reqps",
        ),
        Panel(
            "Readings that failed",
            "A second, of ready replicas.",
            (
                Query(
                    "sum by (namespace, name) (rate(slo_scaler_scrape_failures_total[$__rate_interval])) > 0 or vector(0)",
                    NAME,
                ),
            ),
            "cps",
        ),
        Panel(
            "Faults",
            "Crashed ticks, failed handlers, lost log lines and state that could not be kept, each in the last 5 minutes.",
            tuple(
                Query(f"sum(increase(slo_scaler_{name}_total[5m])) or vector(0)", legend)
                for name, legend in (
                    ("crashes", "crashed ticks"),
                    ("handler_failures", "failed handlers"),
                    ("log_lines_lost", "lost log lines"),
                    ("store_outages", "state not kept"),
                )
            ),
        ),
        Panel(
            "Pods",
            "One pod leads. A configuration that is refused leaves the one before in use.",
            (
                Query("count(slo_scaler_leading)", "pods"),
                Query("sum(slo_scaler_leading)", "leading"),
                Query("count(slo_scaler_configuration_valid == 0) or vector(0)", "configuration refused", "red"),
            ),
        ),
        Panel(
            "Certificates expire in",
            "Only with TLS.",
            (Query("min by (file) (slo_scaler_certificate_expiry_timestamp_seconds) - time()", "{{file}}"),),
            "s",
            kind="stat",
            height=5,
            width=12,
        ),
        Panel(
            "Refused TLS handshakes",
            "A second, by kind.",
            (Query("sum by (kind) (rate(slo_scaler_tls_refused_total[$__rate_interval]))", "{{kind}}"),),
            "cps",
            height=5,
            width=12,
        ),
    ),
)

FLEET = Dashboard(
    "slo-scaler-fleet",
    "SLO scaler: fleet",
    "All workloads, how their promises are kept, and the scaler itself.",
    (_FLEET, _PROMISES, _COST, _SCALER),
)
