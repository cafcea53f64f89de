"""The dashboard of one workload: what is asked of it, what it has, what is promised and what was decided."""

from __future__ import annotations

from scaler.report import costs
from scaler.report.dashboard import Dashboard, Panel, Query, Row, Variable
from scaler.report.dashboard_fleet import WORKLOAD_UID

CHOSEN = 'namespace="$namespace", name="$name"'


def _one(metric: str) -> str:
    """What the chosen workload has, whichever pod of the scaler says so."""
    return f"max({metric}{{{CHOSEN}}})"


def _by(label: str, metric: str) -> str:
    """The same, for each value of a label."""
    return f"max by ({label}) ({metric}{{{CHOSEN}}})"


def _rate(label: str, metric: str, over: str = "sum") -> str:
    """A second; each pod counts what it was asked itself, and where all count the same thing the one that has seen most is right."""
    return f"{over} by ({label}) (rate({metric}{{{CHOSEN}}}[$__rate_interval]))"


def _state(name: str) -> str:
    return f'slo_scaler_state{{{CHOSEN}, state="{name}"}}'


TTFT_OBJECTIVE, TPOT_OBJECTIVE = _one("slo_scaler_ttft_objective_seconds"), _one("slo_scaler_tpot_objective_seconds")

_DECIDED = Row(
    "What was decided",
    (
        Panel(
            "State",
            "The worst of its classes, as the pod with the worst news sees it.",
            (
                Query(
                    f"max(0 * {_state('GREEN')} or 1 * ({_state('YELLOW')} == 1) or 2 * ({_state('RED')} == 1)"
                    f" or 3 * ({_state('UNKNOWN')} == 1))",
                    "state",
                ),
            ),
            kind="state-timeline",
            width=12,
            height=6,
            states=True,
        ),
        Panel(
            "Why that number",
            "What binds the number of replicas: a term of the law, a bound, or a hold.",
            (Query(_by("reason", "slo_scaler_reason"), "{{reason}}"),),
            kind="state-timeline",
            width=12,
            height=6,
        ),
        Panel(
            "Replicas",
            "Asked for and not made is the platform's to explain; stuck ones have outlived the usual start and are not counted on.",
            (
                Query(_one("slo_scaler_desired_replicas"), "asked for"),
                Query(_one("slo_scaler_ready_replicas"), "ready"),
                Query(_one("slo_scaler_starting_replicas"), "starting"),
                Query(_one("slo_scaler_stuck_replicas"), "stuck"),
                Query(_one("slo_scaler_missing_replicas"), "ready, not read"),
                Query(_one("slo_scaler_max_replicas"), "at most", "red"),
            ),
        ),
        Panel(
            "Admit fraction",
            "Share of each class to admit; 1 unless its gate is enforced.",
            (Query(_by("class", "slo_scaler_admit_ratio"), "{{class}}"),),
            "percentunit",
            top=1,
        ),
        Panel(
            "Verdicts of the gate",
            "Only where gateways ask for each request.",
            tuple(
                Query(_rate("class", f"slo_scaler_gate_{name}_total"), f"{{{{class}}}}: {name.replace('_', ' ')}")
                for name in ("admitted", "refused", "would_refuse")
            ),
            "reqps",
        ),
    ),
)
_PROMISED = Row(
    "What is promised",
    (
        Panel(
            "Queue wait against its budget",
            "Wait of a request that arrives now. Above 0.4 of the budget pressure begins (YELLOW); the budget itself is what RED guards.",
            (
                Query(_one("slo_scaler_queue_wait_seconds"), "queue wait"),
                Query(_one("slo_scaler_queue_time_seconds"), "queue time as measured, of requests that ended"),
                Query(f"0.4 * {TTFT_OBJECTIVE}", "0.4 of the budget", "yellow"),
                Query(TTFT_OBJECTIVE, "budget", "red"),
            ),
            "s",
        ),
        Panel(
            "Time to first token",
            "As the engines measured it. The strictest class's objective.",
            (
                Query(_one("slo_scaler_ttft_seconds"), "at the SLO's percentile (P95)"),
                Query(_one("slo_scaler_ttft_p99_seconds"), "P99"),
                Query(TTFT_OBJECTIVE, "objective", "red"),
            ),
            "s",
        ),
        Panel(
            "Time per output token",
            "As the engines measured it. The strictest class's objective.",
            (
                Query(_one("slo_scaler_tpot_seconds"), "at the SLO's percentile (P95)"),
                Query(TPOT_OBJECTIVE, "objective", "red"),
            ),
            "s",
        ),
        Panel(
            "Late first tokens",
            "Share later than the objective, in a short window and in long ones. The line is what the SLO allows.",
            (
                *(Query(f"workload:slo_scaler_first_tokens_late:ratio_{w}{{{CHOSEN}}}", w) for w in ("5m", "1h", "6h")),
                Query(f"workload:slo_scaler_late_allowed:ratio{{{CHOSEN}}}", "allowed", "red"),
            ),
            "percentunit",
        ),
        Panel(
            "Queue wait over budget, 1 h",
            "Share of the time, by class. The line is what the SLO allows.",
            (
                Query(f"workload_class:slo_scaler_over_budget:ratio_1h{{{CHOSEN}}}", "{{class}}"),
                Query(f"workload:slo_scaler_late_allowed:ratio{{{CHOSEN}}}", "allowed", "red"),
            ),
            "percentunit",
        ),
        Panel(
            "Refused",
            "Share of the offered requests.",
            tuple(Query(f"workload:slo_scaler_refused:ratio_{w}{{{CHOSEN}}}", w) for w in ("5m", "1h", "6h")),
            "percentunit",
        ),
    ),
)
_LOAD = Row(
    "Load and capacity",
    (
        Panel(
            "Requests",
            "Offered wants to enter, admitted does, drain is what the fleet can start.",
            (
                Query(_one("slo_scaler_offered_per_second"), "offered"),
                Query(_one("slo_scaler_arrival_per_second"), "admitted"),
                Query(_one("slo_scaler_refused_per_second"), "refused"),
                Query(_one("slo_scaler_throughput_per_second"), "first tokens"),
                Query(_one("slo_scaler_drain_per_second"), "drain", "yellow"),
            ),
            "reqps",
        ),
        Panel(
            "Requests in the engines",
            "The safe concurrency of all ready replicas, and what is aimed at. Queued is what waits and what runs above it.",
            (
                Query(f"{_one('slo_scaler_ongoing_requests')} - {_one('slo_scaler_waiting_requests')}", "running"),
                Query(_one("slo_scaler_waiting_requests"), "waiting"),
                Query(_one("slo_scaler_queued_requests"), "queued"),
                Query(
                    f"{_one('slo_scaler_ready_replicas')} * {_one('slo_scaler_target_requests')}", "target", "yellow"
                ),
                Query(
                    f"{_one('slo_scaler_ready_replicas')} * {_one('slo_scaler_safe_concurrency_requests')}",
                    "safe",
                    "red",
                ),
            ),
        ),
        Panel(
            "Saturation",
            "Ongoing requests over what is safe, and the share of replicas above it.",
            (
                Query(_one("slo_scaler_saturation_ratio"), "saturation"),
                Query(_one("slo_scaler_above_safe_concurrency_ratio"), "replicas above"),
                Query(_one("slo_scaler_profile_mismatch_ratio"), "distance from the load test"),
            ),
            "percentunit",
        ),
        Panel(
            "Replica-ready latency",
            "From asking for a replica to ready (P90), how long until the next one is, and the phases of recent starts (median).",
            (
                Query(_one("slo_scaler_replica_ready_seconds"), "replica ready (P90)"),
                Query(f"{_one('slo_scaler_eta_seconds')} < +Inf", "until the next one"),
                Query(_by("phase", "slo_scaler_start_phase_seconds"), "{{phase}}"),
            ),
            "s",
        ),
        Panel(
            "Age of the decision",
            "Of the newest reading behind it. It grows while the workload is blind.",
            (Query(_one("slo_scaler_decision_age_seconds"), "age"),),
            "s",
        ),
        Panel(
            "Readings that failed",
            "A second, of ready replicas.",
            (Query(f"sum(rate(slo_scaler_scrape_failures_total{{{CHOSEN}}}[$__rate_interval]))", "failed"),),
            "cps",
        ),
        Panel(
            "Findings",
            "What a person should know; slo-scaler explain has the sentence.",
            (Query(_by("code", "slo_scaler_finding"), "{{code}}"),),
            kind="state-timeline",
            width=24,
            height=6,
        ),
    ),
)
_COST = Row(
    "Cost",
    (
        Panel(
            "GPUs",
            "What replicas hold, by product and phase: not ready, ready, and terminating. Only where pods ask for GPUs.",
            (Query(_rate("gpu, phase", "slo_scaler_gpu_seconds_total", "max"), "{{gpu}} {{phase}}"),),
        ),
        Panel(
            "Tokens per GPU-second, 1 h",
            "Prompt and generated tokens over what the GPUs were held, starting and draining included.",
            (Query(f"{costs.PER_GPU_SECOND.name}{{{CHOSEN}}}", "tokens per GPU-second"),),
        ),
        Panel(
            "Share of GPU time before a replica is ready, 1 h",
            "What cold starts cost.",
            (Query(f"{costs.STARTING.name}{{{CHOSEN}}}", "starting"),),
            "percentunit",
        ),
        Panel(
            "Tokens",
            "A second, as the engines count them.",
            (Query(_rate("kind", "slo_scaler_tokens_total", "max"), "{{kind}}"),),
            "ops",
        ),
        Panel(
            "Cost of a million tokens, 1 h",
            "In the money of the configuration's prices; nothing while a GPU in use has none.",
            (Query(f"{costs.PER_MILLION.name}{{{CHOSEN}}}", "a million tokens"),),
        ),
        Panel(
            "Cost an hour",
            "Likewise, the mean of the last hour.",
            (Query(f"{costs.PER_HOUR.name}{{{CHOSEN}}}", "an hour"),),
        ),
    ),
)

WORKLOAD = Dashboard(
    WORKLOAD_UID,
    "SLO scaler: one workload",
    "What is asked of one workload, what it has, what is promised and what was decided.",
    (_DECIDED, _PROMISED, _LOAD, _COST),
    (
        Variable("namespace", "slo_scaler_desired_replicas", "namespace"),
        Variable("name", 'slo_scaler_desired_replicas{namespace="$namespace"}', "name"),
    ),
)
