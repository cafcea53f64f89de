"""ScaledObjects: which of them name this scaler, and what they say of the workload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
    """What a ScaledObject that names us says, without its status: two that are equal ask for the same.

    ``metadata`` is that of the first trigger that names us, as written; ``complete`` is whether that is all of it: the value of a
    ``...FromEnv`` key is known to KEDA only, and arrives with its call. ``ours`` counts the triggers that name us, ``push`` is whether
    the first is of type external-push. ``held`` are the annotations by which KEDA is kept from acting as it otherwise would, ``gate`` is
    what the annotation for it says, empty without one.
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

    @property
    def engine(self) -> str:
        """The engine that the trigger names, empty when it names none."""
        return self.metadata.get(ENGINE_KEY, "")

    @property
    def port(self) -> int | None:
        """The port that the trigger names."""
        return port_of(self.metadata.get(PORT_KEY, ""))


def named_workload(item: Json, services: frozenset[Service]) -> NamedWorkload | None:
    """The workload that a ScaledObject defines, None when none of its triggers names us or it is being deleted."""
    ours = [
        trigger
        for trigger in objects(item, "spec", "triggers")
        if text(trigger, "type") in TRIGGERS and names_us(text(trigger, "metadata", "scalerAddress"), services)
    ]
    if not ours or text(item, "metadata", "deletionTimestamp"):
        return None
    name = text(item, "metadata", "name")
    metadata = strings(ours[0], "metadata")
    return NamedWorkload(
        key=WorkloadKey(text(item, "metadata", "namespace"), name),
        metadata=metadata,
        target=_target(mapping(item, "spec", "scaleTargetRef")),
        bounds=_bounds(mapping(item, "spec")),
        push=text(ours[0], "type") == PUSH,
        ours=len(ours),
        complete=not any(key.endswith("FromEnv") for key in metadata),
        held=_held(strings(item, "metadata", "annotations")),
        hpa_name=text(item, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        or text(item, "status", "hpaName")
        or f"keda-hpa-{name}",
        gate=strings(item, "metadata", "annotations").get(GATE, ""),
    )


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
