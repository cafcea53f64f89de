"""The reflector through the real client against the stand-in for the API server, in each way in which that fails."""

import asyncio
import random
from contextlib import aclosing
from math import inf

import pytest

from scaler.cluster.client import Bounds, Client
from scaler.cluster.reflector import Pace, Reflector
from tests.support.kubernetes_api import kubernetes
from tests.support.kubernetes_mirror import LLAMA, PODS, Clock, mirroring, version_of
from tests.support.kubernetes_objects import Json

BOUNDS = Bounds(call_s=0.3, watch_s=1, silence_s=-0.7)
"""A watch is asked to last a second and is given up after 0.3 s of silence."""


async def test_what_exists_is_listed_and_what_changes_is_told():
    async with mirroring(pods="ab") as mirror:
        await mirror.until_live()
        mirror.api.put(f"{PODS}/c", {})
        mirror.api.put(f"{PODS}/a", {})
        mirror.api.delete(f"{PODS}/b")
        await mirror.until_mirrored()
        assert set(mirror.reflector.items) == {"prod/a", "prod/c"}
        assert (mirror.api.count("list", "pods"), mirror.sizes) == (1, [2, 3, 3, 2])


async def test_what_keep_sees_no_change_in_is_not_told():
    async with mirroring(keep=lambda item: item["metadata"]["name"], pods="a") as mirror:
        await mirror.until_live()
        mirror.api.put(f"{PODS}/a", {"spec": {}})
        mirror.api.put(f"{PODS}/b", {})
        await mirror.api.until(lambda: "prod/b" in mirror.reflector.items)
        assert mirror.sizes == [1, 2]


async def test_an_object_without_a_namespace_goes_by_its_name():
    async with mirroring(path="/api/v1/nodes") as mirror:
        mirror.api.put("/api/v1/nodes/gpu-1", {})
        await mirror.api.until(lambda: "gpu-1" in mirror.reflector.items)


async def test_what_leaves_the_selection_is_gone():
    async with mirroring(pods="ab", selector="app in (llama)") as mirror:
        await mirror.until_live()
        mirror.api.put(f"{PODS}/a", {"metadata": {"labels": {"app": "other"}}})
        await mirror.api.until(lambda: set(mirror.reflector.items) == {"prod/b"})


async def test_only_what_keep_wants_is_kept_of_twenty_thousand_pods():
    def keep(item: Json) -> str | None:
        return item["metadata"]["name"] if item["metadata"]["labels"]["app"] == "llama" else None

    async with kubernetes() as api, aclosing(Client.at(api.url, random.Random(7))) as client:
        for number in range(20_000):
            api.put(f"/api/v1/namespaces/prod/pods/{number}", {"metadata": {"labels": {"app": f"x{number}"}}})
        api.put(f"{PODS}/mine", LLAMA)
        reflector = Reflector(client, "/api/v1/pods", keep, Pace(Clock(), random.Random(7)))
        running = asyncio.create_task(reflector.run())
        await api.until(lambda: api.watches)
        running.cancel()
        await asyncio.wait([running])

    lists = [asked.query for asked in api.requests if asked.verb == "list"]
    assert dict(reflector.items) == {"prod/mine": "mine"}
    assert ({asked["limit"] for asked in lists}, len(lists)) == ({"250"}, 81)


async def test_before_the_first_list_nothing_is_known():
    async with mirroring(bounds=BOUNDS) as mirror:
        mirror.api.hang()
        known = [mirror.reflector.why]
        await mirror.api.until(lambda: mirror.reflector.why != "not read yet")
        known.append(mirror.reflector.why)
        assert (mirror.reflector.listed, mirror.reflector.contact_at) == (False, -inf)
    assert known == ["not read yet", "cannot list pods in namespace prod: no answer in time (for 0 s)"]


async def test_a_live_watch_is_in_contact_now():
    async with mirroring() as mirror:
        await mirror.until_live()
        mirror.clock.now = 4000.0
        assert (mirror.reflector.contact_at, mirror.reflector.why) == (4000.0, "")


@pytest.mark.fault("API server is gone")
async def test_an_api_server_that_is_away_leaves_what_was_known_and_its_age():
    async with mirroring(pods="ab") as mirror:
        await mirror.until_live()
        mirror.clock.now = 200.0
        await mirror.api.away()
        await mirror.api.until(lambda: "connection refused" in mirror.reflector.why)
        mirror.clock.now = 240.0
        seen = (len(mirror.reflector.items), mirror.reflector.contact_at, mirror.reflector.why)
        assert seen == (2, 200.0, "cannot watch pods in namespace prod: connection refused (for 40 s)")

        mirror.api.put(f"{PODS}/c", {})
        await mirror.api.back()
        await mirror.until_mirrored()
        assert mirror.reflector.why == ""
        assert mirror.api.count("list", "pods") == 1


@pytest.mark.fault("API server falls silent")
async def test_an_api_server_that_falls_silent_was_last_heard_with_its_last_event():
    async with mirroring(pods="a", bounds=BOUNDS) as mirror:
        await mirror.until_live()
        mirror.clock.now = 150.0
        mirror.api.put(f"{PODS}/b", {})
        await mirror.api.until(lambda: len(mirror.reflector.items) == 2)
        mirror.api.hang()
        mirror.clock.now = 200.0
        await mirror.api.until(lambda: mirror.reflector.why)
        assert (len(mirror.reflector.items), mirror.reflector.contact_at) == (2, 150.0)

        mirror.api.recover()
        mirror.api.put(f"{PODS}/c", {})
        await mirror.until_mirrored()


