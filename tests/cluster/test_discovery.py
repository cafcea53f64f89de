"""Discovery through the real client against the stand-in for the API server: workloads, their replicas, and what may go wrong."""

import asyncio
import itertools

import pytest

from scaler.control.ports import Snapshot, Target
from scaler.core.model import Kind, ReplicaSet, Starting, WorkloadKey
from scaler.core.platform import Platform
from tests.support.cluster_objects import WALL, deployment, hpa, loading, scaled_object, serving, trigger, vllm
from tests.support.discovery import LLAMA, World, discovering, put, put_llama, put_pod

MISTRAL = WorkloadKey("prod", "mistral")
POD = "/api/v1/namespaces/prod/pods/{}"
SCALED = "/apis/keda.sh/v1alpha1/namespaces/prod/scaledobjects/{}"


def mistral(name: str) -> dict:
    return serving(name, {"app": "mistral"})


async def test_a_scaled_object_that_names_us_is_a_workload_with_its_replicas():
    def prepare(api):
        put_llama(api, serving("llama-0"), loading("llama-1", created_at=WALL - 30), replicas=2)

    async with discovering(prepare=prepare) as world:
        await world.until_known()

        assert world.told.words == [("named", LLAMA)]
        assert world.snapshot() == Snapshot(
            ReplicaSet(
                *(("llama-0",), (Starting("llama-1", 970.0),), 2, 1000.0),
                max_replicas=8,
                kinds={"llama-0": Kind("", "0.32.0")},
                newest=Kind("", "0.32.0"),
                platform=Platform("Deployment llama", asked=2, pods=2),
            ),
            (Target("llama-0", "10.0.0.7:8000", discovered=True),),
        )


async def test_a_scaled_object_that_names_another_scaler_is_none_of_ours():
    def prepare(api):
        put_llama(api)
        put(api, "scaledobjects", "other", scaled_object("other", "prod", trigger("other.keda.svc:6000")))

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        why = world.discovery.why(WorkloadKey("prod", "other"))

        assert world.told.words == [("named", LLAMA)]
        assert why == (
            "no ScaledObject prod/other has a trigger whose scalerAddress is this scaler's"
            " (slo-scaler.keda, and the port), or is a shadow"
        )


async def test_a_change_of_status_tells_nothing():
    async with discovering(prepare=put_llama) as world:
        await world.until_known()
        put(world.api, "scaledobjects", "llama", scaled_object(status={"lastActiveTime": "2026-08-20T10:00:00Z"}))
        put_llama(world.api, name="mistral")
        await world.until_known(MISTRAL)

        assert world.told.words == [("named", LLAMA), ("named", MISTRAL)]


async def test_an_edit_tells_what_is_said_now():
    async with discovering(prepare=put_llama) as world:
        await world.until_known()
        put(world.api, "scaledobjects", "llama", scaled_object(maxReplicaCount=3))
        await world.until(lambda replicas: replicas.max_replicas == 3)

        assert world.told.words == [("named", LLAMA), ("named", LLAMA)]
        assert world.told.newest[LLAMA].bounds.max_replicas == 3


async def test_of_a_namespace_whose_last_workload_is_gone_nothing_is_watched():
    async with discovering(prepare=put_llama) as world:
        await world.until_known()
        world.api.delete(SCALED.format("llama"))

        await world.api.until(lambda: watched(world) == ["scaledobjects"])


async def test_of_a_workload_that_is_gone_nothing_is_asked_though_others_stay():
    def prepare(api):
        put_llama(api)
        put_llama(api, name="mistral")

    async with discovering(prepare=prepare) as world:
        await world.until_known(LLAMA, MISTRAL)
        world.api.delete(SCALED.format("mistral"))

        await world.api.until(lambda: asked_about() == {"scale of prod/llama"})
        assert world.replicas().current == 1


def watched(world: World) -> list[str]:
    return sorted(watch.place.resource.plural for watch in world.api.watches)


def asked_about() -> set[str]:
    return {name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("scale of")}


async def test_a_scaled_object_that_is_deleted_is_gone_and_one_that_returns_is_new():
    async with discovering(prepare=put_llama) as world:
        await world.until_known()
        world.api.delete(SCALED.format("llama"))
        await world.api.until(lambda: not world.told.newest)
        assert world.discovery.snapshot(LLAMA) is None
        put_llama(world.api)
        await world.until_known()

        assert world.told.words == [("named", LLAMA), ("gone", LLAMA), ("named", LLAMA)]


