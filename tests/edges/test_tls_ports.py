"""TLS on the ports for KEDA and for gateways: who gets in, what the others see, and certificates that change under load."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from scaler.api.certificates import Certificates
from scaler.api.http import gate_app, runner
from scaler.api.keda import KedaParts, KedaServicer, Pace
from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.api.keda_server import KedaServer, Listen
from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.supervisor import Supervisor
from tests.support.builders import KEY, decision, observation, reading, spec
from tests.support.keda_edge import HandClock, Parser, RpcLog, Silent
from tests.support.served import view_of
from tests.support.tls import A_WHILE_AGO, Authority, Issued, Told, certificates, channel, client_context

LLAMA = ScaledObject(KEY, {"safeConcurrency": "100"})
SOON_S, NEVER_S = 0.05, 3600.0
ROTATIONS = 5


@dataclass
class Keda:
    """KEDA's port over TLS."""

    port: int
    server: KedaServer

    async def asked(self, ca: Path | None, shown: Issued | None = None) -> str:
        """Ok, or why a client with these files is not answered."""
        async with channel(self.port, ca, shown) as link:
            try:
                await AioKedaClient(link).metric_spec(LLAMA)
            except RpcFailed as failed:
                return failed.code.name
        return "OK"


@asynccontextmanager
async def keda_port(held: Certificates, *, first_call_s: float = NEVER_S) -> AsyncIterator[Keda]:
    board, shutdown, silent, clock = Board(), asyncio.Event(), Silent(), HandClock()
    board.publish(decision(spec(), observation(0.0, reading())))
    supervisor = Supervisor(Parts(silent, silent, board, silent, clock))
    servicer = KedaServicer(KedaParts(board, supervisor, Parser(), clock, RpcLog(), shutdown), Pace(NEVER_S, NEVER_S))
    server = KedaServer(servicer, shutdown, Listen(0, "127.0.0.1", 5.0, held, first_call_s))
    try:
        yield Keda(await server.start(), server)
    finally:
        await server.stop()
        await supervisor.stop()


@asynccontextmanager
async def gate_port(held: Certificates) -> AsyncIterator[str]:
    """The gateways' port over TLS; its URL."""
    served = runner(gate_app(view_of()))
    await served.setup()
    try:
        await web.TCPSite(served, "127.0.0.1", 0, ssl_context=held.http_context()).start()
        yield f"https://localhost:{served.addresses[0][1]}/v1/state"
    finally:
        await served.cleanup()


def port_of(url: str) -> int:
    return URL(url).port or 0


async def fetched(url: str, context: ssl.SSLContext | bool) -> int:
    async with aiohttp.ClientSession() as client, client.get(url, ssl=context) as answer:
        return answer.status


