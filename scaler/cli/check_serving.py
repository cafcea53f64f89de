"""The object that a workload scales, and what its pods will be: engine, limits, probes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from scaler.checks import Probe, Serving
from scaler.cluster.api import Json
from scaler.cluster.arguments import command_line, engine_facts
from scaler.cluster.fields import count, mapping, objects, strings, text
from scaler.cluster.pods import pod_of, serving_container

DEFAULT_GRACE_S = 30.0
DEFAULT_SURGE = "25%"
LEADER_WORKER_SET, INFERENCE, LLM = "LeaderWorkerSet", "InferenceService", "LLMInferenceService"
TEMPLATES = {
    "Deployment": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
    LEADER_WORKER_SET: (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Where each kind keeps the template of the pods that serve; the first that is written counts."""
_LIMIT = re.compile(r"--max[-_](?:num[-_]queued[-_]reqs|queued[-_]requests)[=\s\"']+(\d{1,9})(?![\w.-])")
_MUTE = re.compile(r"(?<![^\s\"'=])--disable[-_]log[-_]stats(?![\w-])")


def serving_in(
    items: Iterable[Json], namespace: str, target: tuple[str, str], *, cluster: bool
) -> tuple[Serving | None, Json | None]:
    """What is scaled, and the template of its pods; None twice where it is not among the objects."""
    for item in items:
        if (text(item, "metadata", "namespace") or "default") != namespace:
            continue
        kind, name = text(item, "kind"), text(item, "metadata", "name")
        if (kind, name) == target and kind in TEMPLATES:
            template = next((found for path in TEMPLATES[kind] if (found := mapping(item, *path))), {})
            told = _serving(template, f"{kind} {name}", whole=True)
            counted = None if cluster else count(item, "spec", "replicas") is not None
            return replace(told, counted=counted, surge=_surge(kind, mapping(item, "spec"))), template
        if ((kind, name) == target and kind == LLM) or (
            kind == INFERENCE and target == ("Deployment", f"{name}-predictor")
        ):
            template = {"spec": _kserve_pod(kind, item)}
            told = _serving(template, f"{kind} {name}", whole=False)
            return replace(told, counted=count(item, "spec", "replicas") is not None), template
    return None, None


def labels_of(template: Json | None) -> Mapping[str, str] | None:
    """The labels that the pods get, None where that is not written."""
    return (strings(template, "metadata", "labels") or None) if template else None


def resolved(metadata: Mapping[str, str], template: Json | None) -> Mapping[str, str] | None:
    """Trigger metadata with ``...FromEnv`` as KEDA resolves it, from the container's literals; None where one is not written there."""
    env = {text(one, "name"): text(one, "value") for one in objects(serving_container(template or {}), "env")}
    found = {key: env.get(value, "") if key.endswith("FromEnv") else value for key, value in metadata.items()}
    return found if all(found.values()) else None


def _kserve_pod(kind: str, item: Json) -> Json:
    """The part of the pod that a person writes."""
    if kind == LLM:
        return mapping(item, "spec", "template")
    predictor = mapping(item, "spec", "predictor")
    container = {"name": "kserve-container", **mapping(predictor, "model")}
    return {**predictor, "containers": objects(predictor, "containers") or [container]}


def _surge(kind: str, spec: Json) -> str | None:
    if kind == "Deployment" and text(spec, "strategy", "type") != "Recreate":
        return str(mapping(spec, "strategy", "rollingUpdate").get("maxSurge", DEFAULT_SURGE))
    if kind == LEADER_WORKER_SET:
        return str(mapping(spec, "rolloutStrategy", "rollingUpdateConfiguration").get("maxSurge", 0))
    return None


def _serving(template: Json, name: str, *, whole: bool) -> Serving:
    container = serving_container(template)
    line, grace = command_line(container), count(template, "spec", "terminationGracePeriodSeconds")
    limit = _LIMIT.findall(line)
    return Serving(
        name=name,
        whole=whole,
        readiness=_probe(container, "readinessProbe"),
        liveness=_probe(container, "livenessProbe"),
        startup=_probe(container, "startupProbe"),
        grace_s=float(grace) if grace is not None else DEFAULT_GRACE_S if whole else None,
        cap=engine_facts(container, strings(template, "metadata", "annotations")).cap,
        queue_limit=int(limit[-1]) if limit else None,
        mute=_MUTE.search(line) is not None,
        engine_version=pod_of(template).engine_version,
    )


def _probe(container: Json, name: str) -> Probe | None:
    probe = mapping(container, name)
    if not probe:
        return None
    delay, period, failures = (
        default if (written := count(probe, key)) is None else written
        for key, default in (("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3))
    )
    patience_s = float(delay + period * failures)
    http = mapping(probe, "httpGet")
    if http:
        return Probe("http", text(http, "path") or "/", patience_s)
    kind = next((kind for kind, key in (("tcp", "tcpSocket"), ("grpc", "grpc")) if key in probe), "exec")
    return Probe(kind, patience_s=patience_s)
