"""A shadow's report: what would have been beside what was, and the edit that makes it count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PER_HOUR_S, PER_MINUTE_S = 3600.0, 60.0
EDIT = """\
  to switch over, in ScaledObject {workload}, in one apply:
    - take away the annotation slo-scaler/shadow (and shadow: true in the scaler's configuration)
    - replace all triggers by this one; its metadata goes on with what the annotation, or the configuration's entry, says:
        triggers:
          - type: external
            metricType: AverageValue
            metadata:
              scalerAddress: slo-scaler.slo-scaler.svc:6000
    - let the HPA not wait a second time; the scaler has its own window:
        advanced:
          horizontalPodAutoscalerConfig:
            behavior:
              scaleUp: {{stabilizationWindowSeconds: 0, tolerance: "0"}}
              scaleDown: {{stabilizationWindowSeconds: 0, tolerance: "0"}}"""


def shadow_lines(workload: str, compared: Mapping[str, Any]) -> list[str]:
    """The report as lines for a person."""
    lines = [f"  shadow    {text}" for text in _sentences(compared)]
    return [*lines, *EDIT.format(workload=workload).splitlines()]


def _sentences(compared: Mapping[str, Any]) -> Iterator[str]:
    seen_s = compared["seen_s"]
    if seen_s <= 0:
        yield "nothing was compared yet"
        return
    real, ours = compared["real_replica_s"], compared["ours_replica_s"]
    than = "" if real <= 0 else f", {ours / real - 1:+.0%}"
    yield (
        f"in {_long(seen_s)}: {real / PER_HOUR_S:.4g} replica-hours were asked for (at most {compared['most_real']} replicas); this scaler "
        f"would have asked for {ours / PER_HOUR_S:.4g} (at most {compared['most_ours']}){than}"
    )
    more, fewer, late = (_share(compared[name], seen_s) for name in ("more_s", "fewer_s", "late_s"))
    yield f"it would have asked for more during {more}, for fewer during {fewer}"
    yield (
        f"requests waited longer than their budget during {late}; in {_long(compared['helped_s'])} of that it would have asked for more. "
        "How long they would have waited then, a shadow cannot see"
    )
    if compared["blind_s"]:
        yield f"nothing is known of {_long(compared['blind_s'])}"


def _share(part_s: float, of_s: float) -> str:
    return f"{_long(part_s)} ({part_s / of_s:.0%})"


def _long(seconds: float) -> str:
    """A time as a person says it."""
    if seconds >= PER_HOUR_S:
        return f"{seconds / PER_HOUR_S:.1f} h"
    return f"{seconds / PER_MINUTE_S:.0f} min" if seconds >= PER_MINUTE_S else f"{seconds:.0f} s"