@pytest.fixture
def ours(tmp_path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def strangers(tmp_path) -> Authority:
    return Authority(tmp_path / "strangers")


# --- Who gets in ---


async def test_keda_with_the_ca_and_a_client_certificate_is_answered(ours):
    async with keda_port(certificates(ours.issue(), ours.ca)) as keda:
        assert await keda.asked(ours.ca, ours.issue()) == "OK"


async def test_keda_with_the_ca_alone_is_answered_where_no_client_certificate_is_asked_for(ours):
    async with keda_port(certificates(ours.issue())) as keda:
        assert await keda.asked(ours.ca) == "OK"


async def test_keda_without_what_it_takes_gets_unavailable_and_spoils_nothing_for_others(ours, strangers):
    good = ours.issue()
    async with keda_port(certificates(ours.issue(), ours.ca)) as keda:
        refused = [
            await keda.asked(None),
            await keda.asked(strangers.ca, good),
            await keda.asked(ours.ca),
            await keda.asked(ours.ca, strangers.issue()),
            await keda.asked(ours.ca, ours.issue(days=A_WHILE_AGO)),
        ]
        assert (refused, await keda.asked(ours.ca, good)) == (["UNAVAILABLE"] * 5, "OK")


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_port_for_keda_speaks_http_2_over_tls_1_2_and_newer(ours, newest):
    context = client_context(ours.ca)
    context.maximum_version = newest
    context.set_alpn_protocols(["h2"])
    async with keda_port(certificates(ours.issue())) as keda:
        _, writer = await asyncio.open_connection("localhost", keda.port, ssl=context)
        shaken = writer.get_extra_info("ssl_object")
        assert (shaken.selected_alpn_protocol(), shaken.version()) == (
            "h2",
            newest.name.replace("_", "."),
        )
        writer.close()


async def test_a_client_that_connects_and_never_calls_is_told_of_with_what_may_keep_it_from_calling(ours):
    told = Told()
    held = certificates(ours.issue(), ours.ca, told)
    async with keda_port(held, first_call_s=SOON_S) as keda:
        await keda.asked(ours.ca)
        await until(lambda: bool(told.news))
    (kind, sentence), *_ = told.news
    assert (kind, "tlsClientCert" in sentence, held.refusals[kind]) == (
        "connected_without_a_call",
        True,
        len(told.news),
    )


async def test_a_client_that_calls_is_not_told_of(ours):
    told = Told()
    async with keda_port(certificates(ours.issue(), ours.ca, told), first_call_s=SOON_S) as keda:
        assert await keda.asked(ours.ca, ours.issue()) == "OK"
        await passing(3 * SOON_S)
    assert told.news == []


async def test_a_gateway_with_the_ca_and_a_client_certificate_is_answered(ours):
    async with gate_port(certificates(ours.issue(), ours.ca)) as url:
        assert await fetched(url, client_context(ours.ca, ours.issue())) == 200


REFUSED = [
    pytest.param(None, "client_without_certificate", "certificate required", id="none"),
    pytest.param("strangers", "client_certificate_not_trusted", "unknown ca", id="of-a-stranger"),
    pytest.param("expired", "client_certificate_not_trusted", "certificate expired", id="expired"),
]


@pytest.mark.parametrize(("shown", "kind", "seen"), REFUSED)
async def test_a_gateway_without_a_good_certificate_sees_why_and_so_does_the_operator(
    ours, strangers, shown, kind, seen
):
    shows = {None: lambda: None, "strangers": strangers.issue, "expired": lambda: ours.issue(days=A_WHILE_AGO)}[shown]()
    told = Told()
    async with gate_port(certificates(ours.issue(), ours.ca, told)) as url:
        with pytest.raises(aiohttp.ClientOSError, match=seen):
            await fetched(url, client_context(ours.ca, shows))
        good = await fetched(url, client_context(ours.ca, ours.issue()))
    assert (set(told.kinds), good) == ({kind}, 200)


async def test_a_gateway_that_speaks_no_tls_is_hung_up_on_and_told_of(ours):
    told = Told()
    async with gate_port(certificates(ours.issue(), told=told)) as url:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await fetched(url.replace("https:", "http:"), True)
    assert set(told.kinds) == {"client_without_tls"}


async def test_a_gateway_that_does_not_trust_our_ca_refuses_us(ours, strangers):
    async with gate_port(certificates(ours.issue())) as url:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await fetched(url, client_context(strangers.ca))


async def test_a_client_that_says_that_it_does_not_trust_us_is_told_of(ours, strangers):
    told = Told()
    async with gate_port(certificates(ours.issue(), told=told)) as url:
        # Blocking sockets send the alert, as curl and Go do; asyncio's do not.
        await asyncio.to_thread(_blocking_handshake, port_of(url), client_context(strangers.ca))
        await until(lambda: bool(told.news))
    assert told.kinds == ["certificate_refused_by_client"]


def _blocking_handshake(port: int, context: ssl.SSLContext) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(link, server_hostname="localhost")


async def until(happened) -> None:
    while not happened():
        await passing(SOON_S / 5)


async def passing(seconds: float) -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, done.set_result, None)
    await done


# --- Certificates that change ---


