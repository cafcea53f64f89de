"""Pods: which serve, how far a start has come, and what keeps one from starting."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.cluster.arguments import EngineFacts
from scaler.cluster.pods import UNSCHEDULABLE_S, Pod, pod_of, serving_container
from tests.support.cluster_objects import WALL, condition, loading, pod, serving, stamp, vllm

NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
STARTED = {"startedAt": stamp(WALL + 21)}


def test_a_pod_that_serves_tells_all_its_times():
    assert pod_of(serving("llama-0")) == Pod(
        name="llama-0",
        uid="uid-llama-0",
        labels={"app": "llama"},
        created_at=WALL,
        ready=True,
        terminating=False,
        over=False,
        address="10.0.0.7",
        facts=EngineFacts(),
        engine_version="0.32.0",
        node="gpu-1",
        scheduled_at=WALL + 1,
        initialized_at=WALL + 11,
        started_at=WALL + 21,
        ready_at=WALL + 61,
    )


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32.0"),
        ("registry.local:5000/mirror/vllm-openai:0.11.0rc1-cu129@sha256:00ff", "0.11.0"),
        ("lmsysorg/sglang:v0.5.4.post1-cu126", "0.5.4"),
        ("vllm/vllm-openai:latest", ""),
        ("vllm/vllm-openai:cu12.9-nightly", ""),
        ("vllm/vllm-openai", ""),
        ("vllm/vllm-openai@sha256:00ff", ""),
        ("localhost:5000/vllm-openai", ""),
        ("kserve/huggingfaceserver:v0.15.2", ""),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", ""),
        ("vllm/router:v0.1.5", ""),
    ],
)
def test_the_engines_version_is_that_of_an_image_which_is_named_for_it(image, version):
    found = pod_of(serving("llama-0", spec={"containers": [{**vllm(), "image": image}]}))

    assert found.engine_version == version


def test_a_pod_that_loads_its_model_is_not_ready_and_has_lost_nothing():
    found = pod_of(loading("llama-0"))

    assert (found.ready, found.alive, found.ready_at, found.lost_ready_at) == (False, True, None, None)


def test_a_pod_that_terminates_or_has_ended_is_no_replica():
    leaving = serving("llama-0", metadata={"deletionTimestamp": stamp(WALL + 99)})
    evicted = serving("llama-1", status={"phase": "Failed"})

    assert [pod_of(item).alive for item in (leaving, evicted)] == [False, False]


def test_a_ready_pod_without_an_address_cannot_be_read_and_is_not_ready():
    assert not pod_of(serving("llama-0", status={"podIP": None})).ready


def test_a_pod_whose_probe_fails_after_it_served_has_lost_its_readiness():
    flapping = serving("llama-0")
    flapping["status"]["conditions"][-1] = condition("Ready", "False", WALL + 500)

    assert pod_of(flapping).lost_ready_at == WALL + 500


def test_a_container_that_restarts_after_it_served_has_lost_its_readiness_when_it_fell():
    fallen = loading("llama-0")
    fallen["status"]["conditions"][-1] = condition("Ready", "False", WALL + 500)
    fallen["status"]["containerStatuses"] = [
        {
            "name": "main",
            "state": {"running": {"startedAt": stamp(WALL + 502)}},
            "lastState": {"terminated": {**STARTED, "reason": "OOMKilled"}},
        }
    ]

    assert (pod_of(fallen).lost_ready_at, pod_of(fallen).failure) == (WALL + 500, "")


def crashed(**last) -> dict:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    ended = {**STARTED, "exitCode": 1, "reason": "Error", **last}
    return {"containerStatuses": [{"name": "main", "state": {"waiting": waiting}, "lastState": {"terminated": ended}}]}


def init(state: dict) -> dict:
    return {"initContainerStatuses": [{"name": "storage-initializer", "state": state}]}


def waiting(reason: str, message: str = "") -> dict:
    return {"waiting": {"reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        pytest.param(
            {"containerStatuses": [{"name": "main", "state": waiting("ContainerCreating")}]}, "", id="creating"
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "state": waiting("ImagePullBackOff", "Back-off pulling image")}]},
            "ImagePullBackOff: Back-off pulling image",
            id="no image",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main"}, {"name": "proxy", "state": waiting("InvalidImageName")}]},
            "InvalidImageName",
            id="a helper",
        ),
        pytest.param(
            crashed(),
            "CrashLoopBackOff: Error, exit code 1; back-off 40s restarting failed container",
            id="crashes",
        ),
        pytest.param(
            crashed(exitCode=137, reason="OOMKilled"),
            "CrashLoopBackOff: OOMKilled, exit code 137; back-off 40s restarting failed container",
            id="no memory",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": {"running": STARTED},
                        "lastState": {"terminated": {"reason": "OOMKilled"}},
                    }
                ]
            },
            "OOMKilled: its last run took more memory than it may",
            id="no memory, and tries again",
        ),
        pytest.param(init({"terminated": {"exitCode": 0}}), "", id="init has done its work"),
        pytest.param(
            init({"terminated": {"exitCode": 1, "reason": "Error"}}),
            "init container storage-initializer: exit code 1, Error",
            id="init failed",
        ),
        pytest.param(
            init(waiting("CrashLoopBackOff", "back-off 10s")),
            "init container storage-initializer: CrashLoopBackOff: back-off 10s",
            id="init crashes",
        ),
        pytest.param({"reason": "NodeLost"}, "NodeLost", id="its node is gone"),
    ],
)
def test_what_went_wrong_with_a_start_is_told_and_is_stuck_at_once(status, failure):
    found = pod_of(pod("llama-0", status=status))

    assert (found.failure, found.stuck(0.0)) == (failure, failure)


def test_a_long_message_is_cut():
    status = {"containerStatuses": [{"name": "main", "state": waiting("ErrImagePull", "x" * 500)}]}

    assert len(pod_of(pod("llama-0", status=status)).failure) == 120


def test_a_pod_without_a_node_is_stuck_only_after_the_time_in_which_an_autoscaler_adds_one():
    found = pod_of(
        pod("llama-0", status={"conditions": [condition("PodScheduled", "False", WALL, "Unschedulable", NO_GPU)]})
    )

    assert (found.stuck(UNSCHEDULABLE_S), found.stuck(UNSCHEDULABLE_S + 1)) == ("", f"Unschedulable: {NO_GPU}")


def gpu(name: str) -> dict:
    return {"name": name, "image": "registry.example/a:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def plain(name: str, **rest) -> dict:
    return {
        "name": name,
        "image": "registry.example/proxy:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        **rest,
    }


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        pytest.param(
            [plain("istio-proxy"), gpu("x"), vllm("kserve-container")], "kserve-container", id="KServe's name"
        ),
        pytest.param([plain("istio-proxy"), vllm("engine"), gpu("x")], "x", id="the one with a device"),
        pytest.param([plain("istio-proxy"), vllm("engine")], "engine", id="the one with an engine's image"),
        pytest.param(
            [plain("a"), plain("b", command=["python", "-m", "sglang.launch_server"])], "b", id="by its command"
        ),
        pytest.param([plain("a"), plain("b")], "a", id="the first"),
        pytest.param([], "", id="none"),
    ],
)
def test_the_serving_container_is_found_among_helpers(containers, name):
    assert serving_container({"spec": {"containers": containers}}).get("name", "") == name


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"nodeSelector": {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-H100"}}, "NVIDIA-H100"),
        ({"nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}, "p5.48xlarge"),
        ({}, ""),
    ],
)
def test_the_class_of_node_that_a_pod_asks_for_is_a_hint(spec, hint):
    assert pod_of(pod("llama-0", spec=spec)).node_hint == hint


def affinity(*values: str) -> dict:
    expression = {"key": "cloud.google.com/gke-accelerator", "operator": "In", "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def test_an_affinity_for_one_class_is_a_hint_and_for_several_is_none():
    hints = [
        pod_of(pod("llama-0", spec=affinity(*classes))).node_hint
        for classes in (["nvidia-l4"], ["nvidia-l4", "nvidia-t4"])
    ]

    assert hints == ["nvidia-l4", ""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["True", "Ready", "main", stamp(WALL)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "status",
                    "name",
                    "state",
                    "lastState",
                    "running",
                    "terminated",
                    "waiting",
                    "startedAt",
                    "reason",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)
PARTS = [
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "containers",
    "nodeSelector",
    "affinity",
    "labels",
    "podIP",
]


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), st.dictionaries(st.sampled_from(PARTS), JSON)))
def test_no_pod_however_odd_is_refused(item):
    found = pod_of(item)

    assert replace(found, name="") == found
