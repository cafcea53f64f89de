"""The scale subresource of whatever a ScaledObject scales: how many replicas are asked for, and which pods they are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaler.cluster.api import Api, ApiError, Json
from scaler.cluster.fields import count, objects, text
from scaler.cluster.refusals import short
from scaler.cluster.scaled_objects import TargetRef
from scaler.cluster.selectors import Selector, selector_of

LEADER_WORKER_SET = "LeaderWorkerSet"
WORKER_INDEX, LEADER = "leaderworkerset.sigs.k8s.io/worker-index", "0"
PLURALS = {
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("leaderworkerset.x-k8s.io/v1", LEADER_WORKER_SET): "leaderworkersets",
}
"""Kinds that need no question to the API server."""
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}", re.ASCII)
_API_VERSION = re.compile(r"([a-z0-9][-.a-z0-9]*/)?[a-z0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many replicas are asked for, and the selector of their pods."""

    replicas: int
    selector: Selector


class NotScalable(ApiError):
    """The target has no scale subresource, or one that does not say which its pods are."""


def scale_of(item: Json, target: TargetRef) -> Scale:
    """What a scale subresource says. Zero replicas are left out of the JSON. Raises NotScalable.

    Of a LeaderWorkerSet's group only the leader counts: it answers for the group, and is ready when the group is.
    """
    try:
        selector = selector_of(text(item, "status", "selector"))
    except ValueError:
        told = short(text(item, "status", "selector")) or "none"
        raise NotScalable(
            f"the scale subresource of {target} must name the selector of its pods; it says {told}"
        ) from None
    if target.kind == LEADER_WORKER_SET:
        selector = selector.requiring(WORKER_INDEX, LEADER)
    return Scale(count(item, "spec", "replicas") or 0, selector)


class ScalePaths:
    """Finds the path of a target's scale subresource. Asks the API server once for each kind that is not built in."""

    def __init__(self, api: Api) -> None:
        """Nothing is known but the built-in kinds."""
        self._api = api
        self._plurals = dict(PLURALS)

    async def path(self, namespace: str, target: TargetRef) -> str:
        """Where the scale of a target is read. Raises ApiError, NotScalable among them.

        Whoever may write a ScaledObject names the target. What is no name could lead out of its namespace, with our permissions.
        """
        if not (_NAME.fullmatch(target.name) and _API_VERSION.fullmatch(target.api_version)):
            raise NotScalable("scaleTargetRef must give the name of an object, and an apiVersion such as apps/v1")
        root = f"/apis/{target.api_version}" if "/" in target.api_version else f"/api/{target.api_version}"
        kind = (target.api_version, target.kind)
        if kind not in self._plurals:
            self._plurals[kind] = _plural(await self._api.get(root), target)
        return f"{root}/namespaces/{namespace}/{self._plurals[kind]}/{target.name}/scale"


def _plural(served: Json, target: TargetRef) -> str:
    """What the resource of the target's kind is called, from the list of what its group and version serve."""
    kinds = {text(one, "name"): text(one, "kind") for one in objects(served, "resources")}
    found = [name for name, kind in kinds.items() if kind == target.kind and f"{name}/scale" in kinds]
    if not found:
        raise NotScalable(
            f"{target.api_version} has no {target.kind} with a scale subresource; scaleTargetRef must name something that can be scaled"
        )
    return found[0]
