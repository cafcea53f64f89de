"""One pod: whether it serves, how far its start has come, what keeps it from starting, and where its engine's page is.

All times are the cluster's stamps, in seconds of the wall clock; ``lives`` puts them on the monotonic one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scaler.cluster.api import Json
from scaler.cluster.arguments import EngineFacts, command_line, engine_facts
from scaler.cluster.fields import count, instant, mapping, objects, strings, text
from scaler.cluster.gpus import gpus_of
from scaler.cluster.nodes import CLASS_LABELS

SERVING_NAMES = ("kserve-container", "main")
"""What KServe calls the container that serves, in an InferenceService and in an LLMInferenceService."""
ENGINE_WORDS = re.compile(r"vllm|sglang", re.IGNORECASE)
VERSION_TAG = re.compile(r"v?(\d+(?:\.\d+)+)")
LONGEST_TEXT = 120
HOPELESS = frozenset(
    {
        *("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)
"""Reasons to wait of a container that something failed for; ContainerCreating and PodInitializing are how a start looks."""
UNSCHEDULABLE_S = 300.0
"""A node that an autoscaler adds is there after a few minutes, in which its pod is unschedulable like one that never finds a node."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What is kept of a pod.

    ``ready``: it passes its readiness probes and has an address. ``over``: it has ended for good. ``lost_ready_at``: since when it is not
    ready though it once was. ``failure`` is what has gone wrong with its start; ``unschedulable`` is why no node takes it, so far.
    ``scheduled_at``, ``initialized_at``, ``started_at`` (its serving container) and ``ready_at`` are how far its start has come.
    ``node_hint`` is the class of node that it asks for. ``engine_version`` is by its image's tag, empty where that does not tell. ``gpus``:
    see ``gpus.gpus_of``.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    created_at: float
    ready: bool
    terminating: bool
    over: bool
    address: str
    facts: EngineFacts
    engine_version: str = ""
    node: str = ""
    node_hint: str = ""
    scheduled_at: float | None = None
    initialized_at: float | None = None
    started_at: float | None = None
    ready_at: float | None = None
    lost_ready_at: float | None = None
    failure: str = ""
    unschedulable: str = ""
    gpus: Mapping[str, int] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether it is, or may become, a replica."""
        return not (self.terminating or self.over)

    def stuck(self, age_s: float) -> str:
        """Why its start cannot be counted on, empty while it can. The one rule: a failure counts at once, a lack of nodes later."""
        if self.failure or age_s <= UNSCHEDULABLE_S:
            return self.failure
        return self.unschedulable


def pod_of(item: Json) -> Pod:
    """A pod from its JSON."""
    conditions = {text(one, "type"): one for one in objects(item, "status", "conditions")}
    container = serving_container(item)
    status = _status(item, "containerStatuses", text(container, "name"))
    ready = conditions.get("Ready", {})
    began_at = _first_run_at(status)
    since = instant(ready, "lastTransitionTime")
    is_ready = text(ready, "status") == "True" and bool(text(item, "status", "podIP"))
    # never ready, it has been unready since before its container first ran
    lost = not is_ready and since is not None and began_at is not None and since > began_at
    return Pod(
        name=text(item, "metadata", "name"),
        uid=text(item, "metadata", "uid"),
        labels=strings(item, "metadata", "labels"),
        created_at=instant(item, "metadata", "creationTimestamp") or 0.0,
        ready=is_ready,
        terminating=bool(text(item, "metadata", "deletionTimestamp")),
        over=text(item, "status", "phase") in {"Failed", "Succeeded"},
        address=text(item, "status", "podIP"),
        facts=engine_facts(container, strings(item, "metadata", "annotations")),
        engine_version=_engine_version(text(container, "image")),
        node=text(item, "spec", "nodeName"),
        node_hint=_node_hint(mapping(item, "spec")),
        scheduled_at=_true_since(conditions.get("PodScheduled", {})),
        initialized_at=_true_since(conditions.get("Initialized", {})),
        started_at=instant(status, "state", "running", "startedAt"),
        ready_at=since if is_ready else None,
        lost_ready_at=since if lost else None,
        failure=_failure(item, status) or ("" if lost else _killed(status)),
        unschedulable=_unschedulable(conditions.get("PodScheduled", {})),
        gpus=gpus_of(item),
    )


def serving_container(item: Json) -> Json:
    """The container that is the engine: by KServe's names, else by a device, else by its speaking of an engine, else the first."""
    containers = objects(item, "spec", "containers")
    named = [one for one in containers if text(one, "name") in SERVING_NAMES]
    devices = [one for one in containers if any("/" in name for name in mapping(one, "resources", "limits"))]
    spoken = [one for one in containers if ENGINE_WORDS.search(f"{text(one, 'image')} {command_line(one)}")]
    return next(iter((*named, *devices, *spoken, *containers)), {})


