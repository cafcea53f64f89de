"""A watch against the stand-in for the API server: what is asked, what comes, and how it can end."""

import asyncio
from contextlib import aclosing

import pytest

from scaler.cluster.api import Expired, Silent, Unreachable
from scaler.cluster.client import Bounds
from tests.support.kubernetes_mirror import PODS, collected, refused, talking

QUICK = Bounds(call_s=0.2, watch_s=1, silence_s=-0.8)
"""Silence is called silence after 0.2 s: a watch of whole seconds, less 0.8 s."""


async def test_a_watch_says_first_that_it_is_accepted_and_asks_for_an_end_and_bookmarks():
    async with talking(Bounds(watch_s=1)) as (api, client):
        before = api.version
        api.put(f"{PODS}/a", {"metadata": {"labels": {"app": "llama"}}})
        api.put(f"{PODS}/b", {})
        api.put(f"{PODS}/a", {"metadata": {"labels": {"app": "other"}}})
        seen = await collected(client, before, selector="app=llama")

        asked = dict(api.requests[-1].query)
        assert seen == [("BOOKMARK", str(before)), ("ADDED", "a"), ("DELETED", "a"), ("BOOKMARK", str(api.version))]
        assert asked == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "1",
            "resourceVersion": str(before),
            "labelSelector": "app=llama",
        }


async def test_watches_do_not_all_end_at_once():
    async with talking() as (api, client), asyncio.TaskGroup() as watches:
        for _ in range(5):
            watches.create_task(collected(client, api.version))
        await api.until(lambda: len(api.watches) == 5)
        lasts = {int(asked.query["timeoutSeconds"]) for asked in api.requests}
        api.end_watches()
    assert len(lasts) > 1
    assert all(48 <= lasts_s <= 72 for lasts_s in lasts)


async def test_a_watch_that_nobody_follows_any_more_is_closed():
    async with talking() as (api, client):
        async with aclosing(client.watch(PODS, str(api.version))) as watch:
            await anext(watch)
            assert len(api.watches) == 1
        await api.until(lambda: not api.watches)


@pytest.mark.fault("API server falls silent")
async def test_a_watch_in_which_nothing_comes_any_more_is_silent():
    async with talking(QUICK) as (api, client):
        watching = asyncio.create_task(collected(client, api.version))
        await api.until(lambda: api.watches)
        api.hang()
        assert type(await refused(watching)) is Silent


async def test_a_watch_that_is_cut_is_unreachable():
    async with talking() as (api, client):
        watching = asyncio.create_task(collected(client, api.version))
        await api.until(lambda: api.watches)
        api.reset()
        error = await refused(watching)
    assert (type(error), str(error)) == (Unreachable, "cannot watch pods in namespace prod: connection lost")


async def test_half_a_line_at_the_end_of_a_watch_is_no_end():
    async with talking() as (api, client):
        watching = asyncio.create_task(collected(client, api.version))
        await api.until(lambda: api.watches)
        api.say(b'{"type": "DELE')
        api.end_watches()
        assert type(await refused(watching)) is Unreachable


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "ADDED", "obj\n',
        b"<html>\n",
        b"[]\n",
        b"\n",
        b"\xff\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": []}\n',
        b'{"type": "ERROR", "object": {"code": "bad"}}\n',
        pytest.param(
            b'{"type": "ADDED", "object": ' + b'{"a":' * 9000 + b"1" + b"}" * 9001 + b"\n", id="without bottom"
        ),
        b'{"type": "ERROR", "object": {}}\n',
        b'{"type": "ERROR", "object": {"code": 500, "message": "etcdserver: no leader"}}\n',
    ],
)
async def test_a_broken_line_ends_the_watch_as_unreachable(line):
    async with talking() as (api, client):
        watching = asyncio.create_task(collected(client, api.version))
        await api.until(lambda: api.watches)
        api.say(line)
        assert type(await refused(watching)) is Unreachable


async def test_a_line_ends_where_json_says_and_not_where_text_would():
    async with talking() as (api, client):
        watching = asyncio.create_task(collected(client, api.version))
        await api.until(lambda: api.watches)
        api.say('{"type": "ADDED", "object": {"metadata": {"name": "a\u0085b\u2028c"}}}\n'.encode())
        api.end_watches()
        assert (await watching)[1:] == [("ADDED", "a\u0085b\u2028c")]


@pytest.mark.parametrize("gone_in_stream", [True, False])
async def test_a_version_from_before_the_compaction_is_expired(gone_in_stream):
    async with talking() as (api, client):
        api.gone_in_stream = gone_in_stream
        before = api.version
        api.put(f"{PODS}/a", {})
        api.compact()
        assert type(await refused(collected(client, before))) is Expired
        assert type(await refused(collected(client, 1))) is Expired


async def test_open_watches_keep_no_call_waiting():
    async with talking(Bounds(call_s=5.0)) as (api, client), asyncio.TaskGroup() as watches:
        for _ in range(120):
            watches.create_task(collected(client, api.version))
        await api.until(lambda: len(api.watches) == 120)
        assert (await client.page(PODS)).items == ()
        api.end_watches()
