"""Several pods of ours over one API server: who leads, whom KEDA's Service selects, and what becomes of stored state."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from scaler.cluster.api import Event, Json, Page, Unreachable
from scaler.cluster.client import Bounds, Client
from scaler.cluster.config_maps import ConfigMapStore, Paces
from scaler.cluster.leadership import ActiveLabel, Duties, Leadership
from scaler.cluster.lease import LEASE, Elector, Member, Timings
from scaler.cluster.shards import ConfigMaps
from scaler.core.model import WorkloadKey
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Place

PODS = "/api/v1/namespaces/scaler/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/scaler/leases/{LEASE}"
GIVEN_UP_S = 0.5
LLAMA = WorkloadKey("prod", "llama")
QUICK = Timings(duration_s=1.0, give_up_s=0.6, renew_s=0.2, retry_s=0.05, recheck_s=0.1, hand_over_s=5.0, settle_s=0.05)
PACES = Paces(every_s=0.1, soon_s=0.02, load_s=0.5, last_s=0.5)


@dataclass
class Line:
    """A client whose pod alone can be cut off: then no call is answered, until it is given up."""

    client: Client
    cut: bool = False

    @property
    def unanswered_s(self) -> float:
        return self.client.unanswered_s

    @property
    def local(self) -> bool:
        return self.client.local

    async def get(self, path: str) -> Json:
        await self._open()
        return await self.client.get(path)

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        await self._open()
        return await self.client.page(path, selector=selector, token=token)

    def watch(self, path: str, resource_version: str, *, selector: str = "") -> AsyncIterator[Event]:
        return self.client.watch(path, resource_version, selector=selector)

    async def create(self, path: str, body: Json) -> Json:
        await self._open()
        return await self.client.create(path, body)

    async def replace(self, path: str, body: Json) -> Json:
        await self._open()
        return await self.client.replace(path, body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        await self._open()
        return await self.client.patch(path, body)

    async def _open(self) -> None:
        if self.cut:
            with suppress(TimeoutError):
                async with asyncio.timeout(GIVEN_UP_S):
                    await asyncio.Event().wait()
            raise Unreachable("no answer in time")


@dataclass
class Pod:
    """One pod, and the process in it as the application wires it."""

    api: KubernetesApi
    name: str
    wall: Callable[[], float] = lambda: datetime.now(UTC).timestamp()
    told: list[tuple[bool, str]] = field(default_factory=list)
    adopted: list[dict[WorkloadKey, str]] = field(default_factory=list)
    labelled_then: list[set[str]] = field(default_factory=list)
    timings: Timings = QUICK

    def __post_init__(self) -> None:
        labels, ready = {"app.kubernetes.io/name": "slo-scaler"}, [{"type": "Ready", "status": "True"}]
        uid = self.api.put(self.path, {"metadata": {"labels": labels}, "status": {"conditions": ready}})["metadata"][
            "uid"
        ]
        member, clock = Member("scaler", self.name, uid), asyncio.get_running_loop().time
        self.line = Line(Client.at(self.api.url, random.Random(7), Bounds(call_s=GIVEN_UP_S)))
        elector = Elector(self.line, member, clock, self.wall, self.timings)
        self.store = ConfigMapStore(ConfigMaps(self.line, "scaler"), elector.term, clock, lambda _: None, PACES)
        duties = Duties(self.adopt, lambda leads, why: self.told.append((leads, why)))
        self.leadership = Leadership(elector, ActiveLabel(self.line, member), duties)
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def path(self) -> str:
        return f"{PODS}/{self.name}"

    async def adopt(self) -> None:
        self.adopted.append(await self.store.reload())
        self.labelled_then.append(labelled(self.api))

    async def start(self) -> None:
        await self.store.start()
        self.tasks = [asyncio.create_task(work) for work in (self.store.run(), self.leadership.run())]

    async def die(self) -> None:
        """As by SIGKILL: nothing is released, and the pod's object stays."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.line.client.aclose()

    async def leave(self) -> None:
        """As by SIGTERM; then the pod is gone."""
        await self.store.stop()
        await self.leadership.stop()
        await self.die()
        self.api.delete(self.path)


@asynccontextmanager
async def pods(api: KubernetesApi, *names: str) -> AsyncIterator[list[Pod]]:
    """Pods that run; the first leads before the others come."""
    async with AsyncExitStack() as stack:
        made = []
        for name in names:
            made.append(Pod(api, name))
            stack.push_async_callback(made[-1].die)
            await made[-1].start()
            await api.until(lambda: labelled(api) == {names[0]})
        yield made


def labelled(api: KubernetesApi) -> set[str]:
    """The pods that KEDA's Service selects."""
    *_, now = over_time(api)
    return now


