"""From pods, scale and HPA to what a loop is told."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.cluster.hpas import hpa_of
from scaler.cluster.lives import Memory, Times, remember
from scaler.cluster.pods import pod_of
from scaler.cluster.scale import scale_of
from scaler.cluster.scaled_objects import Service, named_workload
from scaler.cluster.snapshots import Known, snapshot_of
from scaler.control.ports import Snapshot, Target
from scaler.core.model import Floor, Kind, Note, ReplicaSet, Starting
from scaler.core.platform import Hpa, Platform, Proposal
from tests.support.cluster_objects import (
    WALL,
    condition,
    hpa,
    loading,
    pod,
    scale,
    scaled_object,
    serving,
    trigger,
    vllm,
)

OFFSET = WALL - 1000.0
NOW = 1100.0
OURS = frozenset({Service("slo-scaler", "keda")})


def known(*items: dict, scaled: dict | None = None, replicas: int = 2, **more) -> Known:
    named = named_workload(scaled or scaled_object(), OURS)
    assert named is not None
    pods = tuple(map(pod_of, items))
    memory = remember(Memory(), pods, Times(NOW, NOW, OFFSET), lambda pod: pod.node_hint)
    return Known(named, scale_of(scale(replicas), named.target), pods, memory, **{"observed_at": NOW, **more})


def notes(one: Known, now: float = NOW) -> list[Note]:
    return list(snapshot_of(one, now).replicas.notes)


def targets(one: Known) -> list[Target]:
    return list(snapshot_of(one, NOW).targets)


def test_ready_replicas_are_read_and_the_others_start():
    one = known(
        serving("llama-b", spec={"containers": [vllm("main", "--max-num-seqs", "64")]}),
        serving("llama-a", spec={"containers": [vllm("main", "--max-num-seqs", "32", "--port", "9000")]}),
        loading("llama-c", created_at=WALL + 50, spec={"nodeSelector": {"nvidia.com/gpu.product": "H100"}}),
        replicas=4,
    )

    assert snapshot_of(one, NOW) == Snapshot(
        ReplicaSet(
            ready=("llama-a", "llama-b"),
            starting=(Starting("llama-c", 1050.0, "", "H100"),),
            current=4,
            observed_at=NOW,
            max_replicas=8,
            engine_cap=32,
            kinds={"llama-a": Kind("", "0.32.0"), "llama-b": Kind("", "0.32.0")},
            newest=Kind("H100", "0.32.0"),
            platform=Platform("Deployment llama", asked=4, pods=4, hpas_known=False),
        ),
        (Target("llama-a", "10.0.0.7:9000", discovered=True), Target("llama-b", "10.0.0.7:8000", discovered=True)),
    )


GPUS = {"gpu-1": "H100", "gpu-2": "L40S", "": ""}


def on(node: str, name: str, made=serving, image: str = "vllm/vllm-openai:v0.32.0", **rest) -> dict:
    return made(name, spec={"nodeName": node, "containers": [{**vllm(), "image": image}]}, **rest)


def test_each_ready_replica_has_a_kind_and_the_newest_with_a_node_tells_that_of_the_next():
    one = known(
        on("gpu-1", "llama-a", image="vllm/vllm-openai:v0.31.0"),
        on("gpu-2", "llama-b"),
        on("gpu-1", "llama-c", loading, created_at=WALL + 70),
        on("", "llama-d", pod, created_at=WALL + 80),
        class_of=lambda found: GPUS[found.node],
    )
    replicas = snapshot_of(one, NOW).replicas

    assert (replicas.kinds, replicas.newest) == (
        {"llama-a": Kind("H100", "0.31.0"), "llama-b": Kind("L40S", "0.32.0")},
        Kind("H100", "0.32.0"),
    )


def test_while_no_replica_has_a_node_nothing_is_known_of_the_next():
    assert snapshot_of(known(pod("llama-a")), NOW).replicas.newest is None


def test_a_replica_that_terminates_or_has_ended_does_not_count():
    leaving = serving("llama-0", metadata={"deletionTimestamp": "2026-08-20T10:00:00Z"})
    ended = pod("llama-1", status={"phase": "Succeeded"})
    replicas = snapshot_of(known(leaving, ended), NOW).replicas

    assert (replicas.ready, replicas.starting) == ((), ())


def test_a_replica_that_was_ready_and_is_not_starts_since_it_lost_readiness():
    flapping = serving("llama-0")
    flapping["status"]["conditions"][-1] = condition("Ready", "False", WALL + 80)

    assert snapshot_of(known(flapping), NOW).replicas.starting == (Starting("llama-0", 1080.0),)


def test_a_start_that_cannot_be_counted_on_says_why():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}
    stuck = pod("llama-0", status={"containerStatuses": [{"name": "main", "state": waiting}]})

    assert snapshot_of(known(stuck), NOW).replicas.starting == (
        Starting("llama-0", 1000.0, "ImagePullBackOff: Back-off"),
    )


@pytest.mark.parametrize(
    ("said", "container", "address"),
    [
        pytest.param({}, vllm(), "10.0.0.7:8000", id="the engine's default"),
        pytest.param({"engine": "sglang"}, vllm(), "10.0.0.7:30000", id="another engine's default"),
        pytest.param({}, vllm("main", "--port", "9000"), "10.0.0.7:9000", id="its arguments"),
        pytest.param({"port": "9100"}, vllm("main", "--port", "9000"), "10.0.0.7:9100", id="the trigger before all"),
    ],
)
def test_a_replica_is_read_where_the_trigger_its_arguments_or_its_kind_say(said, container, address):
    one = known(
        serving("llama-0", spec={"containers": [container]}), scaled=scaled_object("llama", "prod", trigger(**said))
    )

    assert targets(one) == [Target("llama-0", address, discovered=True)]


def test_an_address_of_six_bytes_groups_is_bracketed_and_tls_is_named():
    item = serving("llama-0", status={"podIP": "fd00::7"}, spec={"containers": [vllm("main", "--ssl-certfile", "a")]})

    assert targets(known(item)) == [Target("llama-0", "[fd00::7]:8000", "https", discovered=True)]


def test_the_hpas_maximum_counts_where_it_is_lower():
    assert snapshot_of(known(hpa=hpa_of(hpa(most=5))), NOW).replicas.max_replicas == 5


@pytest.mark.parametrize("bounds", [(0, 0), (0, -1), (9, 3)])
def test_bounds_that_keda_refuses_bound_nothing_and_its_hpa_keeps_those_that_it_has(bounds):
    scaled = scaled_object(minReplicaCount=bounds[0], maxReplicaCount=bounds[1])

    most = [snapshot_of(known(scaled=scaled, hpa=told), NOW).replicas.max_replicas for told in (None, hpa_of(hpa()))]
    assert most == [None, 8]


def test_an_ordinary_workload_has_no_notes():
    assert notes(known(serving("llama-0"), hpa=hpa_of(hpa()))) == []


PAUSED = "KEDA is paused for this ScaledObject and does not act on what is decided here"


@pytest.mark.parametrize(
    ("annotation", "note"),
    [
        ("paused", Note("keda_paused", f"{PAUSED} (annotation autoscaling.keda.sh/paused)")),
        ("paused-replicas", Note("keda_paused", f"{PAUSED} (annotation autoscaling.keda.sh/paused-replicas)")),
        (
            "paused-scale-in",
            Note("keda_held", "KEDA takes no replica away (annotation autoscaling.keda.sh/paused-scale-in)"),
        ),
        (
            "force-activation",
            Note("keda_held", "KEDA never takes it to zero (annotation autoscaling.keda.sh/force-activation)"),
        ),
    ],
)
def test_that_keda_is_held_back_is_told(annotation, note):
    item = scaled_object(annotations={f"autoscaling.keda.sh/{annotation}": "true"})

    assert notes(known(scaled=item)) == [note]


def test_two_triggers_that_name_us_are_told():
    assert [note.code for note in notes(known(scaled=scaled_object("llama", "prod", trigger(), trigger())))] == [
        "two_triggers"
    ]


def test_a_workload_that_may_go_to_zero_without_a_push_trigger_is_told_that_it_wakes_late():
    polled = scaled_object("llama", "prod", trigger(kind="external"), minReplicaCount=0)

    assert [note.code for note in notes(known(scaled=polled))] == ["slow_wake"]
    assert notes(known(scaled=scaled_object(minReplicaCount=0))) == []


def test_what_troubles_the_hpa_is_told():
    limited = hpa_of(
        hpa("keda-hpa-llama", 8, 8, condition("ScalingLimited", "True", reason="TooManyReplicas", message="at max"))
    )

    assert notes(known(hpa=limited)) == [Note("hpa_limited", "HPA keda-hpa-llama: TooManyReplicas: at max")]


def test_an_old_list_stands_and_shows_its_age():
    one = known(serving("llama-0"), stale="cannot watch /api/v1/namespaces/prod/pods: connection refused")
    replicas = snapshot_of(one, NOW + 90).replicas

    assert (replicas.ready, replicas.observed_at) == (("llama-0",), NOW)
    assert replicas.notes == (
        Note(
            "replicas_old",
            "the list of replicas is 90 s old: cannot watch /api/v1/namespaces/prod/pods: connection refused",
        ),
    )
    assert notes(one, NOW + 5) == []


def test_what_else_could_not_be_read_is_told():
    fault = Note("hpa_unknown", "cannot list")

    assert notes(known(faults=(fault,))) == [fault]


STATES = {
    "waiting": pod("x"),
    "loading": loading("x"),
    "serving": serving("x"),
    "leaving": serving("x", metadata={"deletionTimestamp": "2026-08-20T10:00:00Z"}),
    "failed": pod("x", status={"phase": "Failed"}),
}


def as_pod(number: int, state: str) -> dict:
    item = STATES[state]
    return {**item, "metadata": {**item["metadata"], "name": f"llama-{number}", "uid": str(number)}}


@given(st.lists(st.sampled_from(sorted(STATES)), max_size=8), st.floats(0, 1e6))
def test_a_pod_is_ready_or_starts_or_does_not_count_and_only_the_ready_are_read(states, later_s):
    one = known(*(as_pod(number, state) for number, state in enumerate(states)))
    snapshot = snapshot_of(one, NOW + later_s)

    assert snapshot.replicas.ready == tuple(f"llama-{n}" for n, state in enumerate(states) if state == "serving")
    assert tuple(s.replica for s in snapshot.replicas.starting) == tuple(
        f"llama-{n}" for n, state in enumerate(states) if state in {"waiting", "loading"}
    )
    assert tuple(target.replica for target in snapshot.targets) == snapshot.replicas.ready
    assert snapshot.replicas.observed_at <= NOW


@given(st.permutations([*STATES]))
def test_the_order_in_which_pods_are_told_is_irrelevant(states):
    numbered = {state: as_pod(number, state) for number, state in enumerate(sorted(STATES))}

    assert snapshot_of(known(*(numbered[s] for s in states)), NOW) == snapshot_of(known(*numbered.values()), NOW)


def test_a_newer_look_than_now_is_now():
    assert snapshot_of(replace(known(), observed_at=NOW + 5), NOW).replicas.observed_at == NOW


def test_what_acts_on_the_number_is_told_with_what_the_hpa_says_of_itself():
    item = hpa("keda-hpa-llama", 3, 2, condition("AbleToScale", "True", reason="ScaleDownStabilized"))
    item["spec"]["metrics"] = [{"type": "External", "external": {"metric": {"name": "s0-desired-replicas"}}}]
    said = {f"autoscaling.keda.sh/{word}": "true" for word in ("paused", "paused-scale-in")}
    one = known(
        serving("llama-0"),
        scaled=scaled_object(annotations=said, status={"conditions": [condition("Fallback", "True")]}),
        hpa=hpa_of(item),
        hpas_known=True,
        asked_since=NOW - 61.0,
    )

    assert snapshot_of(one, NOW).replicas.platform == Platform(
        target="Deployment llama",
        asked=2,
        pods=1,
        hpa=Hpa(
            "keda-hpa-llama",
            desired=3,
            current=2,
            proposals=(Proposal("s0-desired-replicas", None, ours=True),),
            able="ScaleDownStabilized",
        ),
        paused=("autoscaling.keda.sh/paused",),
        kept=("autoscaling.keda.sh/paused-scale-in",),
        fallback=True,
    )


def test_a_floor_by_annotation_is_told_by_our_clock():
    one = known(scaled=scaled_object(annotations={"slo-scaler/floor": "6 until 2026-09-21T15:13:20Z"}), offset_s=OFFSET)
    assert snapshot_of(one, NOW).replicas.floor == Floor(6, 1000.0 + 3600.0, "2026-09-21T15:13:20Z")