async def test_a_watch_that_is_cut_goes_on_where_it_was():
    async with mirroring(pods="a") as mirror:
        await mirror.until_live()
        mirror.api.reset()
        mirror.api.put(f"{PODS}/b", {})
        mirror.api.delete(f"{PODS}/a")
        await mirror.until_mirrored()
        assert (mirror.api.count("list", "pods"), mirror.api.count("watch", "pods")) == (1, 2)


async def test_a_broken_line_costs_one_more_watch():
    async with mirroring(pods="a") as mirror:
        await mirror.until_live()
        mirror.api.say(b'{"type": "MODI\n')
        mirror.api.put(f"{PODS}/b", {})
        await mirror.until_mirrored()
        assert (mirror.api.count("list", "pods"), mirror.api.count("watch", "pods")) == (1, 2)


@pytest.mark.parametrize("gone_in_stream", [True, False])
async def test_an_expired_version_is_listed_again_without_a_moment_of_emptiness(gone_in_stream):
    async with mirroring(pods="abc") as mirror:
        mirror.api.gone_in_stream = gone_in_stream
        await mirror.until_live()
        await mirror.api.away()
        mirror.api.delete(f"{PODS}/a")
        mirror.api.put(f"{PODS}/d", {})
        mirror.api.compact()
        await mirror.api.back()
        await mirror.until_mirrored()
        assert mirror.api.count("list", "pods") == 2
        assert min(mirror.sizes) == 3


async def test_a_bookmark_saves_the_list_after_a_compaction():
    async with mirroring(pods="a", selector="app=llama") as mirror:
        await mirror.until_live()
        mirror.api.put(f"{PODS}/other", {})
        mirror.api.bookmark()
        marked = str(mirror.api.version)
        mirror.api.compact()
        mirror.api.end_watches()
        await mirror.api.until(lambda: mirror.api.requests[-1].query.get("resourceVersion") == marked and mirror.live)
        assert mirror.api.count("list", "pods") == 1


async def test_a_list_whose_token_expires_begins_anew():
    async with mirroring(pods="abcd", bounds=Bounds(page_items=2)) as mirror:
        api = mirror.api
        api.slow_s = 0.05
        await api.until(lambda: api.count("list", "pods") == 2)
        api.put(f"{PODS}/a", {})
        api.compact()
        api.slow_s = 0.0
        await mirror.until_mirrored()
        assert api.count("list", "pods") == 4


async def test_what_is_forbidden_is_said_and_read_once_it_is_granted():
    async with kubernetes() as api, aclosing(Client.at(api.url, random.Random(7))) as client:
        api.forbid("list", "pods", "prod")
        pace = Pace(Clock(), random.Random(7), denied_s=0.03)
        reflector = Reflector(client, PODS, version_of, pace)
        running = asyncio.create_task(reflector.run())
        await api.until(lambda: api.count("list", "pods") == 2)
        why, known = reflector.why, (reflector.listed, reflector.contact_at)
        api.allow("list", "pods", "prod")
        await api.until(lambda: reflector.listed and reflector.why == "")
        running.cancel()
        await asyncio.wait([running])
    assert why.startswith(
        "may not list pods in namespace prod: grant it to system:serviceaccount:scaler:slo-scaler by a Role"
    )
    assert known == (False, -inf)


async def test_without_the_right_to_watch_what_was_listed_stands_and_ages():
    async with kubernetes() as api, aclosing(Client.at(api.url, random.Random(7))) as client:
        api.put(f"{PODS}/a", {})
        api.forbid("watch", "pods")
        clock = Clock()
        reflector = Reflector(client, PODS, version_of, Pace(clock, random.Random(7), denied_s=0.03))
        running = asyncio.create_task(reflector.run())
        await api.until(lambda: api.count("watch", "pods") == 2)
        clock.now = 160.0
        seen = (set(reflector.items), reflector.contact_at, reflector.why.split(":")[0])
        running.cancel()
        await asyncio.wait([running])
    assert seen == ({"prod/a"}, 100.0, "may not watch pods in namespace prod")


async def test_a_server_in_trouble_is_asked_again_later():
    async with mirroring(pods="a") as mirror:
        mirror.api.refuse(429, "too many requests", retry_after="1")
        await mirror.api.until(lambda: "too many requests" in mirror.reflector.why)
        mirror.api.refuse(500, "etcdserver: no leader")
        await mirror.api.until(lambda: "no leader" in mirror.reflector.why)
        mirror.api.recover()
        await mirror.until_mirrored()


@pytest.mark.fault("an object cannot be read")
async def test_an_object_that_cannot_be_read_is_named_and_hides_no_other():
    def keep(item: Json) -> str:
        return item["spec"]["nodeName"]

    async with mirroring(keep=keep) as mirror:
        mirror.api.put(f"{PODS}/a", {"spec": {"nodeName": "n"}})
        mirror.api.put(f"{PODS}/b", {})
        mirror.api.put(f"{PODS}/c", {"spec": {"nodeName": "n"}})
        await mirror.api.until(lambda: set(mirror.reflector.items) == {"prod/a", "prod/c"})
        assert dict(mirror.reflector.faults) == {"prod/b": "KeyError: 'spec'"}
        assert mirror.reflector.unreadable == f"1 of {PODS} cannot be read, prod/b among them: KeyError: 'spec'"

        mirror.api.put(f"{PODS}/b", {"spec": {"nodeName": "n"}})
        mirror.api.put(f"{PODS}/c", {})
        await mirror.api.until(lambda: set(mirror.reflector.items) == {"prod/a", "prod/b"})
        assert set(mirror.reflector.faults) == {"prod/c"}

        mirror.api.delete(f"{PODS}/c")
        await mirror.api.until(lambda: not mirror.reflector.faults and not mirror.reflector.unreadable)
