"""The cost of the last hour, recorded: GPUs and tokens as the scaler counts them, and prices where the configuration has them.

Each pod of the scaler counts all that it sees, so the one that has seen most is right, and none is added to another.
"""

from __future__ import annotations

from scaler.report.alerts_row import Record

BY = "by (namespace, name)"
PRICE = "slo_scaler_gpu_hour_price"

GPUS_NOW = Record(
    "workload:slo_scaler_gpus:mean_5m",
    "max by (namespace, name, gpu, phase) (rate(slo_scaler_gpu_seconds_total[5m]))",
)
TOKENS_NOW = Record(
    "workload:slo_scaler_tokens:rate_5m", "max by (namespace, name, kind) (rate(slo_scaler_tokens_total[5m]))"
)
GPUS = Record("workload:slo_scaler_gpus:mean_1h", f"avg_over_time({GPUS_NOW.name}[1h])")
TOKENS = Record("workload:slo_scaler_tokens:rate_1h", f"avg_over_time({TOKENS_NOW.name}[1h])")
"""Of five minutes each, so that a pod of the scaler that is replaced spoils five minutes and not an hour."""
_ALL_GPUS, _ALL_TOKENS = (f"(sum {BY} ({one.name}) > 0)" for one in (GPUS, TOKENS))
PER_GPU_SECOND = Record("workload:slo_scaler_tokens_per_gpu_second:ratio_1h", f"sum {BY} ({TOKENS.name}) / {_ALL_GPUS}")
STARTING = Record(
    "workload:slo_scaler_gpu_starting:ratio_1h", f'sum {BY} ({GPUS.name}{{phase="starting"}}) / {_ALL_GPUS}'
)
PER_HOUR = Record(
    "workload:slo_scaler_cost_per_hour:mean_1h",
    f"sum {BY} ({GPUS.name} * on (gpu) group_left () max by (gpu) ({PRICE}))\n"
    f"unless on (namespace, name) (({GPUS.name} > 0) unless on (gpu) {PRICE})",
)
"""Nothing where a GPU that was used has no price: half a bill is a wrong one."""
PER_MILLION = Record(
    "workload:slo_scaler_cost_per_million_tokens:ratio_1h", f"1e6 * {PER_HOUR.name} / 3600 / {_ALL_TOKENS}"
)

RECORDS = (GPUS_NOW, TOKENS_NOW, GPUS, TOKENS, PER_GPU_SECOND, STARTING, PER_HOUR, PER_MILLION)