async def test_a_deletion_that_nobody_told_of_is_seen_in_the_next_list():
    async with discovering(prepare=put_llama) as world:
        await world.until_known()
        await world.api.away()
        world.api.delete(SCALED.format("llama"))
        world.api.compact()
        await world.api.back()

        await world.api.until(lambda: ("gone", LLAMA) in world.told.words)


async def test_only_the_named_namespaces_are_looked_at():
    def prepare(api):
        put_llama(api)
        put_llama(api, namespace="test")

    async with discovering("prod", "staging", prepare=prepare) as world:
        await world.until_known()
        why = [world.discovery.why(WorkloadKey(namespace, "llama")) for namespace in ("prod", "test")]

        assert why == ["", "namespace test is not among those that this scaler watches"]
        assert {asked.namespace for asked in world.api.requests if asked.resource == "scaledobjects"} == {
            "prod",
            "staging",
        }


@pytest.mark.fault("engine dies")
async def test_a_deleted_pod_is_no_capacity():
    def prepare(api):
        put_llama(api, serving("llama-0"), serving("llama-1"))

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: len(replicas.ready) == 2)
        world.api.delete(POD.format("llama-0"))

        await world.until(lambda replicas: replicas.ready == ("llama-1",))


async def test_pods_of_another_namespace_are_no_replicas_whatever_their_labels():
    def prepare(api):
        put_llama(api, serving("llama-0"))
        put_llama(api, serving("llama-9"), namespace="test")

    async with discovering(prepare=prepare) as world:
        other = WorkloadKey("test", "llama")
        await world.until_known(LLAMA, other)

        assert (world.replicas().ready, world.replicas(other).ready) == (("llama-0",), ("llama-9",))


async def test_the_pods_of_a_namespace_are_listed_once_for_all_its_workloads():
    def prepare(api):
        put_llama(api, serving("llama-0"))
        put_llama(api, mistral("mistral-0"), name="mistral")
        put_pod(api, serving("stranger", {"app": "stranger"}))

    async with discovering(prepare=prepare) as world:
        await world.until_known(LLAMA, MISTRAL)
        asked = [
            one.query.get("labelSelector") for one in world.api.requests if (one.verb, one.resource) == ("list", "pods")
        ]

        assert [world.replicas(key).ready for key in (LLAMA, MISTRAL)] == [("llama-0",), ("mistral-0",)]
        assert asked == ["app in (llama,mistral)"]


async def test_a_workload_that_joins_never_empties_the_others():
    def prepare(api):
        put_llama(api, serving("llama-0"))

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        seen, looks = set(), itertools.count()

        def joined() -> bool:
            put_pod(world.api, serving("llama-0", metadata={"annotations": {"look": str(next(looks))}}))
            seen.add(world.replicas().ready)
            return world.discovery.snapshot(MISTRAL) is not None

        world.api.slow_s = 0.05
        put(world.api, "scaledobjects", "mistral", scaled_object("mistral"))
        put(world.api, "deployments", "mistral", deployment("mistral", 1, {"model": "mistral"}))
        await world.api.until(joined)
        put_pod(world.api, serving("mistral-0", {"model": "mistral"}))
        await world.until(lambda replicas: replicas.ready == ("mistral-0",), MISTRAL)
        await world.api.until(lambda: watched(world).count("pods") == 1)

        assert seen == {("llama-0",)}


async def test_the_scale_is_read_again_when_the_hpa_moves_it():
    def prepare(api):
        put_llama(api, serving("llama-0"))
        put(api, "horizontalpodautoscalers", "keda-hpa-llama", hpa(desired=1, current=1))

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: replicas.current == 1)
        put(world.api, "deployments", "llama", deployment("llama", 5))
        put(world.api, "horizontalpodautoscalers", "keda-hpa-llama", hpa(desired=5, current=1))

        await world.until(lambda replicas: replicas.current == 5)


async def test_the_scale_is_read_again_when_pods_come_or_go():
    async with discovering(prepare=put_llama) as world:
        await world.until(lambda replicas: replicas.current == 1)
        put(world.api, "deployments", "llama", deployment("llama", 2))
        put_pod(world.api, loading("llama-1"))

        await world.until(lambda replicas: replicas.current == 2)