def _engine_version(image: str) -> str:
    """The version in the tag of an image that is named for its engine; that of KServe's or llm-d's own images is not the engine's."""
    named, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    found = VERSION_TAG.match(tag)
    return found[1] if found is not None and ENGINE_WORDS.search(named) else ""


def _status(item: Json, kind: str, name: str) -> Json:
    return next((one for one in objects(item, "status", kind) if text(one, "name") == name), {})


def _true_since(condition: Json) -> float | None:
    return instant(condition, "lastTransitionTime") if text(condition, "status") == "True" else None


def _first_run_at(status: Json) -> float | None:
    """When the container began its earliest run that is still told of."""
    runs = (("lastState", "terminated"), ("state", "running"), ("state", "terminated"))
    return next((at for run in runs if (at := instant(status, *run, "startedAt")) is not None), None)


def _unschedulable(scheduled: Json) -> str:
    if text(scheduled, "status") != "False":
        return ""
    return _said(text(scheduled, "reason") or "Unschedulable", text(scheduled, "message"))


def _failure(item: Json, serving: Json) -> str:
    """The first thing that went wrong: with an init container, or with any container, the serving one before its helpers."""
    if text(item, "status", "reason") == "NodeLost":
        return _said("NodeLost", text(item, "status", "message"))
    inits = [_failed_init(one) for one in objects(item, "status", "initContainerStatuses")]
    waits = [_failed_wait(one) for one in (serving, *objects(item, "status", "containerStatuses"))]
    return next((failure for failure in (*inits, *waits) if failure), "")


def _killed(serving: Json) -> str:
    """A model that did not fit into memory will not fit at the next try."""
    killed = text(serving, "lastState", "terminated", "reason") == "OOMKilled"
    return "OOMKilled: its last run took more memory than it may" if killed else ""


def _failed_init(status: Json) -> str:
    name, ended = text(status, "name"), mapping(status, "state", "terminated")
    if failure := _failed_wait(status):
        return _said(f"init container {name}", failure)
    if (code := count(ended, "exitCode")) not in {None, 0}:
        return _said(f"init container {name}", f"exit code {code}, {text(ended, 'reason') or 'no reason given'}")
    return ""


def _failed_wait(status: Json) -> str:
    reason, message = text(status, "state", "waiting", "reason"), text(status, "state", "waiting", "message")
    if reason not in HOPELESS:
        return ""
    last = mapping(status, "lastState", "terminated")
    if reason == "CrashLoopBackOff" and last:
        message = f"{text(last, 'reason') or 'ended'}, exit code {count(last, 'exitCode')}; {message}"
    return _said(reason, message)


def _said(reason: str, message: str) -> str:
    whole = " ".join(f"{reason}: {message}".split()) if message else reason
    return whole if len(whole) <= LONGEST_TEXT else whole[: LONGEST_TEXT - 1] + "…"


def _node_hint(spec: Json) -> str:
    """The class of node that the pod asks for, where it asks for one only."""
    asked = strings(spec, "nodeSelector") | dict(_affinities(spec))
    return next((asked[label] for label in CLASS_LABELS if label in asked), "")


def _affinities(spec: Json) -> Iterator[tuple[str, str]]:
    required = mapping(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = objects(required, "nodeSelectorTerms")
    for one in objects(terms[0], "matchExpressions") if len(terms) == 1 else ():
        values = one.get("values")
        if text(one, "operator") == "In" and isinstance(values, list) and len(values) == 1:
            yield text(one, "key"), str(values[0])
