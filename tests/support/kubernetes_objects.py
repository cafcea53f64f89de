"""What the stand-in for the API server knows of objects: paths, selectors, merge patches, events, refusals. All values, no socket."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

Json = dict[str, Any]

_PATH = re.compile(
    r"(?P<prefix>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(/(?P<name>[^/]+))?(/(?P<sub>[^/]+))?"
)
_IN = re.compile(r"([\w./-]+)\s+(in|notin)\s+\(([^()]*)\)")
_EQUAL = re.compile(r"([\w./-]+)\s*(==|!=|=)\s*([\w.-]*)")
_EXISTS = re.compile(r"(!?)\s*([\w./-]+)")
_WORDS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 429: "TooManyRequests"}


@dataclass(frozen=True)
class Resource:
    """A kind of objects: ``version`` as in apiVersion."""

    version: str
    kind: str
    plural: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]

    @property
    def prefix(self) -> str:
        return f"/apis/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def quoted(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def type_meta(self) -> Json:
        return {"apiVersion": self.version, "kind": self.kind}

    def listed(self, item: Json) -> Json:
        """As in a list: an item of a built-in kind says neither its kind nor its apiVersion."""
        built_in = "." not in self.group or self.group.endswith(".k8s.io")
        return {key: value for key, value in item.items() if not (built_in and key in self.type_meta)}


RESOURCES = (
    Resource("v1", "Pod", "pods", subresources=("status",)),
    Resource("v1", "Node", "nodes", namespaced=False, subresources=("status",)),
    Resource("v1", "Namespace", "namespaces", namespaced=False),
    Resource("v1", "ConfigMap", "configmaps"),
    Resource("v1", "Event", "events"),
    Resource("apps/v1", "Deployment", "deployments", subresources=("scale", "status")),
    Resource("apps/v1", "StatefulSet", "statefulsets", subresources=("scale", "status")),
    Resource("apps/v1", "ReplicaSet", "replicasets", subresources=("scale", "status")),
    Resource("coordination.k8s.io/v1", "Lease", "leases"),
    Resource("keda.sh/v1alpha1", "ScaledObject", "scaledobjects", subresources=("status",)),
)


class Refused(Exception):
    """An answer that is a Status."""

    def __init__(self, code: int, message: str, reason: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or _WORDS.get(code, "InternalError"),
            "code": code,
        }


@dataclass(frozen=True)
class Place:
    """What a path names: an object, or a collection where ``name`` is empty; of all namespaces where ``namespace`` is."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    sub: str = ""

    @classmethod
    def of(cls, path: str, resources: Iterable[Resource]) -> "Place":
        """Raises Refused for what is not served, as when a CRD is not installed."""
        found = _PATH.fullmatch(path)
        for one in resources:
            if found and (one.prefix, one.plural) == (found["prefix"], found["plural"]):
                place = cls(one, found["namespace"] or "", found["name"] or "", found["sub"] or "")
                if place.served:
                    return place
        raise Refused(404, "the server could not find the requested resource")

    @property
    def served(self) -> bool:
        """Whether it exists: a namespaced object in its namespace, a cluster's without one, and subresources that the kind has."""
        namespaced = self.resource.namespaced
        in_place = bool(self.namespace) == namespaced if self.name else namespaced or not self.namespace
        return in_place and (not self.sub or self.sub in self.resource.subresources)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def asked(self) -> str:
        """As permissions name it: deployments/scale."""
        return f"{self.resource.plural}/{self.sub}" if self.sub else self.resource.plural

    @property
    def quoted(self) -> str:
        return f'{self.resource.quoted} "{self.name}"' if self.name else self.resource.quoted

    def holds(self, other: "Place") -> bool:
        """Whether an object is in this collection."""
        return self.resource == other.resource and self.namespace in ("", other.namespace)

    def completed(self, body: Json, before: Json | None, number: int, now: float) -> Json:
        """An object as stored, but for its version: a change of anything but metadata and status is a new generation."""
        metadata = {**body.get("metadata", {}), "name": self.name}
        metadata |= {"namespace": self.namespace} if self.namespace else {}
        metadata.pop("resourceVersion", None)
        if before is None:
            metadata.setdefault("uid", str(UUID(int=number)))
            metadata.setdefault("creationTimestamp", datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        else:
            metadata |= {key: before["metadata"][key] for key in ("uid", "creationTimestamp", "resourceVersion")}
        after = {**self.resource.type_meta, **body, "metadata": metadata}
        if "spec" in after:
            known = 0 if before is None else before["metadata"].get("generation", 0)
            metadata["generation"] = known + (before is None or before.get("spec") != after["spec"])
        return after


@dataclass(frozen=True)
class Change:
    """One step of history: an object before and after; None is its absence."""

    version: int
    place: Place
    before: Json | None
    after: Json | None

    def event(self, scope: Place, fits: Callable[[Json], bool]) -> Json | None:
        """As a watch with a selector sees it: what leaves the selection is deleted, as it last was, at the version of the change."""
        was, now = (item is not None and scope.holds(self.place) and fits(item) for item in (self.before, self.after))
        if now:
            return {"type": "MODIFIED" if was else "ADDED", "object": self.after}
        if not was or self.before is None:
            return None
        metadata = {**self.before["metadata"], "resourceVersion": str(self.version)}
        return {"type": "DELETED", "object": {**self.before, "metadata": metadata}}


def selected(selector: str) -> Callable[[Json], bool]:
    """A label selector as a question. Raises Refused where it is none."""
    wanted = [_requirement(text.strip()) for text in re.split(r",(?![^(]*\))", selector) if text.strip()]
    return lambda item: all(fits(item["metadata"].get("labels") or {}) for fits in wanted)


def _requirement(text: str) -> Callable[[Json], bool]:
    if found := _IN.fullmatch(text):
        key, operator, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda labels: (labels.get(key) in values) == (operator == "in")
    if found := _EQUAL.fullmatch(text):
        key, operator, value = found.groups()
        return lambda labels: (labels.get(key) == value) == (operator != "!=")
    if found := _EXISTS.fullmatch(text):
        absent, name = bool(found[1]), found[2]
        return lambda labels: (name in labels) != absent
    raise Refused(400, f"unable to parse requirement: {text}", "BadRequest")


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


def scale_of(item: Json) -> Json:
    """The autoscaling/v1 Scale of an object with a ``scale`` subresource; the selector is its own, or what its status says."""
    spec, told = item.get("spec", {}), item.get("status", {})
    labels = spec.get("selector", {}).get("matchLabels", {})
    selector = told.get("selector") or ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    known = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: item["metadata"][key] for key in known if key in item["metadata"]},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": told.get("replicas", 0), "selector": selector},
    }


def discovery(path: str, resources: Iterable[Resource]) -> Json | None:
    """The APIResourceList of a group and version; None where the path is another one or nothing is served there."""
    served = [one for one in resources if one.prefix == path]
    rows = [
        {
            "name": name,
            "singularName": "",
            "namespaced": one.namespaced,
            "kind": kind,
            "verbs": ["get", "list", "watch"],
        }
        for one in served
        for name, kind in [
            (one.plural, one.kind),
            *((f"{one.plural}/{sub}", "Scale" if sub == "scale" else one.kind) for sub in one.subresources),
        ]
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].version if served else ""}
    return {**head, "resources": rows} if served else None
