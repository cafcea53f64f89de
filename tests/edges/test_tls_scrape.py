"""Engines that speak TLS, ask for tokens or certificates, and what a missing reading says then, over real sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.pods import PodSource
from scaler.sources.scrape import ScrapeSettings, scraping
from tests.support.tls import A_WHILE_AGO, Authority, server_context

PAGE = (Path(__file__).parents[1] / "data" / "metrics" / "0.32.0-03-overload-40-streams.prom").read_bytes()
AT_ONCE = {"refresh_s": 0.0}
OLD_TLS, NEW_TLS = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@dataclass
class Engine:
    """Serves a page over HTTP or TLS to whoever brings the token, and remembers what it was shown."""

    token: str | None = None
    status: int = 200
    shown: list[str | None] = field(default_factory=list)
    address: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization")
        self.shown.append(given)
        if self.token is not None and given != f"Bearer {self.token}":
            return web.Response(status=401)
        return web.Response(status=self.status, body=PAGE, content_type="text/plain")

    @asynccontextmanager
    async def listening(self, context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator["Engine"]:
        app = web.Application()
        app.router.add_get("/metrics", self.answer)
        app.router.add_get("/other", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, reuse_address=True).start()
            self.address = f"127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()


@dataclass
class Scraping:
    """A source with its settings."""

    source: PodSource

    async def read(self, address: str, scheme: str = "") -> str:
        """Read, or why it is missing."""
        targets = (Target("pod-0", address, scheme),)
        return outcome(await self.source.read(Ask(WorkloadKey("prod", "llama"), ENGINES["vllm"], targets)))


@asynccontextmanager
async def scrape(*, refresh_s: float = 3600.0, **settings: Any) -> AsyncIterator[Scraping]:
    named: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    async with scraping(ScrapeSettings(**named), refresh_s=refresh_s) as scraper:
        yield Scraping(PodSource(scraper, asyncio.get_running_loop().time, timeout_s=10.0))


async def read(engine: Engine, by_platform: str = "", **settings: Any) -> str:
    async with scrape(**settings) as ours:
        return await ours.read(engine.address, by_platform)


def outcome(scraped: Scrape) -> str:
    return "read" if scraped.readings else scraped.missing[0].why


@pytest.fixture
def ca(tmp_path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def stranger(tmp_path) -> Authority:
    return Authority(tmp_path / "stranger")


# --- Whom to trust ---


async def test_an_engine_with_a_certificate_of_the_ca_is_read(ca):
    async with Engine().listening(server_context(ca.issue())) as engine:
        assert await read(engine, scheme="https", ca_file=ca.ca) == "read"


async def test_the_certificate_itself_may_stand_where_the_ca_does(ca):
    pair = ca.issue()
    async with Engine().listening(server_context(pair)) as engine:
        assert await read(engine, scheme="https", ca_file=pair.cert) == "read"


async def test_an_engine_of_another_ca_is_not_read_and_the_setting_is_named(ca, stranger):
    async with Engine().listening(server_context(stranger.issue())) as engine:
        told = await read(engine, "https", ca_file=ca.ca, name="lab")
    assert (told, engine.shown) == ("certificate not trusted; set scrape.lab.ca_file to the CA that issued it", [])


async def test_an_engine_of_another_ca_is_read_when_told_not_to_look(stranger):
    async with Engine().listening(server_context(stranger.issue(names="DNS:elsewhere"))) as engine:
        assert await read(engine, "https", insecure=True) == "read"


async def test_an_expired_certificate_is_the_engines_fault_and_said_to_be(ca):
    async with Engine().listening(server_context(ca.issue(days=A_WHILE_AGO))) as engine:
        assert await read(engine, "https", ca_file=ca.ca) == "certificate of the engine has expired"


async def test_a_certificate_of_another_name_is_not_trusted_until_the_name_is_set(ca):
    async with Engine().listening(server_context(ca.issue(names="DNS:llama.prod.svc"))) as engine:
        without = await read(engine, "https", ca_file=ca.ca)
        named = await read(engine, "https", ca_file=ca.ca, server_name="llama.prod.svc")
    assert (without, named) == (
        "certificate is for another name; set scrape.default.server_name to the one it bears",
        "read",
    )


async def test_a_new_ca_is_trusted_without_a_restart(tmp_path, ca, stranger):
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(stranger.ca.read_bytes())
    async with Engine().listening(server_context(ca.issue())) as engine, scrape(ca_file=trusted, **AT_ONCE) as ours:
        before = await ours.read(engine.address, "https")
        trusted.write_bytes(ca.ca.read_bytes())
        after = await ours.read(engine.address, "https")
    assert (before, after) == ("certificate not trusted; set scrape.default.ca_file to the CA that issued it", "read")


# --- What to show ---


@pytest.mark.parametrize("newest", [OLD_TLS, NEW_TLS], ids=["tls-1.2", "tls-1.3"])
async def test_an_engine_that_asks_for_a_client_certificate_gets_it_or_the_setting_is_named(ca, stranger, newest):
    context = server_context(ca.issue(), ca.ca)
    context.maximum_version = newest
    ours, theirs = ca.issue(), stranger.issue()
    async with Engine().listening(context) as engine:
        shown = await read(engine, "https", ca_file=ca.ca, client_cert_file=ours.cert, client_key_file=ours.key)
        none = await read(engine, "https", ca_file=ca.ca)
        wrong = await read(engine, "https", ca_file=ca.ca, client_cert_file=theirs.cert, client_key_file=theirs.key)
    assert (shown, none.split("; ")[1], wrong.split("; ")[1]) == (
        "read",
        "if it asks for a client certificate, set scrape.default.client_cert_file",
        "check scrape.default.client_cert_file",
    )


async def test_a_client_certificate_rotates_without_a_restart(tmp_path, ca, stranger):
    mounted = stranger.issue().copy(tmp_path / "mounted")
    files = {"ca_file": ca.ca, "client_cert_file": mounted.cert, "client_key_file": mounted.key}
    async with (
        Engine().listening(server_context(ca.issue(), ca.ca)) as engine,
        scrape(**files, **AT_ONCE) as ours,
    ):
        before = await ours.read(engine.address, "https")
        ca.issue().over(mounted)
        after = await ours.read(engine.address, "https")
    assert (before.split("; ")[1], after) == ("check scrape.default.client_cert_file", "read")


async def test_a_broken_client_certificate_keeps_the_old_one_and_its_fault_is_told_with_the_next_failure(tmp_path, ca):
    mounted = ca.issue().copy(tmp_path / "mounted")
    files = {"ca_file": ca.ca, "client_cert_file": mounted.cert, "client_key_file": mounted.key}
    async with scrape(**files, **AT_ONCE) as ours:
        async with Engine().listening(server_context(ca.issue(), ca.ca)) as engine:
            first = await ours.read(engine.address, "https")
            mounted.key.write_bytes(ca.issue().key.read_bytes())
            kept = await ours.read(engine.address, "https")
        gone = await ours.read(engine.address, "https")
    assert (first, kept, gone) == (
        "read",
        "read",
        "connection refused; scrape.default.client_key_file: does not match client_cert_file",
    )


async def test_the_token_is_sent_over_tls_and_followed_when_it_rotates(tmp_path, ca):
    token = tmp_path / "token"
    token.write_text("first\n")
    async with (
        Engine("first").listening(server_context(ca.issue())) as engine,
        scrape(ca_file=ca.ca, bearer_token_file=token, **AT_ONCE) as ours,
    ):
        right = await ours.read(engine.address, "https")
        engine.token = "second"
        wrong = await ours.read(engine.address, "https")
        token.write_text("second\n")
        rotated = await ours.read(engine.address, "https")
    assert (right, wrong, rotated) == (
        "read",
        "HTTP 401; check the token in scrape.default.bearer_token_file",
        "read",
    )


async def test_an_engine_that_wants_a_token_names_the_setting(ca):
    async with Engine("secret").listening(server_context(ca.issue())) as engine:
        assert await read(engine, "https", ca_file=ca.ca) == "HTTP 401; set scrape.default.bearer_token_file"


async def test_the_token_is_not_sent_in_the_clear_unless_http_is_named(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    async with Engine("secret").listening() as engine:
        found_out = await read(engine, bearer_token_file=token)
        by_platform = await read(engine, "http", bearer_token_file=token)
        named = await read(engine, scheme="http", bearer_token_file=token)
    held_back = "HTTP 401; the token is sent over TLS only, unless scrape.default.scheme is http"
    assert (found_out, by_platform, named) == (held_back, held_back, "read")
    assert engine.shown == [None, None, "Bearer secret"]


async def test_a_token_never_shows_in_a_representation(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    async with scraping(ScrapeSettings(bearer_token_file=str(token))) as scraper:
        await scraper.refresh(0.0)
        assert (scraper.access.token, "secret" in repr(scraper.access)) == ("secret", False)


UNUSABLE = [
    pytest.param(
        {"ca_file": "gone.pem"}, "scrape.default.ca_file: cannot be read (No such file or directory)", id="ca"
    ),
    pytest.param(
        {"bearer_token_file": "gone"},
        "scrape.default.bearer_token_file: cannot be read (No such file or directory)",
        id="token",
    ),
    pytest.param(
        {"bearer_token_file": "text"},
        "scrape.default.bearer_token_file: must hold one token and nothing else",
        id="text",
    ),
    pytest.param({"ca_file": "text"}, "scrape.default.ca_file: holds no PEM certificate", id="ca-is-text"),
    pytest.param(
        {"client_cert_file": "text"},
        "scrape.default.client_cert_file or client_key_file: not usable (not PEM)",
        id="certificate-is-text",
    ),
]


@pytest.mark.parametrize(("files", "why"), UNUSABLE)
async def test_files_that_cannot_be_used_are_the_reason_and_the_engine_is_not_asked(tmp_path, files, why):
    (tmp_path / "text").write_text("two words")
    async with Engine().listening() as engine:
        told = await read(engine, **{name: tmp_path / file for name, file in files.items()})
    assert (told, engine.shown) == (why, [])


# --- Which scheme and port ---


async def test_who_answers_over_http_is_asked_over_http():
    async with Engine().listening() as engine, scrape() as ours:
        assert [await ours.read(engine.address), await ours.read(engine.address)] == ["read", "read"]


async def test_tls_is_found_out_and_remembered(ca):
    async with (
        counted(server_context(ca.issue())) as (address, hellos),
        scrape(ca_file=ca.ca) as ours,
    ):
        first = await ours.read(address)
        tried = set(hellos)
        hellos.clear()
        later = await ours.read(address)
    assert (first, later, tried, "plain" in hellos) == ("read", "read", {"plain", "tls"}, False)


async def test_an_engine_that_answers_plain_http_with_400_as_go_and_nginx_do_is_asked_over_tls(ca):
    async with (
        counted(
            server_context(ca.issue()),
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        ) as (address, _),
        scrape(ca_file=ca.ca) as ours,
    ):
        assert await ours.read(address) == "read"


async def test_an_engine_that_is_found_to_speak_tls_but_not_trusted_says_so(ca, stranger):
    async with Engine().listening(server_context(stranger.issue())) as engine:
        assert (
            await read(engine, ca_file=ca.ca)
            == "certificate not trusted; set scrape.default.ca_file to the CA that issued it"
        )


async def test_who_stops_speaking_tls_is_asked_over_http_again(ca):
    async with scrape(ca_file=ca.ca) as ours:
        async with Engine().listening(server_context(ca.issue())) as engine:
            first = await ours.read(engine.address)
        async with Engine().listening(port=int(engine.address.split(":")[1])) as again:
            later = [await ours.read(again.address), await ours.read(again.address)]
    assert (first, later) == ("read", ["read", "read"])


async def test_an_answer_that_says_no_is_no_reason_to_try_the_other_scheme(ca):
    async with Engine(status=503).listening() as engine:
        told = await read(engine)
    assert (told, len(engine.shown)) == ("HTTP 503", 1)


async def test_what_is_named_goes_before_what_the_platform_says(ca):
    async with Engine().listening(server_context(ca.issue())) as engine:
        assert await read(engine, "http", scheme="https", ca_file=ca.ca) == "read"


async def test_port_and_path_are_taken_from_the_settings_when_named():
    async with Engine().listening() as engine:
        port = int(engine.address.split(":")[1])
        async with scrape(port=port, path="/other") as ours:
            assert await ours.read("127.0.0.1:1") == "read"


@asynccontextmanager
async def counted(inner: ssl.SSLContext, to_plain: bytes = b"") -> AsyncIterator[tuple[str, list[str]]]:
    """A TLS engine that tells plain HTTP from TLS by the first byte, as servers do, and counts both."""
    hellos: list[str] = []
    async with Engine().listening(inner) as engine:
        host, _, port = engine.address.partition(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            start = await reader.read(4096)
            hellos.append("tls" if start[:1] == b"\x16" else "plain")
            if hellos[-1] == "plain":
                writer.write(to_plain)
                writer.close()
                return
            inside, outside = await asyncio.open_connection(host, int(port))
            outside.write(start)
            await asyncio.gather(_pump(reader, outside), _pump(inside, writer))

        async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", hellos


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()
