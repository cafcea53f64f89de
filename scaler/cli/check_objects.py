"""Kubernetes objects, of files or of a cluster, to what the checks know of one workload."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.checks import Direction, Disruption, Facts, Fallback, ScaledObject, Trigger, Versions
from scaler.cli.check_serving import labels_of, resolved, serving_in
from scaler.cluster.api import Json
from scaler.cluster.fields import count, mapping, objects, strings, text
from scaler.cluster.hpas import hpa_of
from scaler.cluster.scaled_objects import ANNOTATION, HOLDS, TRIGGERS
from scaler.core.model import WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.errors import ConfigError
from scaler.settings import Configuration
from scaler.workload import KEYS, Bounds, Catalog, parse_workload

DEFAULT_NAMESPACE = "default"
LLM, HPA, PDB = "LLMInferenceService", "HorizontalPodAutoscaler", "PodDisruptionBudget"
SCALED = "ScaledObject"
EXTERNAL = "serving.kserve.io/autoscalerClass"
_UNNAMED = re.compile(r"\bconfigured\b")


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything that was found. ``cluster`` is whether the objects are those of a cluster: what is not among them then does not exist.

    But for the kinds in ``unseen``, which could not be listed. ``files`` are where each of the objects stands, empty for a cluster's.
    """

    items: tuple[Json, ...]
    configuration: Configuration | None = None
    cluster: bool = False
    versions: Versions = field(default_factory=Versions)
    unseen: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()


def scaled_objects(items: Iterable[Json]) -> dict[WorkloadKey, Json]:
    """The ScaledObjects with a trigger of type external, those that KServe makes of its own objects among them."""
    found = [_made_by_kserve(item) if text(item, "kind") == LLM else item for item in items]
    return {key_of(item): item for item in found if text(item, "kind") == SCALED and _ours(item)}


def doubled(gathered: Gathered) -> list[tuple[WorkloadKey, tuple[str, ...]]]:
    """Those that are defined more than once among the files, with the files in their order: the last one counts."""
    found: dict[WorkloadKey, list[str]] = defaultdict(list)
    for item, file in zip(gathered.items, gathered.files, strict=False):
        if text(item, "kind") == SCALED and _ours(item):
            found[key_of(item)].append(file)
    return [(key, tuple(files)) for key, files in sorted(found.items()) if len(files) > 1]


def key_of(item: Json) -> WorkloadKey:
    """Namespace and name."""
    return WorkloadKey(text(item, "metadata", "namespace") or DEFAULT_NAMESPACE, text(item, "metadata", "name"))


def _made_by_kserve(item: Json) -> Json:
    scaling, key = mapping(item, "spec", "scaling"), key_of(item)
    bounds = {"minReplicaCount": scaling.get("minReplicas", 1), "maxReplicaCount": scaling.get("maxReplicas")}
    target = {"kind": LLM, "name": key.name}
    return {
        "kind": SCALED,
        "metadata": {"namespace": key.namespace, "name": f"{key.name}-kserve-keda"},
        "spec": {**mapping(scaling, "keda"), **bounds, "scaleTargetRef": target},
    }


def facts_of(key: WorkloadKey, gathered: Gathered) -> Facts:
    """What the objects say of one workload; without its ScaledObject, what the configuration says."""
    item = scaled_objects(gathered.items).get(key)
    configuration = gathered.configuration
    named = next((spec for spec in configuration.workloads if spec.key == key), None) if configuration else None
    if item is None:
        return Facts(key, spec=named, versions=gathered.versions)
    target, scaled = _target(item), scaled_object_of(item)
    serving, template = serving_in(gathered.items, key.namespace, target, cluster=gathered.cluster)
    spec, faults = (
        (named, ()) if named else _meaning(key, scaled, resolved(scaled.ours.metadata, template), configuration)
    )
    rivals_seen = not {HPA, SCALED} & gathered.unseen and (gathered.cluster or serving is not None)
    labels = None if PDB in gathered.unseen else labels_of(template)
    return Facts(
        key=key,
        scaled=scaled,
        spec=spec,
        faults=faults,
        server_tls=None if configuration is None else configuration.tls is not None,
        serving=serving,
        disruptions=_disruptions(gathered.items, key.namespace, labels, scaled.highest),
        rivals=_rivals(gathered.items, item, target) if rivals_seen else None,
        hpa_troubles=_hpa_troubles(gathered.items, item) if gathered.cluster and HPA not in gathered.unseen else None,
        versions=gathered.versions,
    )


def _target(item: Json) -> tuple[str, str]:
    ref = mapping(item, "spec", "scaleTargetRef")
    return text(ref, "kind") or "Deployment", text(ref, "name")


