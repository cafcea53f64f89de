"""How many GPUs a pod holds, by what it asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from scaler.cluster.api import Json
from scaler.cluster.fields import mapping, objects, quantity, strings

WHOLE = frozenset(
    {
        *("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
        *("habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron"),
    }
)
"""Resources that are whole devices."""
PART = re.compile(r"nvidia\.com/(?:gpu\.(shared)|mig-([a-z0-9.]+))", re.ASCII)
"""What NVIDIA's device plugin calls a GPU that several share, and a slice of one."""
GROUP_SIZE = "leaderworkerset.sigs.k8s.io/size"
"""Stands on every pod of a LeaderWorkerSet: how many pods its group has."""
MOST_A_POD = 10_000


def gpus_of(item: Json) -> Mapping[str, int]:
    """Devices by what the name of their product goes on with: nothing for whole ones, ``SHARED``, or ``MIG-1g.10gb``.

    Init containers are over before the model is loaded. The leader of a group stands for its pods: they are thought to ask for the same.
    """
    found = Counter[str]()
    for container in objects(item, "spec", "containers"):
        asked = mapping(container, "resources", "requests") | mapping(container, "resources", "limits")
        for name in asked:
            kind = _kind(name)
            if kind is not None and (count := quantity(asked, name)):
                found[kind] += int(count)
    size = strings(item, "metadata", "annotations").get(GROUP_SIZE, "1")
    times = int(size) if size.isascii() and size.isdigit() and len(size) < len(str(MOST_A_POD)) else 1
    return {kind: min(MOST_A_POD, times * count) for kind, count in found.items() if times * count}


def named(product: str, kind: str) -> str:
    """The name of a device as the label of a node has it where every device of the node is of that kind."""
    return "-".join(filter(None, (product, kind)))


def _kind(resource: str) -> str | None:
    if resource in WHOLE:
        return ""
    part = PART.fullmatch(resource)
    return None if part is None else part[1].upper() if part[1] else f"MIG-{part[2]}"
