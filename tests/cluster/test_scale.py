"""Scale subresources: where they are, and what they say."""

import pytest

from scaler.cluster.api import NotFound
from scaler.cluster.scale import NotScalable, Scale, ScalePaths, scale_of
from scaler.cluster.scaled_objects import TargetRef
from scaler.cluster.selectors import selector_of
from tests.support.cluster_objects import scale
from tests.support.unasked import Unasked

DEPLOYMENT = TargetRef("apps/v1", "Deployment", "llama")
GROUPS = TargetRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llama")
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


class Served(Unasked):
    """What an API server says of its groups; counts how often it is asked."""

    def __init__(self, *resources: tuple[str, str]) -> None:
        self.asked: list[str] = []
        self._resources = resources

    async def get(self, path):
        self.asked.append(path)
        if not self._resources:
            raise NotFound("cannot get: the server could not find the requested resource")
        return {"resources": [{"name": name, "kind": kind} for name, kind in self._resources]}


def test_a_scale_tells_the_count_and_the_pods():
    assert scale_of(scale(3), DEPLOYMENT) == Scale(3, selector_of("app=llama"))


def test_a_count_that_is_left_out_is_zero():
    assert scale_of(scale(0), DEPLOYMENT).replicas == 0


@pytest.mark.parametrize("selector", ["", "cpu > 3"])
def test_a_target_that_does_not_say_which_its_pods_are_cannot_be_followed(selector):
    with pytest.raises(NotScalable, match="Deployment llama must name the selector"):
        scale_of(scale(3, selector), DEPLOYMENT)


def test_of_a_leader_worker_set_only_leaders_are_replicas():
    bare, told = scale(2, "leaderworkerset.sigs.k8s.io/name=llama"), scale(2, f"name=llama,{INDEX}=0")
    found = [scale_of(item, GROUPS).selector for item in (bare, told)]

    assert found == [
        selector_of(f"leaderworkerset.sigs.k8s.io/name=llama,{INDEX}=0"),
        selector_of(f"name=llama,{INDEX}=0"),
    ]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (DEPLOYMENT, "/apis/apps/v1/namespaces/prod/deployments/llama/scale"),
        (TargetRef("apps/v1", "StatefulSet", "llama"), "/apis/apps/v1/namespaces/prod/statefulsets/llama/scale"),
        (GROUPS, "/apis/leaderworkerset.x-k8s.io/v1/namespaces/prod/leaderworkersets/llama/scale"),
    ],
)
async def test_built_in_kinds_are_asked_about_by_nobody(target, path):
    served = Served()

    assert (await ScalePaths(served).path("prod", target), served.asked) == (path, [])


async def test_any_other_kind_is_looked_up_once():
    served = Served(("rollouts", "Rollout"), ("rollouts/scale", "Scale"), ("analysisruns", "AnalysisRun"))
    paths, root = ScalePaths(served), "/apis/argoproj.io/v1alpha1"
    found = [await paths.path("prod", TargetRef("argoproj.io/v1alpha1", "Rollout", name)) for name in ("a", "b")]

    assert found == [f"{root}/namespaces/prod/rollouts/{name}/scale" for name in ("a", "b")]
    assert served.asked == [root]


async def test_a_kind_of_the_core_group_is_looked_up_there():
    served = Served(("replicationcontrollers", "ReplicationController"), ("replicationcontrollers/scale", "Scale"))

    assert await ScalePaths(served).path("prod", TargetRef("v1", "ReplicationController", "a")) == (
        "/api/v1/namespaces/prod/replicationcontrollers/a/scale"
    )


async def test_a_kind_without_a_scale_subresource_is_refused_and_looked_up_again():
    served = Served(("llminferenceservices", "LLMInferenceService"))
    paths, target = ScalePaths(served), TargetRef("serving.kserve.io/v1alpha1", "LLMInferenceService", "llama")
    for _ in range(2):
        with pytest.raises(NotScalable, match="no LLMInferenceService with a scale subresource"):
            await paths.path("prod", target)

    assert len(served.asked) == 2


@pytest.mark.parametrize(
    "target",
    [
        TargetRef("apps/v1", "Deployment", ""),
        TargetRef("apps/v1", "Deployment", ".."),
        TargetRef("apps/v1", "Deployment", "../../other/deployments/llama"),
        TargetRef("apps/v1", "Deployment", "llama?fieldManager=x"),
        TargetRef("apps/v1", "Deployment", "l" * 254),
        TargetRef("../../api/v1", "Deployment", "llama"),
        TargetRef("apps/v1/namespaces/other", "Deployment", "llama"),
    ],
)
async def test_what_is_no_name_leads_nowhere(target):
    served = Served()
    with pytest.raises(NotScalable, match="scaleTargetRef must give the name"):
        await ScalePaths(served).path("prod", target)
    assert served.asked == []


async def test_a_group_that_is_not_installed_is_the_servers_own_word():
    with pytest.raises(NotFound):
        await ScalePaths(Served()).path("prod", TargetRef("gone.example/v1", "Thing", "a"))
