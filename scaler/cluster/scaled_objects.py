"""ScaledObjects: which of them name this scaler, and what they say of the workload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from scaler.cluster.api import Json
from scaler.cluster.arguments import port_of
from scaler.cluster.fields import count, mapping, objects, strings, text
from scaler.core.model import WorkloadKey
from scaler.workload import Bounds

PUSH = "external-push"
TRIGGERS = frozenset({"external", PUSH})
ANNOTATION = "autoscaling.keda.sh/"
GATE = "slo-scaler/gate"
"""The annotation that decides before the trigger whether pressure is acted upon: an operator turns it in a second, without an edit of the
spec that KEDA would rebuild its HPA for."""
FLOOR = "slo-scaler/floor"
"""The annotation that sets a number of replicas below which nothing falls, and until when: ``6 until 2026-12-01T18:00Z``."""
SHADOW = "slo-scaler/shadow"
"""The annotation by which a ScaledObject, whatever its triggers, is looked at only: ``true``, or the metadata that a trigger would have."""
LONGEST_SHADOW = 2048
"""Characters of that metadata. A trigger's has some 500, and PyYAML takes 60 ms for as many brackets: the time grows with their square."""
NO_TEXT = "(a list or a mapping)"
"""What stands for a value that is none of a trigger's, so that it is refused by the name of its key."""
HOLDS = ("paused", "paused-replicas", "paused-scale-in", "paused-scale-out", "force-activation")
DEFAULT_MIN, DEFAULT_MAX = 0, 100
DEFAULT_API_VERSION, DEFAULT_KIND = "apps/v1", "Deployment"
ENGINE_KEY, PORT_KEY = "engine", "port"
"""The two keys of trigger metadata by which replicas are read; what all keys mean is said in ``workload``."""
_OFF = frozenset({"0", "f", "false"})


@dataclass(frozen=True, slots=True)
class Service:
    """A Service that leads to this scaler."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class TargetRef:
    """What is scaled, in the ScaledObject's own namespace."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        """``Deployment llama``."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """What a ScaledObject that names us says, with no more of its status than ``fallback``: two that are equal ask for the same.

    ``metadata`` is that of the first trigger that names us, as written; ``complete`` is whether that is all of it: the value of a
    ``...FromEnv`` key is known to KEDA only, and arrives with its call. ``ours`` counts the triggers that name us, ``push`` is whether
    the first is of type external-push, ``alone`` whether no other acts beside ours. ``held`` are the annotations by which KEDA is kept from
    acting as it otherwise would, ``gate`` and ``floor`` are what the annotations for them say, empty without one. ``fallback``: KEDA acts
    on its fallback, because we gave no number. ``shadow``: by annotation it is looked at only; then ``metadata`` may be the annotation's.
    """

    key: WorkloadKey
    metadata: Mapping[str, str]
    target: TargetRef
    bounds: Bounds
    push: bool
    ours: int
    complete: bool
    held: tuple[str, ...]
    hpa_name: str
    gate: str = ""
    floor: str = ""
    uid: str = ""
    fallback: bool = False
    shadow: bool = False
    alone: bool = True

    @property
    def engine(self) -> str:
        """The engine that the trigger names, empty when it names none."""
        return self.metadata.get(ENGINE_KEY, "")

    @property
    def port(self) -> int | None:
        """The port that the trigger names."""
        return port_of(self.metadata.get(PORT_KEY, ""))


def named_workload(item: Json, services: frozenset[Service]) -> NamedWorkload | None:
    """The workload that a ScaledObject defines, None when it is being deleted or neither names us nor is a shadow."""
    ours = [
        trigger
        for trigger in objects(item, "spec", "triggers")
        if text(trigger, "type") in TRIGGERS and names_us(text(trigger, "metadata", "scalerAddress"), services)
    ]
    name, annotations = text(item, "metadata", "name"), strings(item, "metadata", "annotations")
    shadow = annotations.get(SHADOW, "false").strip().lower() not in _OFF
    if not (ours or shadow) or text(item, "metadata", "deletionTimestamp"):
        return None
    metadata = strings(ours[0], "metadata") if ours else {}
    metadata = (shadow_metadata(annotations[SHADOW]) if shadow else {}) or metadata
    return NamedWorkload(
        key=WorkloadKey(text(item, "metadata", "namespace"), name),
        metadata=metadata,
        target=_target(mapping(item, "spec", "scaleTargetRef")),
        bounds=_bounds(mapping(item, "spec")),
        push=bool(ours) and text(ours[0], "type") == PUSH,
        ours=len(ours),
        complete=not any(key.endswith("FromEnv") for key in metadata),
        held=_held(annotations),
        hpa_name=text(item, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        or text(item, "status", "hpaName")
        or f"keda-hpa-{name}",
        gate=annotations.get(GATE, ""),
        floor=annotations.get(FLOOR, ""),
        uid=text(item, "metadata", "uid"),
        shadow=shadow,
        alone=len(objects(item, "spec", "triggers")) <= max(1, len(ours)),
        fallback=any(
            text(one, "type") == "Fallback" and text(one, "status") == "True"
            for one in objects(item, "status", "conditions")
        ),
    )


def shadow_metadata(written: str) -> dict[str, str]:
    """The trigger metadata in an annotation, a mapping in YAML or JSON; none where it is none, and where it says ``true`` only.

    Whoever may write a ScaledObject writes it. So every scalar is the text that stands there, as in a trigger, and nothing is ever
    written out that is made of others: ten lines of aliases of aliases would be gigabytes.
    """
    if len(written) > LONGEST_SHADOW:
        return {}
    try:
        found = yaml.load(written, Loader=yaml.BaseLoader)  # noqa: S506 - makes texts, lists and mappings only
    except (yaml.YAMLError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): value if isinstance(value, str) else NO_TEXT for key, value in found.items()}


def names_us(address: str, services: frozenset[Service]) -> bool:
    """Whether a scalerAddress (host:port, perhaps behind a gRPC scheme such as ``dns:///``) is one of our Services, however spelled.

    A bare name says no namespace: KEDA would look in its own, which may be ours, so it counts. The cluster's domain is not known here.
    """
    host = re.sub(r":\d*$", "", address.rpartition("/")[2]).rstrip(".").lower()
    name, _, rest = host.partition(".")
    namespace, _, rest = rest.partition(".")
    if rest.partition(".")[0] not in {"", "svc"}:
        return False
    return any(name == service.name and namespace in {"", service.namespace} for service in services)


def _target(ref: Json) -> TargetRef:
    return TargetRef(
        text(ref, "apiVersion") or DEFAULT_API_VERSION, text(ref, "kind") or DEFAULT_KIND, text(ref, "name")
    )


def _bounds(spec: Json) -> Bounds:
    """The counts between which KEDA moves it: to ``idleReplicaCount`` where that is given, which lies below the minimum of the HPA."""
    lowest = count(spec, "minReplicaCount")
    idle = count(spec, "idleReplicaCount")
    highest = count(spec, "maxReplicaCount")
    if idle is not None:
        lowest = idle
    return Bounds(lowest if lowest is not None else DEFAULT_MIN, highest if highest is not None else DEFAULT_MAX)


def _held(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """As KEDA reads them: a word that is no boolean counts as true, and a number of replicas pauses whatever it is."""
    given = {name: annotations.get(ANNOTATION + name) for name in HOLDS}
    return tuple(
        ANNOTATION + name
        for name, value in given.items()
        if value is not None and (name == "paused-replicas" or value.lower() not in _OFF)
    )
