"""What a cluster says of one workload. Read only, one ScaledObject and what is around it in its namespace."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from random import Random

from scaler.checks import Versions
from scaler.cli.check_files import configuration_of, configured
from scaler.cli.check_objects import HPA, PDB, SCALED, Gathered, scaled_object_of, scaled_objects
from scaler.cluster.api import Api, ApiError, Forbidden, Json
from scaler.cluster.client import Client
from scaler.cluster.fields import mapping, objects, strings, text
from scaler.cluster.scale import ScalePaths
from scaler.cluster.scaled_objects import DEFAULT_API_VERSION, DEFAULT_KIND, TargetRef
from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError
from scaler.settings import Configuration

COLLECTIONS = {
    HPA: "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    PDB: "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    SCALED: "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects",
}
KEDA = ("keda", "openshift-keda")
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


async def look(
    kubeconfig: Path, key: WorkloadKey, configuration: Configuration | None
) -> tuple[Gathered, tuple[str, ...]]:
    """As ``gather``, of the cluster of a kubeconfig's current context. Raises ConfigError."""
    async with aclosing(Client.from_kubeconfig(kubeconfig, Random())) as api:  # its jitter is for watches
        return await gather(api, key, configuration)


async def gather(api: Api, key: WorkloadKey, configuration: Configuration | None) -> tuple[Gathered, tuple[str, ...]]:
    """The objects around one workload, and what could not be read. Raises ConfigError where there is no such ScaledObject to read."""
    notes: list[str] = []
    try:
        ours = await api.get(f"{COLLECTIONS[SCALED].format(key.namespace)}/{key.name}")
    except ApiError as error:
        raise ConfigError(f"--workload: {error}") from None
    ours |= {"kind": SCALED}
    if not scaled_objects([ours]):
        raise ConfigError(f"--workload: ScaledObject {key} has no trigger of type external or external-push")
    items, unseen = [ours], set()
    items += [one async for one in _target(api, key.namespace, ours, notes)]
    for kind, path in COLLECTIONS.items():
        try:
            found = [one | {"kind": kind} async for one in _all(api, path.format(key.namespace))]
        except ApiError as error:
            unseen.add(kind)
            notes.append(str(error))
            continue
        items += [one for one in found if kind != SCALED or text(one, "metadata", "name") != key.name]
    configuration = configuration or await _configuration(api, ours, notes)
    return Gathered(tuple(items), configuration, True, await _versions(api, notes), frozenset(unseen)), tuple(notes)  # noqa: FBT003


async def _all(api: Api, path: str) -> AsyncIterator[Json]:
    token, first = "", True
    while first or token:
        page = await api.page(path, token=token)
        for item in page.items:
            yield item
        token, first = page.next_token, False


async def _target(api: Api, namespace: str, ours: Json, notes: list[str]) -> AsyncIterator[Json]:
    ref = mapping(ours, "spec", "scaleTargetRef")
    kind = text(ref, "kind") or DEFAULT_KIND
    target = TargetRef(text(ref, "apiVersion") or DEFAULT_API_VERSION, kind, text(ref, "name"))
    try:
        path = await ScalePaths(api).path(namespace, target)
        yield await api.get(path.removesuffix("/scale")) | {"kind": kind}
    except ApiError as error:
        notes.append(str(error))


async def _configuration(api: Api, ours: Json, notes: list[str]) -> Configuration | None:
    """The scaler's own, in the ConfigMap that its Service is named like."""
    host = scaled_object_of(ours).ours.metadata.get("scalerAddress", "").rpartition("/")[2].partition(":")[0]
    name, _, rest = host.partition(".")
    namespace = rest.partition(".")[0]
    if not (name and namespace):
        return None
    try:
        item = await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}") | {"kind": "ConfigMap"}
    except ApiError as error:
        notes.append(f"the scaler's configuration is not seen, name its file beside --cluster: {error}")
        return None
    body = configured(item)
    return configuration_of({f"ConfigMap {namespace}/{name}": body}) if body else None


async def _versions(api: Api, notes: list[str]) -> Versions:
    try:
        told = await api.get("/version")
        kubernetes = _version(f"{told.get('major', '')}.{told.get('minor', '')}")
    except ApiError as error:
        notes.append(str(error))
        kubernetes = None
    for namespace in KEDA:
        try:
            operator = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/keda-operator")
        except Forbidden as error:
            notes.append(str(error))
            break
        except ApiError:
            continue
        return Versions(kubernetes, _keda(operator))
    return Versions(kubernetes)


def _keda(operator: Json) -> tuple[int, int] | None:
    """By its label, or the tag of its image."""
    labelled = strings(operator, "metadata", "labels").get("app.kubernetes.io/version", "")
    containers = objects(operator, "spec", "template", "spec", "containers")
    tags = [text(one, "image").partition("@")[0].rpartition(":")[2] for one in containers]
    return next((found for word in (labelled, *tags) if (found := _version(word))), None)


def _version(written: str) -> tuple[int, int] | None:
    found = _VERSION.match(written)
    return (int(found[1]), int(found[2])) if found else None
