"""From what is known of one workload's pods, scale and HPA to the ``Snapshot`` that its loop takes. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scaler.cluster.arguments import DEFAULT_PORT, DEFAULT_PORTS
from scaler.cluster.glass import floor_of, glass_notes
from scaler.cluster.gpus import named as gpu_named
from scaler.cluster.hpas import Hpa
from scaler.cluster.lives import Memory
from scaler.cluster.pods import Pod
from scaler.cluster.scale import Scale
from scaler.cluster.scaled_objects import ANNOTATION, NamedWorkload
from scaler.control.ports import Snapshot, Target
from scaler.core import platform
from scaler.core.model import Floor, GpuPhase, GpuUse, Kind, Note, ReplicaSet, Starting
from scaler.core.platform import Platform

OLD_S = 10.0
"""A watch that ends and is opened again leaves the list a moment old; beyond this a person should know."""
PAUSED, KEPT = frozenset({"paused", "paused-replicas"}), frozenset({"paused-scale-in", "paused-scale-out"})
ADDS_NONE = PAUSED | {"paused-scale-out"}
UNMADE_S = 60.0
"""A pod that is asked for exists within a second, unless something refuses it."""
_HELD = {
    "paused-scale-in": "KEDA takes no replica away",
    "paused-scale-out": "KEDA adds no replica",
    "force-activation": "KEDA never takes it to zero",
}


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of one workload.

    ``pods`` are those of its selector, as of ``observed_at``. ``memory`` has a life for each that is alive. ``class_of`` is the class of
    a pod's node, empty while unknown; ``settled``: it will not be another one soon. ``stale`` is why the pods are not newer, empty while
    they are. ``faults`` are what else could not be read. ``offset_s`` is wall time minus our clock. ``asked_since`` is when the count in
    ``scale`` was first seen.
    """

    named: NamedWorkload
    scale: Scale
    pods: tuple[Pod, ...]
    memory: Memory
    observed_at: float
    hpa: Hpa | None = None
    class_of: Callable[[Pod], str] = lambda pod: pod.node_hint
    settled: Callable[[Pod], bool] = lambda _: True
    stale: str = ""
    faults: tuple[Note, ...] = ()
    offset_s: float = 0.0
    asked_since: float = math.inf
    hpas_known: bool = False

    @property
    def floor(self) -> Floor | None:
        """What a person has set by annotation, over or not."""
        return floor_of(self.named.floor, self.offset_s)


def snapshot_of(known: Known, now: float) -> Snapshot:
    """The replicas of a workload.

    A replica is ready, or starting, or does not count: one that terminates or has ended. One that was ready and is not any more is listed
    as starting, since it lost readiness: it exists, it is no capacity, and if its container was restarted it loads the model like any
    other. It is no start that could be measured, so it never is among ``started``.
    """
    alive = sorted((pod for pod in known.pods if pod.alive), key=lambda pod: pod.name)
    ready = [pod for pod in alive if pod.ready]
    replicas = ReplicaSet(
        ready=tuple(pod.name for pod in ready),
        starting=tuple(_starting(known, pod, now) for pod in alive if not pod.ready),
        current=known.scale.replicas,
        observed_at=min(known.observed_at, now),
        max_replicas=_most(known),
        started=known.memory.started,
        notes=notes_of(known, now),
        engine_cap=min((pod.facts.cap for pod in ready if pod.facts.cap is not None), default=None),
        kinds={pod.name: _kind(known, pod) for pod in ready},
        newest=_newest(known, alive),
        held=any(annotation.removeprefix(ANNOTATION) in ADDS_NONE for annotation in known.named.held),
        floor=known.floor,
        platform=_platform(known, now),
        gpus=_gpus(known),
    )
    return Snapshot(replicas, tuple(_target(known.named, pod) for pod in ready))


def _gpus(known: Known) -> Mapping[GpuUse, int]:
    """The GPUs that are held: from when a node has taken the pod until the pod is gone."""
    held = Counter[GpuUse]()
    for pod in known.pods:
        if pod.over or not pod.node or not known.settled(pod):
            continue  # a few seconds of a product that is not known yet would have no price
        phase = GpuPhase.DRAINING if pod.terminating else GpuPhase.SERVING if pod.ready else GpuPhase.STARTING
        for kind, count in pod.gpus.items():
            held[GpuUse(gpu_named(known.class_of(pod), kind), phase)] += count
    return held