def scaled_object_of(item: Json) -> ScaledObject:
    """A ScaledObject from its JSON; one of its triggers is of type external."""
    spec = mapping(item, "spec")
    ours, others = _ours(item), objects(spec, "triggers")
    behavior = mapping(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")
    fallback = mapping(spec, "fallback")
    annotations = strings(item, "metadata", "annotations")
    return ScaledObject(
        target=" ".join(_target(item)),
        ours=_trigger(ours[0]),
        others=tuple(_trigger(one) for one in others if one is not ours[0]),
        min_replicas=count(spec, "minReplicaCount"),
        max_replicas=count(spec, "maxReplicaCount"),
        idle_replicas=count(spec, "idleReplicaCount"),
        polling_s=_seconds(spec, "pollingInterval", 30),
        cooldown_s=_seconds(spec, "cooldownPeriod", 300),
        initial_cooldown_s=_seconds(spec, "initialCooldownPeriod", 0),
        fallback=Fallback(count(fallback, "replicas") or 0, text(fallback, "behavior") or "static")
        if fallback
        else None,
        behavior=(_direction(behavior, "scaleUp"), _direction(behavior, "scaleDown")) if behavior else None,
        held=tuple(ANNOTATION + name for name in HOLDS if annotations.get(ANNOTATION + name, "false") != "false"),
    )


def _ours(item: Json) -> list[Json]:
    """The triggers that may ask this scaler: those with a key of its own, else all external ones."""
    external = [one for one in objects(item, "spec", "triggers") if text(one, "type") in TRIGGERS]
    return [one for one in external if KEYS.keys() & mapping(one, "metadata").keys()] or external


def _trigger(item: Json) -> Trigger:
    written = mapping(item, "metadata")
    return Trigger(
        kind=text(item, "type"),
        metadata={key: str(value) for key, value in written.items()},
        unquoted=tuple(key for key, value in written.items() if not isinstance(value, str)),
        metric_type=text(item, "metricType"),
        cached=item.get("useCachedMetrics") is True,
        authenticated=bool(item.get("authenticationRef")),
    )


def _direction(behavior: Json, name: str) -> Direction:
    rules = mapping(behavior, name)
    window, tolerance = count(rules, "stabilizationWindowSeconds"), rules.get("tolerance")
    return Direction(
        window_s=None if window is None else float(window),
        tolerance=None if tolerance is None else _quantity(str(tolerance)),
        disabled=text(rules, "selectPolicy") == "Disabled",
    )


def _quantity(written: str) -> float | None:
    """A small Kubernetes quantity: 0, 0.05 or 50m."""
    try:
        return float(written.removesuffix("m")) / (1000 if written.endswith("m") else 1)
    except ValueError:
        return None


def _seconds(spec: Json, name: str, default: int) -> float:
    written = count(spec, name)
    return float(default if written is None else written)


def _meaning(
    key: WorkloadKey, scaled: ScaledObject, metadata: Mapping[str, str] | None, configuration: Configuration | None
) -> tuple[WorkloadSpec | None, tuple[str, ...]]:
    """What the trigger means with the configuration, or the faults in it that do not come of the configuration not being known."""
    if metadata is None:
        return None, ()
    catalog = Catalog() if configuration is None else configuration.catalog
    try:
        return parse_workload(key, metadata, catalog, Bounds(scaled.lowest, scaled.highest)), ()
    except ConfigError as error:
        faults = error.faults
    return None, tuple(fault for fault in faults if configuration is not None or not _UNNAMED.search(fault))


def _disruptions(
    items: Iterable[Json], namespace: str, labels: Mapping[str, str] | None, highest: int
) -> tuple[Disruption, ...] | None:
    """The budgets that select the pods, None where it is not known which pods those are."""
    if labels is None:
        return None
    found = [one for one in items if text(one, "kind") == PDB and key_of(one).namespace == namespace]
    if any(objects(one, "spec", "selector", "matchExpressions") for one in found):
        return None
    return tuple(
        Disruption(text(one, "metadata", "name"), _blocks(mapping(one, "spec"), highest))
        for one in found
        if strings(one, "spec", "selector", "matchLabels").items() <= labels.items()
    )


def _blocks(spec: Json, highest: int) -> bool:
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return str(most) in {"0", "0%"} or least == "100%" or (isinstance(least, int) and least >= highest)


def _rivals(items: Iterable[Json], ours: Json, target: tuple[str, str]) -> tuple[str, ...]:
    found = []
    for one in items:
        kind, key = text(one, "kind"), key_of(one)
        if key.namespace != key_of(ours).namespace:
            continue
        if (kind == HPA and not _of_keda(one) and _aims_at(one, target)) or (
            kind == SCALED and key != key_of(ours) and _target(one) == target
        ):
            found.append(f"{kind} {key.name}")
        annotated = strings(one, "metadata", "annotations").get(EXTERNAL)
        if kind == "InferenceService" and f"{key.name}-predictor" == target[1] and annotated != "external":
            found.append(f"KServe, for InferenceService {key.name}")
    return tuple(found)


def _of_keda(hpa: Json) -> bool:
    labels = strings(hpa, "metadata", "labels")
    return labels.get("app.kubernetes.io/managed-by") == "keda-operator" or text(hpa, "metadata", "name").startswith(
        "keda-hpa-"
    )


def _aims_at(hpa: Json, target: tuple[str, str]) -> bool:
    ref = mapping(hpa, "spec", "scaleTargetRef")
    return (text(ref, "kind"), text(ref, "name")) == target


def _hpa_troubles(items: Iterable[Json], ours: Json) -> tuple[str, ...]:
    named = text(ours, "spec", "advanced", "horizontalPodAutoscalerConfig", "name") or text(ours, "status", "hpaName")
    name, namespace = named or f"keda-hpa-{key_of(ours).name}", key_of(ours).namespace
    for one in items:
        if text(one, "kind") == HPA and key_of(one) == WorkloadKey(namespace, name):
            return tuple(said for _, said in hpa_of(one).troubles)
    return (f"there is no HPA {name}: KEDA could not make it",)
