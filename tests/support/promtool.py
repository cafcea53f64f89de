"""Rules and expressions judged by a real promtool, which comes with Prometheus."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import prometheus

Json = dict[str, Any]
EVALUATED = "5m"
"""Coarse: a trial of hours should cost a tenth of a second. Minutes of trials are multiples of it."""


@dataclass(frozen=True)
class Trial:
    """Series a minute apart from 0 on, and what must be so at a minute: which alerts fire (None: any), and what expressions give."""

    name: str
    series: Mapping[str, str]
    minute: int
    firing: Iterable[str] | None = ()
    alerts: Sequence[Json] = ()
    expressions: Mapping[str, Sequence[Json]] = field(default_factory=dict)

    def written(self) -> Json:
        """As promtool reads it."""
        at = f"{self.minute}m"
        checks = dict(self.expressions)
        if self.firing is not None:
            firing = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(self.firing)]
            checks["count by (alertname) (ALERTS{alertstate='firing'})"] = firing
        return {
            "name": self.name,
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "promql_expr_test": [{"expr": e, "eval_time": at, "exp_samples": found} for e, found in checks.items()],
            "alert_rule_test": [{"eval_time": at, **alert} for alert in self.alerts],
        }


def promtool() -> Path:
    """The program; skips the test where there is none."""
    found = shutil.which("promtool") or prometheus.program().with_name("promtool")
    if not Path(found).exists():
        pytest.skip("there is a prometheus without its promtool")
    return Path(found)


def faults(directory: Path, rules: Json, trials: Iterable[Trial]) -> str:
    """What promtool says of the rules (a PrometheusRule's ``spec``) and the trials; empty when all is as it must be. JSON is YAML too."""
    (directory / "rules.yaml").write_text(json.dumps(rules), encoding="utf-8")
    tests = {
        "evaluation_interval": EVALUATED,
        "rule_files": ["rules.yaml"],
        "tests": [trial.written() for trial in trials],
    }
    (directory / "tests.yaml").write_text(json.dumps(tests), encoding="utf-8")
    said = ""
    for command in (("check", "rules", "rules.yaml"), ("test", "rules", "tests.yaml")):
        done = subprocess.run(
            [promtool(), *command], cwd=directory, capture_output=True, text=True, check=False, timeout=50
        )
        said += done.stdout + done.stderr if done.returncode else ""
    return said
