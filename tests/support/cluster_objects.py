"""Kubernetes objects as an API server sends them, cut down to the fields that matter, for workload llama in namespace prod."""

from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

WALL = 1_790_000_000.0
"""Wall seconds at which stories begin."""


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def scaled_object(name: str = "llama", namespace: str = "prod", *triggers: Json, **spec: Any) -> Json:
    """``annotations`` and ``status`` go where they belong; the rest is of the spec."""
    metadata: Json = {"name": name, "namespace": namespace}
    if "annotations" in spec:
        metadata["annotations"] = spec.pop("annotations")
    status = spec.pop("status", {"conditions": [{"type": "Ready", "status": "True"}]})
    body = {"scaleTargetRef": {"name": name}, "minReplicaCount": 1, "maxReplicaCount": 8, **spec}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata,
        "spec": {**body, "triggers": list(triggers or [trigger()])},
        "status": status,
    }


def trigger(address: str = "slo-scaler.keda.svc:6000", kind: str = "external-push", **metadata: str) -> Json:
    return {"type": kind, "metadata": {"scalerAddress": address, "ttftSloSeconds": "2", **metadata}}


def condition(kind: str, status: str, at: float = WALL, reason: str = "", message: str = "") -> Json:
    said = {key: value for key, value in {"reason": reason, "message": message}.items() if value}
    return {"type": kind, "status": status, "lastTransitionTime": stamp(at), **said}


def vllm(name: str = "main", *args: str, **rest: Any) -> Json:
    """A container that serves, on port 8000 unless ``args`` say otherwise."""
    line = ["--served-model-name", "llama", *args]
    return {"name": name, "image": "vllm/vllm-openai:v0.32.0", "args": line, **rest}


def pod(name: str, labels: Json | None = None, *, created_at: float = WALL, **rest: Any) -> Json:
    """A pod that nobody has scheduled yet. ``metadata``, ``spec`` and ``status`` add to it."""
    metadata = {
        "name": name,
        "namespace": "prod",
        "uid": rest.pop("uid", f"uid-{name}"),
        "creationTimestamp": stamp(created_at),
        "labels": {"app": "llama"} if labels is None else labels,
        **rest.pop("metadata", {}),
    }
    spec = {"containers": [vllm()], **rest.pop("spec", {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", **rest.pop("status", {})}}


def loading(name: str, labels: Json | None = None, *, created_at: float = WALL, **rest: Any) -> Json:
    """Its container runs and loads the model: scheduled after 1 s, initialized after 11 s, running after 21 s."""
    conditions = [
        condition("PodScheduled", "True", created_at + 1),
        condition("Initialized", "True", created_at + 11),
        condition("ContainersReady", "False", created_at + 1),
        condition("Ready", "False", created_at + 1, "ContainersNotReady"),
    ]
    running = {"name": "main", "ready": False, "state": {"running": {"startedAt": stamp(created_at + 21)}}}
    status = {"phase": "Running", "podIP": "10.0.0.7", "conditions": conditions, "containerStatuses": [running]}
    status |= rest.pop("status", {})
    spec = {"nodeName": "gpu-1", **rest.pop("spec", {})}
    return pod(name, labels, created_at=created_at, spec=spec, status=status, **rest)


def serving(
    name: str, labels: Json | None = None, *, created_at: float = WALL, after_s: float = 61.0, **rest: Any
) -> Json:
    """Ready since ``after_s`` after its creation."""
    found = loading(name, labels, created_at=created_at, **rest)
    ready = [condition(kind, "True", created_at + after_s) for kind in ("ContainersReady", "Ready")]
    found["status"]["conditions"][2:] = ready
    found["status"]["containerStatuses"][0]["ready"] = True
    return found


def scale(replicas: int, selector: str = "app=llama") -> Json:
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": spec, "status": {"selector": selector}}


def deployment(name: str = "llama", replicas: int = 1, labels: Json | None = None) -> Json:
    return {"spec": {"replicas": replicas, "selector": {"matchLabels": labels or {"app": name}}}}


def hpa(name: str = "keda-hpa-llama", desired: int = 1, current: int = 1, *conditions: Json, most: int = 8) -> Json:
    told = {"desiredReplicas": desired, "currentReplicas": current, "conditions": list(conditions)}
    return {
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"minReplicas": 1, "maxReplicas": most},
        "status": told,
    }
