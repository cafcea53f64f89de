"""Judges of single objects: Kubernetes' schemas for its own kinds, our list of keys for the others, the real CRDs where they are."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from kubernetes_validate import SchemaNotFoundError, ValidationError, validate

from tests.manifests.rendering import Json
from tests.support.shared_data import shared_data

OLDEST, NEWEST = "1.31", "1.37"
"""The Kubernetes versions that the project supports."""

CRDS = {
    "ScaledObject": "keda.sh_scaledobjects.v2.20.2",
    "ClusterTriggerAuthentication": "keda.sh_clustertriggerauthentications.v2.20.2",
    "InferenceService": "serving.kserve.io_inferenceservices",
    "LLMInferenceService": "serving.kserve.io_llminferenceservices",
}

ANNOTATIONS = {
    "autoscaling.keda.sh/paused",
    "autoscaling.keda.sh/paused-scale-in",
    "scaledobject.keda.sh/transfer-hpa-ownership",
    "serving.kserve.io/autoscalerClass",
    "serving.kserve.io/deploymentMode",
    "grafana_folder",
}
"""Annotations that somebody acts upon: a misspelt one would do nothing, silently."""

FREE = ("labels", "matchLabels", "limits", "triggers[].metadata")
"""Maps whose keys are the user's."""

_BEHAVIOR = [
    f"behavior.{way}.{key}"
    for way in ("scaleUp", "scaleDown")
    for key in (
        "stabilizationWindowSeconds",
        "tolerance",
        "policies[].type",
        "policies[].value",
        "policies[].periodSeconds",
    )
]
_KEDA = [
    *("pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount"),
    *("fallback.failureThreshold", "fallback.replicas", "fallback.behavior"),
    *(f"advanced.horizontalPodAutoscalerConfig.{key}" for key in ("name", *_BEHAVIOR)),
    *("triggers[].type", "triggers[].name", "triggers[].metricType", "triggers[].metadata"),
    *("triggers[].authenticationRef.name", "triggers[].authenticationRef.kind"),
]
_SELECTOR = ["matchLabels"]
KEYS: dict[tuple[str, str], set[str]] = {
    ("keda.sh/v1alpha1", "ScaledObject"): {
        *(
            "scaleTargetRef.apiVersion",
            "scaleTargetRef.kind",
            "scaleTargetRef.name",
            "minReplicaCount",
            "maxReplicaCount",
        ),
        *_KEDA,
    },
    ("keda.sh/v1alpha1", "ClusterTriggerAuthentication"): {
        f"secretTargetRef[].{key}" for key in ("parameter", "name", "key")
    },
    ("serving.kserve.io/v1beta1", "InferenceService"): {
        f"predictor.model.{key}" for key in ("modelFormat.name", "args[]", "storageUri", "resources.limits")
    },
    ("serving.kserve.io/v1alpha2", "LLMInferenceService"): {
        *("model.uri", "model.name", "router.gateway", "router.route", "router.scheduler"),
        *("template.containers[].name", "template.containers[].resources.limits"),
        *("scaling.minReplicas", "scaling.maxReplicas", *(f"scaling.keda.{key}" for key in _KEDA)),
    },
    ("cert-manager.io/v1", "ClusterIssuer"): {"selfSigned", "ca.secretName"},
    ("cert-manager.io/v1", "Certificate"): {
        *("isCA", "commonName", "secretName", "duration", "renewBefore", "usages[]", "dnsNames[]"),
        *("privateKey.algorithm", "privateKey.size", "privateKey.rotationPolicy"),
        *("issuerRef.group", "issuerRef.kind", "issuerRef.name"),
    },
    ("monitoring.coreos.com/v1", "PrometheusRule"): {
        *(f"groups[].{key}" for key in ("name", "interval")),
        *(f"groups[].rules[].{key}" for key in ("record", "alert", "expr", "for", "labels")),
        *(f"groups[].rules[].annotations.{key}" for key in ("summary", "description", "runbook_url")),
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        *(f"selector.{key}" for key in _SELECTOR),
        *(f"podMetricsEndpoints[].{key}" for key in ("port", "path", "interval", "honorLabels")),
    },
}
"""Kinds that are not Kubernetes' own: the keys below ``spec`` that we use, checked against their documentation by hand."""


def faults(item: Json, version: str) -> list[str]:
    """What is wrong with an object by its kind's schema, else by our list; a kind that neither knows is a fault."""
    try:
        validate(item, version, strict=True)
    except SchemaNotFoundError:
        return key_faults(item)
    except ValidationError as error:
        return [f"{'.'.join(str(part) for part in error.path)}: {error.message}"]
    return []


def key_faults(item: Json) -> list[str]:
    """What our list of keys says of an object."""
    kind = item["apiVersion"], item["kind"]
    if kind not in KEYS:
        return [f"{kind[1]} of {kind[0]}: no schema, and not in our list"]
    metadata = {"name", "namespace", "labels", "annotations"}
    allowed = {"apiVersion", "kind", *(f"metadata.{key}" for key in metadata), *(f"spec.{key}" for key in KEYS[kind])}
    return sorted(f"{path}: not in our list" for path in set(_leaves(item)) - allowed) + annotation_faults(item)


def annotation_faults(item: Json) -> list[str]:
    """Annotations that nobody acts upon."""
    return [
        f"annotation {key}: not in our list"
        for key in item["metadata"].get("annotations", {})
        if key not in ANNOTATIONS
    ]


def crd_faults(item: Json) -> list[str]:
    """What the CRD says of an object, keys that it does not know included. Skips the test where the CRDs are not."""
    return [
        f"{error.json_path}: {error.message}"
        for error in _validator(item["kind"], item["apiVersion"]).iter_errors(item)
    ]


@cache
def _validator(kind: str, api_version: str) -> Draft202012Validator:
    path = shared_data(f"crds/{CRDS[kind]}.yaml.gz")
    versions = yaml.load(gzip.decompress(path.read_bytes()), Loader=yaml.CSafeLoader)["spec"]["versions"]
    schema = next(v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == api_version.rpartition("/")[2])
    return Draft202012Validator(_closed(deepcopy(schema)))


def _closed(schema: Any) -> Any:
    """The schema, with every key that it does not name refused, as ``kubectl apply`` does."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if (
        isinstance(closed.get("properties"), dict)
        and "type" in closed
        and not closed.get("x-kubernetes-preserve-unknown-fields")
    ):
        closed.setdefault("additionalProperties", False)
    return closed


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    """The paths of an object's values, such as ``spec.triggers[].type``."""
    if isinstance(value, dict) and value and not path.endswith(FREE) and path != "metadata.annotations":
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    else:
        yield path
