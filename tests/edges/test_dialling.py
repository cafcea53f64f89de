"""Discovered addresses: which are dialled, and that the others are never connected to."""

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.dialling import refused
from scaler.sources.pods import BEYOND, PodSource
from scaler.sources.scrape import Caution, scraping
from scaler.sources.shares import FORGET_S, LEAST_RETRIES, Share, Shares
from tests.support.engines import PageEngine, listening

PROD, TEST = WorkloadKey("prod", "llama"), WorkloadKey("test", "llama")
OURS, LINK_LOCAL, NONE = "this machine's own", "link-local", "no address of a pod"


async def read(*targets: Target, loopback: bool = False) -> Scrape:
    clock = asyncio.get_running_loop().time
    async with scraping(caution=Caution(Shares(Share, clock), loopback)) as scraper:
        return await PodSource(scraper, clock).read(Ask(PROD, ENGINES["vllm"], targets))


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("10.0.0.7", ""),
        ("100.64.1.2", ""),
        ("192.168.3.4", ""),
        ("[fd00::7]", ""),
        ("[2001:db8::7]", ""),
        ("127.0.0.1", OURS),
        ("127.9.9.9", OURS),
        ("[::1]", OURS),
        ("[::ffff:127.0.0.1]", OURS),
        ("[::127.0.0.1]", OURS),
        ("[64:ff9b::7f00:1]", OURS),
        ("[2002:7f00:1::]", OURS),
        ("169.254.169.254", LINK_LOCAL),
        ("[::ffff:169.254.169.254]", LINK_LOCAL),
        ("[64:ff9b::a9fe:a9fe]", LINK_LOCAL),
        ("[fe80::1]", LINK_LOCAL),
        ("[fe80::1%eth0]", LINK_LOCAL),
        ("[fd00:ec2::254]", LINK_LOCAL),
        ("100.100.100.200", LINK_LOCAL),
        ("0.0.0.0", NONE),
        ("[::]", NONE),
        ("224.0.0.1", NONE),
        ("[ff02::1]", NONE),
        ("255.255.255.255", NONE),
        ("localhost", "no IP address"),
        ("metadata.google.internal", "no IP address"),
        ("2130706433", "no IP address"),
        ("0177.0.0.1", "no IP address"),
        ("127.1", "no IP address"),
        ("", "no IP address"),
    ],
)
def test_only_an_address_that_a_pod_can_have_is_dialled(host, why):
    found = refused(f"{host}:8000", loopback=False)
    assert (bool(found), why in found) == (bool(why), True)


@given(st.ip_addresses())
def test_what_is_dialled_is_never_ours_nor_link_local_nor_for_many(ip: IPv4Address | IPv6Address):
    host = f"[{ip}]" if ip.version == 6 else str(ip)
    kept_out = ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast
    assert refused(f"{host}:8000", loopback=False) or not kept_out


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_an_ipv6_one_is_judged_as_itself(ip: IPv4Address):
    mapped = ip_address(f"::ffff:{ip}")
    assert refused(f"[{mapped}]:80", loopback=False) == refused(f"{ip}:80", loopback=False)


async def test_a_discovered_replica_on_this_machine_is_not_connected_to_and_one_that_the_operator_names_is_read():
    engine = PageEngine()
    async with listening(engine) as address:
        found = await read(Target("planted", address, discovered=True))
        assert found.missing == (Missing("planted", "its address is this machine's own; not dialled"),)
        assert [one.replica for one in (await read(Target("named", address))).readings] == ["named"]


async def test_where_the_cluster_is_on_this_machine_its_pods_may_be_too():
    async with listening(PageEngine()) as address:
        found = await read(Target("pod", address, discovered=True), loopback=True)
    assert [one.replica for one in found.readings] == ["pod"]


async def test_a_discovered_name_is_not_even_looked_up():
    found = await read(Target("planted", "localhost:80", discovered=True), loopback=True)
    assert found.missing == (Missing("planted", "its address is no IP address; not dialled"),)


# --- What one namespace may take ---


async def test_replicas_beyond_the_share_of_a_namespace_are_missing_and_those_of_another_are_read():
    async with listening(PageEngine()) as address:
        clock = asyncio.get_running_loop().time
        async with scraping(caution=Caution(Shares(lambda: Share(replicas=2), clock))) as scraper:
            source = PodSource(scraper, clock)
            crowd = tuple(Target(f"llama-{i}", address) for i in range(3))
            full = await source.read(Ask(PROD, ENGINES["vllm"], crowd))
            other = await source.read(Ask(TEST, ENGINES["vllm"], crowd[:2]))
    assert ([one.replica for one in full.readings], full.missing) == (
        ["llama-0", "llama-1"],
        (Missing("llama-2", BEYOND),),
    )
    assert len(other.readings) == 2


def test_what_a_workload_no_longer_asks_for_is_free_for_its_neighbours():
    now = [0.0]
    shares = Shares(lambda: Share(replicas=10), lambda: now[0])
    first, second = WorkloadKey("prod", "a"), WorkloadKey("prod", "b")
    granted = [shares.granted(first, 8), shares.granted(second, 8), shares.granted(first, 3), shares.granted(second, 8)]
    now[0] = FORGET_S + 1
    assert (granted, shares.granted(second, 20)) == ([8, 2, 3, 7], 10)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50)), max_size=40))
def test_a_namespace_is_never_granted_more_than_its_share(asked):
    shares = Shares(lambda: Share(replicas=30), lambda: 0.0)
    held = {name: shares.granted(WorkloadKey("prod", name), count) for name, count in asked}
    assert sum(held.values()) <= 30


async def test_a_namespace_whose_replicas_all_hang_leaves_the_lanes_of_others_free():
    shares = Shares(lambda: Share(lanes=2), lambda: 0.0)
    for _ in range(2):
        await shares.lanes("prod").acquire()
    assert (shares.lanes("prod").locked(), shares.lanes("test").locked()) == (True, False)


async def test_of_very_many_replicas_that_hang_a_part_is_asked_in_a_pass_and_all_have_their_turn():
    clock, connected, gone = asyncio.get_running_loop().time, list[str](), asyncio.Event()

    async def swallow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer.get_extra_info("sockname")[0])
        await gone.wait()
        writer.close()

    shares = Shares(lambda: Share(lanes=1000), clock)
    async with (
        await asyncio.start_server(swallow, "0.0.0.0", 0, backlog=512) as server,
        scraping(caution=Caution(shares)) as scraper,
    ):
        port = server.sockets[0].getsockname()[1]
        crowd = tuple(Target(f"r-{i}", f"127.0.1.{i}:{port}") for i in range(1, 97))
        source, counts = PodSource(scraper, clock, timeout_s=0.3, lanes=1000), []
        for _ in range(4):
            before = len(connected)
            found = await source.read(Ask(PROD, ENGINES["vllm"], crowd))
            counts.append((len(connected) - before, len(found.missing)))
        gone.set()
    first, *others = counts
    assert (first, others) == ((96, 96), [(LEAST_RETRIES, 96)] * 3)
    assert len(set(connected[96:])) == 96