def over_time(api: KubernetesApi) -> list[set[str]]:
    """All that KEDA's Service has selected, one change after another."""
    history: list[set[str]] = [set()]
    every = {"resourceVersion": "1", "labelSelector": "slo-scaler/active=true"}
    lines = api.watch(Place.of(PODS, api.resources), every).lines
    while not lines.empty():
        event = json.loads(lines.get_nowait() or b"")
        name = {event["object"]["metadata"]["name"]}
        history.append(history[-1] - name if event["type"] == "DELETED" else history[-1] | name)
    return history


def ready(api: KubernetesApi, pod: str, status: str) -> None:
    """As kubelet says it."""
    found = api.get(f"{PODS}/{pod}") or {}
    api.put(f"{PODS}/{pod}", {**found, "status": {"conditions": [{"type": "Ready", "status": status}]}})


def label(api: KubernetesApi, pod: str, value: str | None) -> None:
    """As by hand."""
    found = api.get(f"{PODS}/{pod}") or {}
    found["metadata"]["labels"]["slo-scaler/active"] = value
    api.put(f"{PODS}/{pod}", found)


async def test_of_two_pods_the_one_that_leads_has_the_label():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        assert ((a.leadership.leads(), b.leadership.leads()), labelled(api)) == ((True, False), {"a"})
        assert (a.told, b.told) == ([(True, "")], [])


async def test_a_pod_that_dies_is_replaced_and_loses_the_label_though_it_still_exists():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        await a.die()
        await api.until(b.leadership.leads)
        await api.until(lambda: labelled(api) == {"b"})
        assert over_time(api)[1:] == [{"a"}, {"a", "b"}, {"b"}]


async def test_from_one_pod_to_two_and_back_the_service_is_never_without_one():
    async with kubernetes() as api, pods(api, "a") as (first,):
        old = first
        for name in ("b", "c", "d"):
            new = Pod(api, name)
            await new.start()
            await old.leave()
            old = new
        await old.die()
        steps = [{"a"}, {"a", "b"}, {"b"}, {"b", "c"}, {"c"}, {"c", "d"}, {"d"}]
        assert over_time(api)[1:] == steps


async def test_a_pod_that_is_alone_leaves_without_waiting_and_frees_the_lease():
    async with kubernetes() as api, pods(api, "a") as (a,):
        before = api.count("list", "pods")
        await a.leadership.stop()
        lease = api.get(LEASES) or {}
        assert (api.count("list", "pods") - before, lease["spec"]["holderIdentity"], labelled(api)) == (1, "", {"a"})


async def test_who_leaves_answers_on_until_the_nodes_have_learnt_who_is_asked_now():
    async with kubernetes() as api, AsyncExitStack() as stack:
        a, b = Pod(api, "a", timings=replace(QUICK, settle_s=60.0)), Pod(api, "b")
        for pod in (a, b):
            stack.push_async_callback(pod.die)
            await pod.start()
            await api.until(lambda: labelled(api) == {"a"})
        leaving = asyncio.create_task(a.leadership.stop())
        await api.until(lambda: labelled(api) == {"b"})
        looked = api.count("list", "pods")
        await api.until(lambda: api.count("list", "pods") > looked + 10)
        assert (leaving.cancel(), b.leadership.leads()) == (True, True)


async def test_what_was_stored_is_taken_over_before_keda_is_led_to_the_next_holder():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        await a.leave()
        await api.until(lambda: labelled(api) == {"b"})
        assert b.labelled_then == [{"a"}]


async def test_a_holder_that_is_not_ready_yet_leaves_the_label_with_a_pod_that_is():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        ready(api, "b", "False")
        leaving = asyncio.create_task(a.leadership.stop())
        await api.until(lambda: b.told)
        before, why = labelled(api), b.leadership.why
        ready(api, "b", "True")
        await api.until(lambda: labelled(api) == {"b"} and not b.leadership.why)
        await leaving
    assert (before, why) == ({"a"}, "cannot look after the label slo-scaler/active: b is not Ready yet, and a is")
    assert (b.told, len(b.adopted)) == ([(True, why), (True, "")], 1)


async def test_a_holder_that_is_not_ready_takes_the_label_where_no_pod_is():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        for name in ("a", "b"):
            ready(api, name, "False")
        await a.die()
        await api.until(lambda: labelled(api) == {"b"})
        assert b.leadership.leads()