def notes_of(known: Known, now: float) -> tuple[Note, ...]:
    """What a person should know of the workload's platform."""
    named = known.named
    notes = [_held(annotation) for annotation in named.held]
    if named.ours > 1:
        text = f"{named.ours} triggers of this ScaledObject name this scaler; keep one, its request classes cover what the others were for"
        notes.append(Note("two_triggers", text))
    if named.bounds.min_replicas == 0 and not (named.push or named.shadow):
        text = "it may go to zero, and its trigger is of type external: KEDA wakes it at a poll only; type external-push wakes it at once"
        notes.append(Note("slow_wake", text))
    if known.hpa is not None:
        notes += [Note(code, f"HPA {named.hpa_name}: {text}") for code, text in known.hpa.troubles]
    if known.stale and now - known.observed_at > OLD_S:
        notes.append(
            Note("replicas_old", f"the list of replicas is {now - known.observed_at:.0f} s old: {known.stale}")
        )
    return (*glass_notes(named, known.floor, now), *notes, *known.faults)


def _platform(known: Known, now: float) -> Platform:
    """What acts on the number. Pods that are asked for since a moment only are on their way."""
    hpa, held = known.hpa, known.named.held
    alive = sum(pod.alive for pod in known.pods)
    return Platform(
        target=str(known.named.target),
        asked=known.scale.replicas,
        pods=known.scale.replicas if now - known.asked_since < UNMADE_S else alive,
        hpa=None
        if hpa is None
        else platform.Hpa(
            name=known.named.hpa_name,
            desired=hpa.desired,
            current=hpa.current,
            proposals=hpa.proposals,
            up_s=hpa.up_s,
            down_s=hpa.down_s,
            able=hpa.able,
            limited=hpa.limited,
            inactive=hpa.inactive,
        ),
        hpas_known=known.hpas_known,
        paused=tuple(one for one in held if one.removeprefix(ANNOTATION) in PAUSED),
        kept=tuple(one for one in held if one.removeprefix(ANNOTATION) in KEPT),
        fallback=known.named.fallback,
    )


def _most(known: Known) -> int | None:
    """The most replicas that there may be. KEDA refuses bounds that contradict each other, and its HPA then keeps those that it has."""
    own = known.named.bounds
    allowed = own.max_replicas if own.max_replicas >= max(1, own.min_replicas) else None
    bounds = (allowed, known.hpa.max_replicas if known.hpa is not None else None)
    return min((bound for bound in bounds if bound is not None), default=None)


def _held(annotation: str) -> Note:
    word = annotation.removeprefix(ANNOTATION)
    what = _HELD.get(word, "KEDA is paused for this ScaledObject and does not act on what is decided here")
    return Note("keda_held" if word in _HELD else "keda_paused", f"{what} (annotation {annotation})")


def _starting(known: Known, pod: Pod, now: float) -> Starting:
    life = known.memory.lives[pod.uid]
    return Starting(pod.name, life.since, pod.stuck(now - life.since), known.class_of(pod))


def _kind(known: Known, pod: Pod) -> Kind:
    return Kind(known.class_of(pod), pod.engine_version)


def _newest(known: Known, alive: list[Pod]) -> Kind | None:
    """The kind of the newest replica that has a node, or asks for one kind: the next one is thought to be of it."""
    placed = [pod for pod in alive if pod.node or pod.node_hint]
    return _kind(known, max(placed, key=lambda pod: (pod.created_at, pod.name))) if placed else None


def _target(named: NamedWorkload, pod: Pod) -> Target:
    port = named.port or pod.facts.port or DEFAULT_PORTS.get(named.engine, DEFAULT_PORT)
    host = f"[{pod.address}]" if ":" in pod.address else pod.address
    return Target(pod.name, f"{host}:{port}", pod.facts.scheme, discovered=True)
