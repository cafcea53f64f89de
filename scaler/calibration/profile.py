"""A calibration as a profile of the configuration file, and as the ScaledObject that uses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from scaler.calibration.choose import Calibration
from scaler.calibration.report import body, rounded

WRITTEN_BY = "# Written by slo-scaler calibrate"
DEFAULT_NAME = "calibrated"
DEFAULT_PERCENTILE = 95.0
LEAST, MOST = 1e-3, 1e7
"""What the configuration file takes for a time, a rate or a length."""
_UNFIT = re.compile(r"[^a-z0-9.]+")
_RELEASE = re.compile(r"v?[0-9]+(\.[0-9]+)?")
FACTS = ("outcome", "objectives", "binding", "notes", "setup", "files")
"""What of the whole answer a profile keeps, so that it can be judged later and found out of date."""

_SCALED_OBJECT = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: "{name}"            # usually that of the Deployment
spec:
  scaleTargetRef:
    name: "{name}"          # your Deployment
  minReplicaCount: 1
  maxReplicaCount: 20
  fallback: {{failureThreshold: 4, replicas: 2, behavior: currentReplicasIfHigher}}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:             # the scaler stabilises by itself; Kubernetes before 1.35 knows no tolerance
        scaleUp: {{stabilizationWindowSeconds: 0, tolerance: "0"}}
        scaleDown: {{stabilizationWindowSeconds: 0, tolerance: "0"}}
  triggers:
    - type: external
      metricType: AverageValue
      metadata:
        scalerAddress: slo-scaler.slo-scaler.svc:6000
{metadata}        maxReplicas: "20"
"""


def profile_name(model: str | None) -> str:
    """A name for the profile from that of the model: its last part, in lower case."""
    last = (model or "").rstrip("/").rpartition("/")[2].lower()
    return _UNFIT.sub("-", last).strip("-.") or DEFAULT_NAME


def profile_yaml(profiles: Mapping[str, Any], version: str) -> str:
    """Profiles by name as a configuration file of its own, whose section can be copied into another."""
    text = yaml.safe_dump(
        {"profiles": dict(profiles)},
        sort_keys=False,
        allow_unicode=True,
        width=200,
        default_flow_style=None,
    )
    return f"{WRITTEN_BY} {version}; run it again rather than edit this.\n{text}"


def scaled_object(found: Calibration, name: str) -> str:
    """A ScaledObject for a workload that uses the profile."""
    objectives = found.objectives
    keys = {
        "ttftSloSeconds": objectives.ttft_s,
        "tpotSloSeconds": objectives.tpot_s,
        "sloPercentile": None if objectives.percentile == DEFAULT_PERCENTILE else objectives.percentile,
    }
    lines = [f'        {key}: "{value:g}"\n' for key, value in keys.items() if value is not None]
    workload = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return _SCALED_OBJECT.format(name=workload, metadata="".join([*lines, f'        profile: "{name}"\n']))


def profile_of(found: Calibration, version: str) -> Mapping[str, Any]:
    """The entry of ``profiles`` in the configuration file. There must be a safe level."""
    told = body(found)
    mix, match = _mix(found), _match(found)
    tested = sorted(
        {run.tested_on for judged in found.levels for run in judged.level.runs if run.tested_on is not None}
    )
    entry = {"safe_concurrency": told["safe_concurrency"]}
    entry |= {key: _taken(told[key]) for key in ("safe_rate_per_s", "unloaded_ttft_s")}
    levels = [{key: value for key, value in level.items() if key != "reasons"} for level in told["levels"]]
    provenance = {key: told[key] for key in FACTS} | {"levels": levels, "tested_on": tested}
    provenance["calibrated_with"] = f"slo-scaler {version}"
    entry |= {"mix": mix, "match": match or None, "confidence": told["confidence"], "provenance": provenance}
    return {key: value for key, value in entry.items() if value is not None}


def _match(found: Calibration) -> Mapping[str, str]:
    """The replicas that the test holds for. Patch releases are alike: of the version major and minor count, the setup has it whole."""
    setup = found.sweep.setup
    release = _RELEASE.match(setup.engine_version or "")
    told = {"gpu": setup.gpu, "engine_version": None if release is None else release[0]}
    return {key: value for key, value in told.items() if value is not None}


def _mix(found: Calibration) -> Mapping[str, float] | None:
    """The median lengths at the safe level, or the means where a file has no more: of fixed lengths they are the same."""
    if found.safe is None:
        return None
    level = found.safe.level
    prompt, output = (side.p50 or side.mean for side in (level.prompts, level.outputs))
    mix = {"in_p50": _taken(rounded(prompt)), "out_p50": _taken(rounded(output))}
    return {key: value for key, value in mix.items() if value is not None} if mix["in_p50"] is not None else None


def _taken(value: float | None) -> float | None:
    """The value, if the configuration file takes it."""
    return value if value is not None and LEAST <= value <= MOST else None