async def test_a_target_that_is_exchanged_is_followed_and_its_old_pods_are_no_replicas():
    def prepare(api):
        put_llama(api, serving("llama-0"))
        put(api, "deployments", "mistral", deployment("mistral"))
        put_pod(api, mistral("mistral-0"))

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        seen = set()

        def exchanged() -> bool:
            if world.told.newest[LLAMA].target.name == "mistral" and (found := world.discovery.snapshot(LLAMA)):
                seen.add(found.replicas.ready)
            return bool(seen)

        world.api.slow_s = 0.05
        put(world.api, "scaledobjects", "llama", scaled_object(scaleTargetRef={"name": "mistral"}))
        await world.api.until(exchanged)

        assert seen == {("mistral-0",)}


async def test_a_start_is_seen_to_its_end_with_the_class_of_its_node():
    def prepare(api):
        put_llama(api, loading("llama-0"))
        api.put("/api/v1/nodes/gpu-1", {"metadata": {"labels": {"nvidia.com/gpu.product": "H100"}}})

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: [one.node_class for one in replicas.starting] == ["H100"])
        world.clocks.now += 61
        put_pod(world.api, serving("llama-0"))
        await world.until(lambda replicas: replicas.ready)

        assert [(one.replica, one.created_at, one.ready_at, one.node_class) for one in world.replicas().started] == [
            ("llama-0", 1000.0, 1061.0, "H100")
        ]


async def test_a_replica_that_was_ready_before_anybody_looked_has_the_kind_of_its_node():
    def prepare(api):
        put_llama(api, serving("llama-0"))
        api.put("/api/v1/nodes/gpu-1", {"metadata": {"labels": {"nvidia.com/gpu.product": "H100"}}})

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: replicas.kinds == {"llama-0": Kind("H100", "0.32.0")})

        assert world.replicas().newest == Kind("H100", "0.32.0")


# Targets of other kinds.


async def test_a_leader_worker_sets_group_is_one_replica_and_its_leader_speaks_for_it():
    labels = "leaderworkerset.sigs.k8s.io/"

    def group(name: str, index: str, made) -> dict:
        return made(name, {f"{labels}name": "llama", f"{labels}worker-index": index})

    def prepare(api):
        ref = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llama"}
        put(api, "scaledobjects", "llama", scaled_object(scaleTargetRef=ref))
        put(api, "leaderworkersets", "llama", {"spec": {"replicas": 2}, "status": {"selector": f"{labels}name=llama"}})
        for item in (group("llama-0", "0", serving), group("llama-0-1", "1", serving), group("llama-1", "0", loading)):
            put_pod(api, item)

    async with discovering(prepare=prepare) as world:
        await world.until_known()

        assert (world.replicas().ready, [one.replica for one in world.replicas().starting]) == (
            ("llama-0",),
            ["llama-1"],
        )


async def test_a_kserve_predictor_is_followed_as_the_deployment_that_it_is():
    def prepare(api):
        put(api, "scaledobjects", "llama-predictor", scaled_object("llama-predictor"))
        put(api, "deployments", "llama-predictor", deployment("llama-predictor", 1, {"app": "isvc.llama-predictor"}))
        containers = [
            {"name": "queue-proxy", "image": "proxy"},
            vllm("kserve-container", "--port=8080", "--max-num-seqs=64"),
        ]
        put_pod(api, serving("llama-predictor-0", {"app": "isvc.llama-predictor"}, spec={"containers": containers}))

    async with discovering(prepare=prepare) as world:
        key = WorkloadKey("prod", "llama-predictor")
        await world.until_known(key)

        assert (world.snapshot(key).targets, world.replicas(key).engine_cap) == (
            (Target("llama-predictor-0", "10.0.0.7:8080", discovered=True),),
            64,
        )


async def test_any_kind_with_a_scale_subresource_is_followed():
    def prepare(api):
        ref = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "llama"}
        put(api, "scaledobjects", "llama", scaled_object(scaleTargetRef=ref))
        put(api, "rollouts", "llama", deployment("llama", 3))
        put_pod(api, serving("llama-0"))

    async with discovering(prepare=prepare) as world:
        await world.until_known()

        assert (world.replicas().ready, world.replicas().current) == (("llama-0",), 3)


# What may go wrong.


