"""Burn rates: how fast a promise is being broken, over a long window to be sure and a short one to end with the trouble.

After chapter 5 of Google's SRE workbook, with two differences. The budget of a latency percentile is large (5 % for P95), so 14.4 times of
it, over an hour, would be reached only after 43 minutes of nothing but late tokens; 6 times is reached after 18. And ten requests are the
least that a share is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler.report.alerts_row import Alert, Record, Severity


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that may go wrong for a share of requests, or of the time.

    ``share`` is the share that went wrong in a window ``{w}``, ``limit`` that which may, ``{times}``; both in PromQL. An alert is worth
    it above ``page`` and ``ticket`` times that. ``subject`` follows the number in a sentence.
    """

    name: str
    record: str
    share: str
    limit: str
    page: float
    ticket: float
    summary: str
    subject: str

    def recorded(self, window: str) -> str:
        """The name under which the share of one window is recorded."""
        return f"{self.record}:ratio_{window}"


@dataclass(frozen=True, slots=True)
class Burn:
    """A long and a short window in PromQL, and the long one in words."""

    suffix: str
    severity: Severity
    long: str
    short: str
    words: str


WINDOWS = ("5m", "30m", "1h", "6h")
BURNS = (
    Burn("BurnFast", Severity.CRITICAL, "1h", "5m", "hour"),
    Burn("BurnSlow", Severity.WARNING, "6h", "30m", "6 hours"),
)
ALLOWED = Record("workload:slo_scaler_late_allowed:ratio", "1 - max by (namespace, name) (slo_scaler_slo_ratio)")
LATE_LIMIT = f"on (namespace, name) group_left () clamp_max({{times}} * {ALLOWED.name}, 0.9)"
"""A percentile as low as P80 would else ask for more than everything to be late."""
REFUSED_LIMIT = "{times} * 0.01"
OVER_BUDGET = Record(
    "workload_class:slo_scaler_over_budget:bool",
    "max by (namespace, name, class) (slo_scaler_remaining_budget_seconds <= bool 0)",
)
PROMISES = (
    Promise(
        "Ttft",
        "workload:slo_scaler_first_tokens_late",
        "max by (namespace, name) (increase(slo_scaler_first_tokens_late_total[{w}])"
        " / (increase(slo_scaler_first_tokens_total[{w}]) >= 10))",
        LATE_LIMIT,
        6,
        3,
        "first tokens of {{ $labels.namespace }}/{{ $labels.name }} come too late",
        "of the first tokens came later than the TTFT objective",
    ),
    Promise(
        "QueueWait",
        "workload_class:slo_scaler_over_budget",
        "avg_over_time(workload_class:slo_scaler_over_budget:bool[{w}])",
        LATE_LIMIT,
        6,
        3,
        "class {{ $labels.class }} of {{ $labels.namespace }}/{{ $labels.name }} waits too long in the queue",
        "of the time the queue wait was over the TTFT budget of class {{ $labels.class }}",
    ),
    Promise(
        "Refusal",
        "workload:slo_scaler_refused",
        "max by (namespace, name) (avg_over_time(slo_scaler_refused_per_second[{w}])"
        " / (avg_over_time(slo_scaler_offered_per_second[{w}]) > 0))",
        REFUSED_LIMIT,
        14.4,
        6,
        "{{ $labels.namespace }}/{{ $labels.name }} refuses requests",
        "of the offered requests were refused",
    ),
)


def records() -> tuple[Record, ...]:
    """The shares of all windows, in the order in which they build upon each other."""
    shares = tuple(Record(p.recorded(w), p.share.replace("{w}", w)) for p in PROMISES for w in WINDOWS)
    return (ALLOWED, OVER_BUDGET, *shares)


def alerts() -> tuple[Alert, ...]:
    """A fast and a slow one for each promise."""
    return tuple(_alert(promise, burn) for promise in PROMISES for burn in BURNS)


def _alert(promise: Promise, burn: Burn) -> Alert:
    times = promise.page if burn.severity is Severity.CRITICAL else promise.ticket
    limit = promise.limit.replace("{times}", f"{times:g}")
    return Alert(
        name=f"SloScaler{promise.name}{burn.suffix}",
        severity=burn.severity,
        expr=f"{promise.recorded(burn.long)} > {limit}\nand {promise.recorded(burn.short)} > {limit}",
        holds="2m",
        summary=promise.summary,
        description=f"{{{{ $value | humanizePercentage }}}} {promise.subject} in the last {burn.words}, more than {times:g} times what is "
        f"allowed, and it goes on in the last {burn.short.rstrip('m')} minutes.",
    )
