"""Which GPUs pods hold, and in which phase."""

from typing import Any

import pytest

from scaler.cluster.gpus import GROUP_SIZE, gpus_of, named
from scaler.cluster.lives import Memory, Times, remember
from scaler.cluster.pods import pod_of
from scaler.cluster.scale import scale_of
from scaler.cluster.scaled_objects import Service, named_workload
from scaler.cluster.snapshots import Known, snapshot_of
from scaler.core.model import GpuPhase, GpuUse
from tests.support.cluster_objects import WALL, Json, loading, pod, scale, scaled_object, serving, vllm

OFFSET, NOW = WALL - 1000.0, 1100.0
H100 = "NVIDIA-H100-80GB-HBM3"
FOUR = {"containers": [vllm(resources={"limits": {"nvidia.com/gpu": "4", "memory": "64Gi"}})]}


def asking(*containers: Json, **more: Any) -> Json:
    return pod("llama-0", spec={"containers": [vllm(resources=one) for one in containers], **more})


@pytest.mark.parametrize(
    ("item", "gpus"),
    [
        pytest.param(asking({"limits": {"nvidia.com/gpu": "4", "cpu": "8"}}), {"": 4}, id="limits"),
        pytest.param(asking({"requests": {"amd.com/gpu": "8"}}), {"": 8}, id="requests"),
        pytest.param(
            asking({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}), {"": 1}, id="both are one"
        ),
        pytest.param(
            asking({"limits": {"nvidia.com/gpu": "1"}}, {"limits": {"nvidia.com/gpu": "2"}}), {"": 3}, id="all"
        ),
        pytest.param(
            asking({"limits": {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu.shared": "1"}}),
            {"MIG-1g.10gb": 2, "SHARED": 1},
            id="parts of a GPU",
        ),
        pytest.param(
            asking({}, initContainers=[vllm(resources={"limits": {"nvidia.com/gpu": "1"}})]), {}, id="init containers"
        ),
        pytest.param(asking({"limits": {"rdma/ib": "8", "gpu.intel.com/i915_monitoring": "1"}}), {}, id="no GPU"),
        pytest.param(asking({"limits": {"nvidia.com/gpu": "0"}}), {}, id="none"),
        pytest.param(asking({"limits": {"nvidia.com/gpu": "many"}}), {}, id="garbled"),
        pytest.param(
            pod("llama-0", spec=FOUR, metadata={"annotations": {GROUP_SIZE: "2"}}), {"": 8}, id="a group's leader"
        ),
        pytest.param(pod("llama-0", spec=FOUR, metadata={"annotations": {GROUP_SIZE: "all"}}), {"": 4}, id="no size"),
    ],
)
def test_a_pod_holds_what_its_containers_ask_for(item, gpus):
    assert gpus_of(item) == gpus


@pytest.mark.parametrize(
    ("product", "kind", "name"), [("L40S", "", "L40S"), ("L40S", "SHARED", "L40S-SHARED"), ("", "SHARED", "SHARED")]
)
def test_a_part_of_a_gpu_is_named_as_the_label_of_a_node_would(product, kind, name):
    assert named(product, kind) == name


def held(*items: Json, product: str = H100, **more: Any) -> dict[GpuUse, int]:
    workload = named_workload(scaled_object(), frozenset({Service("slo-scaler", "keda")}))
    assert workload is not None
    pods = tuple(map(pod_of, items))
    memory = remember(Memory(), pods, Times(NOW, NOW, OFFSET), lambda _: product)
    known = Known(workload, scale_of(scale(2), workload.target), pods, memory, NOW, class_of=lambda _: product, **more)
    return dict(snapshot_of(known, NOW).replicas.gpus)


def test_gpus_are_held_from_a_node_s_taking_the_pod_until_it_is_gone():
    going = serving("d", spec=FOUR, metadata={"deletionTimestamp": "2026-09-21T14:00:00Z"})
    over = loading("e", spec=FOUR, status={"phase": "Failed"})
    found = held(pod("a", spec=FOUR), loading("b", spec=FOUR), serving("c", spec=FOUR), going, over)
    assert found == {GpuUse(H100, phase): 4 for phase in GpuPhase}


def test_a_replica_that_is_not_ready_any_more_is_starting():
    lost = serving("a", spec=FOUR)
    lost["status"]["conditions"][3]["status"] = "False"
    assert held(lost) == {GpuUse(H100, GpuPhase.STARTING): 4}


def test_what_is_on_a_node_whose_kind_is_being_found_out_is_not_told_yet():
    assert held(loading("a", spec=FOUR), settled=lambda _: False) == {}


def test_on_a_node_of_an_unknown_kind_the_product_is_not_known():
    assert held(loading("a", spec=FOUR), product="") == {GpuUse("", GpuPhase.STARTING): 4}


def test_replicas_without_gpus_hold_none():
    assert held(serving("a")) == {}