@pytest.mark.fault("API server is gone")
async def test_while_the_api_server_is_away_the_last_replicas_stand_and_age():
    def prepare(api):
        put_llama(api, serving("llama-0"), replicas=3)

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: replicas.current == 3)
        await world.api.away()
        await world.api.until(lambda: stale(world))
        world.clocks.now += 90
        replicas = world.replicas()

        assert (replicas.ready, replicas.current, replicas.observed_at) == (("llama-0",), 3, 1000.0)
        assert "replicas_old" in world.notes()
        await world.api.back()
        await world.until(lambda replicas: replicas.observed_at == 1090.0 and not replicas.notes)


def stale(world: World) -> bool:
    """Whether it has been noticed that no watch is open."""
    now = world.clocks.now
    world.clocks.now = now + 11
    old = "replicas_old" in world.notes()
    world.clocks.now = now
    return old


async def test_an_expired_watch_lists_again_and_empties_nothing():
    def prepare(api):
        put_llama(api, serving("llama-0"))

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        seen = set()

        def grown() -> bool:
            seen.add(world.replicas().ready)
            return world.replicas().ready == ("llama-0", "llama-1")

        await world.api.away()
        put_pod(world.api, serving("llama-1"))
        world.api.compact()
        await world.api.back()
        await world.api.until(grown)

        assert seen == {("llama-0",), ("llama-0", "llama-1")}


@pytest.mark.parametrize(
    ("verb", "resource"), [("list", "scaledobjects"), ("get", "deployments/scale"), ("list", "pods")]
)
async def test_a_permission_that_is_missing_is_named_and_its_grant_is_enough(verb, resource):
    def prepare(api):
        put_llama(api, serving("llama-0"))
        api.forbid(verb, resource)

    async with discovering(prepare=prepare) as world:
        await world.api.until(lambda: f"may not {verb} {resource}" in world.discovery.why(LLAMA))
        world.api.allow(verb, resource)
        await world.until_known()

        assert world.discovery.why(LLAMA) == ""


async def test_a_permission_that_is_withdrawn_takes_no_replica_away():
    def prepare(api):
        put_llama(api, serving("llama-0"), replicas=3)

    async with discovering(prepare=prepare) as world:
        await world.until(lambda replicas: replicas.current == 3)
        for verb, resource in (
            ("list", "pods"),
            ("watch", "pods"),
            ("get", "deployments/scale"),
            ("watch", "scaledobjects"),
        ):
            world.api.forbid(verb, resource)
        world.api.reset()
        await world.api.until(lambda: stale(world))
        world.clocks.now += 60

        assert (world.replicas().ready, world.replicas().current, world.replicas().observed_at) == (
            ("llama-0",),
            3,
            1000.0,
        )


async def test_without_hpas_and_nodes_replicas_are_known_all_the_same_and_it_is_told():
    def prepare(api):
        put_llama(api, loading("llama-0", spec={"nodeSelector": {"nvidia.com/gpu.product": "A100"}}))
        api.forbid("list", "horizontalpodautoscalers")
        api.forbid("get", "nodes")

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        world.clocks.now += 11
        await world.until(
            lambda replicas: {note.code for note in replicas.notes} == {"hpa_unknown", "node_class_unknown"}
        )

        assert [one.node_class for one in world.replicas().starting] == ["A100"]


async def test_a_target_that_does_not_exist_yet_is_followed_when_it_does():
    def prepare(api):
        put(api, "scaledobjects", "llama", scaled_object())

    async with discovering(prepare=prepare) as world:
        await world.api.until(lambda: "not found" in world.discovery.why(LLAMA))
        put(world.api, "deployments", "llama", deployment("llama"))

        await world.until_known()


async def test_without_kedas_kinds_there_are_no_workloads_until_they_are_installed():
    missing = []

    def prepare(api):
        missing.append(next(one for one in api.resources if one.kind == "ScaledObject"))
        api.resources.remove(missing[0])

    async with discovering(prepare=prepare) as world:
        await world.api.until(lambda: "scaledobjects" in world.discovery.why(LLAMA))
        world.api.resources.append(missing[0])
        put_llama(world.api)

        await world.until_known()


@pytest.mark.fault("clock steps")
@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_a_step_of_the_wall_clock_changes_no_age(step_s):
    def prepare(api):
        put_llama(api, loading("llama-0", created_at=WALL - 30))

    async with discovering(prepare=prepare) as world:
        await world.until_known()
        world.clocks.wall += step_s
        world.clocks.now += 10
        put_pod(world.api, loading("llama-1", created_at=WALL + 9))
        await world.until(lambda replicas: len(replicas.starting) == 2)

        assert [one.since for one in world.replicas().starting] == [970.0, 1009.0]