async def test_a_holder_that_alone_is_cut_off_gives_up_before_the_other_leads():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        a.line.cut = True
        seen = []

        def replaced() -> bool:
            seen.append((a.leadership.leads(), b.leadership.leads()))
            return b.leadership.leads()

        await api.until(replaced)
        await api.until(lambda: labelled(api) == {"b"})
        a.line.cut = False
        await api.until(lambda: a.told[-1] == (False, ""))
    assert (list(dict.fromkeys(seen)), labelled(api)) == ([(True, False), (False, False), (False, True)], {"b"})
    ((_, why),) = (told for told in a.told if told[1] and not told[0])
    assert "nobody can be elected: the API server did not answer" in why


async def test_what_a_holder_did_not_write_before_it_was_cut_off_does_not_undo_what_the_next_one_wrote():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        await api.until(lambda: a.store.due(LLAMA, changed=True))
        a.store.put(LLAMA, "first")
        await api.until(lambda: api.count("create", "configmaps"))
        a.line.cut = True
        a.store.put(LLAMA, "too late")
        await api.until(lambda: b.store.due(LLAMA, changed=True))
        b.store.put(LLAMA, "second")
        a.line.cut = False
        await b.leave()
        await api.until(lambda: a.store.due(LLAMA, changed=False))
        state = api.get("/api/v1/namespaces/scaler/configmaps/slo-scaler-state-0") or {}
    assert (state["data"], a.adopted, a.store.recall(LLAMA)) == (
        {"prod_llama": "second"},
        [{}, {LLAMA: "second"}],
        "second",
    )


@pytest.mark.fault("two scalers at once")
async def test_five_that_want_to_lead_at_once_end_with_one():
    async with kubernetes() as api, AsyncExitStack() as stack:
        five = [Pod(api, name) for name in "abcde"]
        for pod in five:
            stack.push_async_callback(pod.die)
            await pod.start()
        for _ in range(3):
            await api.until(lambda: [{pod.name} for pod in five if pod.leadership.leads()] == [labelled(api)])
            (leader,) = (pod for pod in five if {pod.name} == labelled(api))
            await leader.leave()
            five.remove(leader)
    assert set() not in over_time(api)[1:]


@pytest.mark.fault("clock steps")
async def test_wall_clocks_that_are_days_apart_and_step_do_not_matter():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        a.wall = b.wall = lambda: random.choice((0.0, 9e8, 2e9))
        renewed = api.count("update", "leases")
        await api.until(lambda: api.count("update", "leases") > renewed + 5)
        assert over_time(api)[1:] == [{"a"}]


async def test_a_label_that_somebody_moved_by_hand_returns():
    async with kubernetes() as api, pods(api, "a", "b"):
        label(api, "b", "true")
        label(api, "a", None)
        await api.until(lambda: labelled(api) == {"a"})
        assert over_time(api)[-3:] == [{"b"}, {"a", "b"}, {"a"}]


async def test_without_the_permission_to_label_it_leads_and_stores_and_says_what_is_missing():
    async with kubernetes() as api:
        api.forbid("patch", "pods")
        pod = Pod(api, "a")
        await pod.start()
        await api.until(lambda: pod.store.due(LLAMA, changed=True) and pod.told)
        why = pod.leadership.why
        api.allow("patch", "pods")
        await api.until(lambda: labelled(api) == {"a"} and not pod.leadership.why)
        await pod.die()
    assert 'resources ["pods"], verbs ["patch"]' in why
    assert pod.told == [(True, why), (True, "")]


async def test_without_the_permission_for_leases_nobody_leads_and_it_says_what_is_missing():
    async with kubernetes() as api:
        api.forbid("get", "leases")
        pod = Pod(api, "a")
        await pod.start()
        await api.until(lambda: pod.told)
        await pod.die()
    ((leads, why),) = pod.told
    assert (leads, 'resources ["leases"], verbs ["get"]' in why) == (False, True)


@pytest.mark.fault("API server is gone")
async def test_while_the_api_server_is_away_the_label_stays_and_afterwards_the_same_pod_leads():
    async with kubernetes() as api, pods(api, "a", "b") as (a, b):
        await api.away()
        await api.until(lambda: a.told[-1][1] and not a.leadership.leads() and b.told)
        meanwhile = labelled(api)
        await api.back()
        await api.until(lambda: (a.leadership.leads() or b.leadership.leads()) and len(labelled(api)) == 1)
        (leader,) = (pod for pod in (a, b) if pod.leadership.leads())
        await api.until(lambda: labelled(api) == {leader.name})
        assert (meanwhile, set() in over_time(api)[1:]) == ({"a"}, False)


async def test_the_way_out_is_not_barred_by_a_server_that_does_not_answer():
    async with kubernetes() as api, pods(api, "a", "b") as (a, _):
        api.hang()
        await a.store.stop()
        await a.leadership.stop()
        assert (a.leadership.leads(), labelled(api)) == (False, {"a"})
