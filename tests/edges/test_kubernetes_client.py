"""The client against the stand-in for the API server: what it makes of each answer, and of none."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from scaler.cluster.api import ApiError, Conflict, Expired, Forbidden, NotFound, Unreachable
from scaler.cluster.client import Bounds, Client
from tests.support.kubernetes_mirror import PODS, collected, refused, talking

LEASES = "/apis/coordination.k8s.io/v1/namespaces/scaler/leases"


def names(items) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def test_a_list_comes_in_pages_of_one_version_and_of_what_the_selector_fits():
    async with talking(Bounds(page_items=2)) as (api, client):
        for number in range(4):
            api.put(f"{PODS}/llama-{number}", {"metadata": {"labels": {"app": "llama"}}})
        api.put(f"{PODS}/other", {"metadata": {"labels": {"app": "other"}}})
        first = await client.page(PODS, selector="app=llama")
        api.delete(f"{PODS}/llama-3")
        second = await client.page(PODS, selector="app=llama", token=first.next_token)

    assert (names(first.items), names(second.items)) == (["llama-0", "llama-1"], ["llama-2", "llama-3"])
    assert first.resource_version == second.resource_version
    assert second.next_token == ""


async def test_a_token_that_a_compaction_has_outrun_is_expired():
    async with talking(Bounds(page_items=1)) as (api, client):
        api.put(f"{PODS}/a", {})
        api.put(f"{PODS}/b", {})
        first = await client.page(PODS)
        api.put(f"{PODS}/c", {})
        api.compact()
        with pytest.raises(Expired):
            await client.page(PODS, token=first.next_token)


async def test_an_object_is_created_read_replaced_and_patched():
    async with talking() as (api, client):
        made = await client.create(LEASES, {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}})
        replaced = await client.replace(f"{LEASES}/leader", {**made, "spec": {"holderIdentity": "b", "x": 1}})
        patched = await client.patch(f"{LEASES}/leader", {"spec": {"x": None}})

        assert [one["spec"] for one in (made, replaced, patched)] == [
            {"holderIdentity": "a"},
            {"holderIdentity": "b", "x": 1},
            {"holderIdentity": "b"},
        ]
        assert await client.get(f"{LEASES}/leader") == patched == api.get(f"{LEASES}/leader")


async def test_who_comes_second_conflicts():
    async with talking() as (_, client):
        made = await client.create(LEASES, {"metadata": {"name": "leader"}, "spec": {}})
        await client.patch(f"{LEASES}/leader", {"spec": {"holderIdentity": "other"}})

        assert type(await refused(client.create(LEASES, made))) is Conflict
        assert type(await refused(client.replace(f"{LEASES}/leader", made))) is Conflict
        assert type(await refused(client.patch(f"{LEASES}/leader", {"metadata": made["metadata"]}))) is Conflict


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, Unreachable) for code in (408, 429, 500, 502, 503, 504)),
        *((code, ApiError) for code in (301, 400, 405, 415, 422)),
        *((code, Forbidden) for code in (401, 403)),
        (404, NotFound),
        (409, Conflict),
        (410, Expired),
    ],
)
async def test_each_status_is_one_kind_of_error(code, kind):
    async with talking() as (api, client):
        api.refuse(code, "so it is")
        assert type(await refused(client.get(f"{PODS}/a"))) is kind
        assert type(await refused(collected(client, 1))) is kind


@pytest.mark.parametrize(
    ("verb", "path", "resource", "words"),
    [
        pytest.param(
            "list",
            PODS,
            "pods",
            "may not list pods in namespace prod: grant it to system:serviceaccount:scaler:slo-scaler "
            'by a Role with apiGroups [""], resources ["pods"], verbs ["list"]',
            id="in a namespace",
        ),
        pytest.param(
            "list",
            "/apis/keda.sh/v1alpha1/scaledobjects",
            "scaledobjects",
            "may not list scaledobjects.keda.sh in the whole cluster: grant it to system:serviceaccount:scaler:slo-scaler "
            'by a ClusterRole with apiGroups ["keda.sh"], resources ["scaledobjects"], verbs ["list"]',
            id="in the whole cluster",
        ),
        pytest.param(
            "get",
            "/apis/apps/v1/namespaces/prod/deployments/llama/scale",
            "deployments/scale",
            "may not get deployments/scale.apps llama in namespace prod: grant it to system:serviceaccount:scaler:slo-scaler "
            'by a Role with apiGroups ["apps"], resources ["deployments/scale"], verbs ["get"]',
            id="a subresource",
        ),
    ],
)
async def test_a_missing_permission_is_said_as_the_rule_that_grants_it(verb, path, resource, words):
    async with talking() as (api, client):
        api.forbid(verb, resource)
        assert str(await refused(client.get(path) if verb == "get" else client.page(path))) == words


async def test_a_refusal_by_admission_is_said_in_its_own_words():
    async with talking() as (api, client):
        api.refuse(403, 'leases "leader" is forbidden: exceeded quota')
        error = await refused(client.create(LEASES, {}))
    assert str(error) == (
        'may not create leases.coordination.k8s.io in namespace scaler: leases "leader" is forbidden: exceeded quota'
    )


@pytest.mark.fault("API server falls silent")
async def test_an_answer_that_never_comes_is_not_waited_for():
    async with talking(Bounds(call_s=0.2)) as (api, client):
        api.hang()
        assert str(await refused(client.page(PODS))) == "cannot list pods in namespace prod: no answer in time"
        assert str(await refused(collected(client, 1))) == "cannot watch pods in namespace prod: no answer in time"


@asynccontextmanager
async def answering(write) -> AsyncIterator[Client]:
    """A client of a server that reads nothing and writes what it likes."""
    ended = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write(writer)
        writer.close()
        ended.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = "http://{}:{}".format(*server.sockets[0].getsockname())
        async with aclosing(Client.at(url, random.Random(7), Bounds(call_s=0.3))) as client:
            yield client
        await ended.wait()


async def test_an_answer_that_trickles_is_not_waited_for():
    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await asyncio.Event().wait()

    async with answering(trickle) as client:
        assert str(await refused(client.page(PODS))) == "cannot list pods in namespace prod: no answer in time"


async def test_a_proxy_in_between_may_refuse_in_html():
    async def refuse(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Unavailable\r\nContent-Length: 6\r\n\r\n<html>")

    async with answering(refuse) as client:
        error = await refused(client.get("/apis/apps/v1"))
    assert (type(error), str(error)) == (Unreachable, "cannot get /apis/apps/v1: HTTP 503: no reason given")


async def test_a_closed_port_is_said_at_once():
    async with talking() as (api, client):
        await api.away()
        assert str(await refused(client.page(PODS))) == "cannot list pods in namespace prod: connection refused"


async def test_the_environment_sends_nothing_through_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with talking() as (_, client):
        assert (await client.page(PODS)).items == ()


@pytest.mark.fault("API server is gone")
async def test_what_is_no_api_server_is_unreachable_and_not_an_empty_list():
    async with talking() as (api, client):
        api.put(f"{PODS}/a", {})
        error = await refused(client.page(f"{PODS}/a"))
    assert type(error) is Unreachable