async def shown_by(port: int, context: ssl.SSLContext) -> bytes:
    """The certificate that a new connection is shown."""
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("localhost", port, ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()


def of(pair: Issued) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


async def test_new_connections_get_the_new_certificate_on_both_ports(tmp_path, ours):
    first, second = ours.issue(), ours.issue()
    mounted = first.copy(tmp_path / "mounted")
    held, context = certificates(mounted), client_context(ours.ca)
    async with keda_port(held) as keda, gate_port(held) as url:
        gate = port_of(url)
        before = [await shown_by(port, context) for port in (keda.port, gate)]
        second.over(mounted)
        await held.refresh()
        after = [await shown_by(port, context) for port in (keda.port, gate)]
    assert (before, after) == ([of(first)] * 2, [of(second)] * 2)


async def test_a_broken_new_certificate_leaves_the_old_one_on_both_ports(tmp_path, ours):
    first = ours.issue()
    mounted = first.copy(tmp_path / "mounted")
    held, context = certificates(mounted), client_context(ours.ca)
    async with keda_port(held) as keda, gate_port(held) as url:
        mounted.cert.write_text("not a certificate")
        await held.refresh()
        seen = [await shown_by(port, context) for port in (keda.port, port_of(url))]
    assert seen == [of(first)] * 2


async def test_the_files_are_watched_without_being_asked(tmp_path, ours):
    told, mounted = Told(), ours.issue().copy(tmp_path / "mounted")
    held = certificates(mounted, told=told)
    watch = asyncio.create_task(held.run(SOON_S / 5))
    ours.issue().over(mounted)
    await until(lambda: "certificate_loaded" in told.kinds)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    assert "certificate_loaded" in told.kinds


async def test_no_call_fails_while_certificates_rotate_under_load(tmp_path, ours):
    mounted, shown = ours.issue().copy(tmp_path / "mounted"), ours.issue()
    held = certificates(mounted, ours.ca)
    answers: list[str] = []
    statuses: list[int] = []
    async with keda_port(held) as keda, gate_port(held) as url:
        done = asyncio.Event()

        async def reconnecting() -> None:
            while not done.is_set():
                answers.append(await keda.asked(ours.ca, shown))

        async def connected() -> None:
            async with channel(keda.port, ours.ca, shown) as link:
                while not done.is_set():
                    await AioKedaClient(link).metric_spec(LLAMA)
                    answers.append("OK")

        async def gateway() -> None:
            while not done.is_set():
                statuses.append(await fetched(url, client_context(ours.ca, shown)))

        load = [asyncio.create_task(work()) for work in (reconnecting, connected, gateway)]
        for _ in range(ROTATIONS):
            calls, requests = len(answers), len(statuses)
            ours.issue().over(mounted)
            await held.refresh()
            await until(
                lambda calls=calls, requests=requests: len(answers) > calls + 20 and len(statuses) > requests + 2
            )
        done.set()
        await asyncio.gather(*load)
    assert (set(answers), set(statuses), held.refusals) == ({"OK"}, {200}, {})


async def test_a_stream_lives_on_while_certificates_rotate_and_ends_with_ok(tmp_path, ours):
    mounted = ours.issue().copy(tmp_path / "mounted")
    held = certificates(mounted)
    async with keda_port(held) as keda, channel(keda.port, ours.ca) as link:
        stream = AioKedaClient(link).stream_is_active(LLAMA)
        first = await anext(stream)
        ours.issue().over(mounted)
        await held.refresh()
        another = await keda.asked(ours.ca)
        await keda.server.stop()
        rest = [message async for message in stream]
    assert (first, another, rest) == (True, "OK", [])


async def test_a_connection_of_a_gateway_lives_on_while_certificates_rotate(tmp_path, ours):
    mounted = ours.issue().copy(tmp_path / "mounted")
    held = certificates(mounted)
    made = []
    trace = aiohttp.TraceConfig()

    async def remember(*_) -> None:
        made.append("connection")

    trace.on_connection_create_end.append(remember)
    connector = aiohttp.TCPConnector(ssl=client_context(ours.ca))
    async with (
        gate_port(held) as url,
        aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as client,
    ):
        for _ in range(2):
            async with client.get(url) as answer:
                assert answer.status == 200
                await answer.read()
            ours.issue().over(mounted)
            await held.refresh()
    assert made == ["connection"]


async def test_while_the_bundle_holds_both_cas_the_old_and_the_new_clients_get_in_and_then_the_new_alone(
    tmp_path, ours
):
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    bundle = tmp_path / "clients.pem"
    bundle.write_bytes(old.ca.read_bytes() + new.ca.read_bytes())
    held, clients = certificates(ours.issue(), bundle), (old.issue(), new.issue())
    async with keda_port(held) as keda, gate_port(held) as url:
        both: list[object] = [await keda.asked(ours.ca, shown) for shown in clients]
        both += [await fetched(url, client_context(ours.ca, shown)) for shown in clients]
        bundle.write_bytes(new.ca.read_bytes())
        await held.refresh()
        alone = [await keda.asked(ours.ca, shown) for shown in clients]
        with pytest.raises(aiohttp.ClientOSError, match="unknown ca"):
            await fetched(url, client_context(ours.ca, clients[0]))
        last = await fetched(url, client_context(ours.ca, clients[1]))
    assert (both, alone, last) == (["OK", "OK", 200, 200], ["UNAVAILABLE", "OK"], 200)
