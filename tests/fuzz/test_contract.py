"""The HTTP ports against their own /openapi.json, and against whatever else is sent: an answer as described, or a refusal."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.described import GATE, OPS, Served, both_ports

STREAMS = frozenset({"/v1/events", "/v1/events/{namespace}/{name}"})
"""Answers without an end; tests/edges/test_streams.py reads them."""
ANY_METHOD = ("/v1/backpressure/", "/v1/admit/")
"""Gateways ask with the method of the request that they ask about."""
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
WAIT_S = 30.0
FEW = settings(max_examples=settings().max_examples // 4, suppress_health_check=list(HealthCheck))
"""Each example is a connection or two."""
UNKNOWN_METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with both_ports() as ports:
        yield ports


@pytest.fixture(scope="module")
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture(scope="module")
def contract(served, client):
    return schemathesis.openapi.from_dict(client.get(served.urls[OPS] + "/openapi.json", timeout=WAIT_S).json())


def path_items(contract) -> list[tuple[str, str]]:
    """The paths that are described, but for streams, each with its port's address."""
    items = sorted(contract.raw_schema["paths"].items())
    return [(path, item["servers"][0]["url"]) for path, item in items if path not in STREAMS]


@FEW
@given(data=st.data())
def test_whatever_is_asked_is_answered_as_the_contract_says(contract, served, client, data):
    path, server = data.draw(st.sampled_from(path_items(contract)))
    case = data.draw(contract[path]["GET"].as_strategy())
    if case.path_parameters and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(served.keys))
        case.path_parameters |= {"namespace": key.namespace, "name": key.name}
    response = case.call(base_url=served.urls[server], session=client, timeout=WAIT_S)
    case.validate_response(response, checks=CHECKS)
    assert served.failures.told == []


def test_every_kind_of_workload_is_answered_as_the_contract_says(contract, served, client):
    for path, server in path_items(contract):
        for key in (*served.keys, None):
            named = (
                {"namespace": "prod", "name": "nobody"}
                if key is None
                else {"namespace": key.namespace, "name": key.name}
            )
            case = contract[path]["GET"].Case(path_parameters=named if "{" in path else {})
            case.call_and_validate(base_url=served.urls[server], session=client, timeout=WAIT_S, checks=CHECKS)
    assert served.failures.told == []


def test_a_method_that_is_not_described_is_refused_unless_any_may_be_used(contract, served, client):
    told = {}
    for path, server in path_items(contract):
        for method in UNKNOWN_METHODS:
            url = served.urls[server] + path.format(namespace="prod", name="green")
            told[path, method] = client.request(method, url, timeout=WAIT_S).status_code
    assert told == {(path, method): 200 if path.startswith(ANY_METHOD) else 405 for path, method in told}


def first_line(url: str, sent: bytes) -> bytes:
    """What a port says first to these bytes; empty when it only hangs up."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), WAIT_S) as connection:
        connection.sendall(sent)
        said = b""
        while b"\r\n" not in said and (more := connection.recv(4096)):
            said += more
    return said.partition(b"\r\n")[0]


TARGETS = st.one_of(
    st.sampled_from(
        ["/", "/v1/state", "/v1/state/prod/red", "/v1/admit/prod/red", "/v1/backpressure/prod/red", "/metrics"]
    ),
    st.sampled_from(["/v1/explain/prod/red", "/v1/history/prod/red", "/v1/events/prod/red", "/workload/prod/red", "*"]),
).map(str.encode)
PIECES = st.one_of(
    st.sampled_from(
        [b"/", b"//", b"/..", b"%2F", b"%00", b"%ff", b"%", b"?", b"?class=", b"&deny=403", b"#", b"\xff", b";"]
    ),
    st.sampled_from(
        [b"\xc3\xa9", b"/v1/state/", b"class=%ED%A0%80", b"a" * 9000, b"http://[", b"{namespace}", b" ", b"\t"]
    ),
    st.binary(max_size=6).filter(lambda piece: b"\n" not in piece),
)
METHODS = st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS", b"CONNECT", b"X"])
HEADERS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Content-Length: 5",
                b"Content-Length: -1",
                b"Transfer-Encoding: chunked",
                b"Expect: 100-continue",
            ]
        ),
        st.sampled_from(
            [b"Upgrade: websocket", b"X-Stainless-Timeout: 9e999", b"Accept: */*;q=x", b"Accept-Encoding: gzip", b": x"]
        ),
        st.tuples(
            st.sampled_from([b"Authorization", b"X-Request-Timeout-Ms", b"Cookie", b"Accept"]), st.binary(max_size=9)
        ).map(b": ".join),
    ),
    max_size=3,
)


@FEW
@given(st.tuples(METHODS, TARGETS, st.lists(PIECES, max_size=3).map(b"".join)), HEADERS, st.binary(max_size=9))
@example((b"GET", b"/v1/state/prod/red", b"?class=\xff"), [], b"")
@example((b"GET", b"/v1/state/%00/%ff", b""), [], b"")
def test_no_request_line_and_no_header_is_a_failure_of_ours(served, asked, headers, body):
    method, target, more = asked
    request = b"\r\n".join([b"%s %s%s HTTP/1.1" % (method, target, more), b"Host: x", *headers, b"", body])
    for url in served.urls.values():
        version, _, status = first_line(url, request).partition(b" ")
        assert (version[:5], status[:3] == b"500", served.failures.told) == (b"HTTP/", False, [])


ALIVE = b"\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
JUNK = st.lists(
    st.sampled_from([b"GET ", b"/", b" HTTP/1.1", b"\r\n", b":", b"\x00", b"\n", b"\x16\x03\x01", b"PRI * HTTP/2.0"])
)


@FEW
@given(st.binary(max_size=300) | JUNK.map(b"".join))
def test_no_bytes_keep_a_port_from_answering_the_next(served, sent):
    for url in served.urls.values():
        assert first_line(url, sent + ALIVE).startswith(b"HTTP/1")
    assert first_line(served.urls[OPS], ALIVE) == b"HTTP/1.1 200 OK"


@FEW
@given(st.lists(st.text(max_size=12), max_size=4).map("/".join))
@example("v1/state/prod/red/more")
@example("v1/explain/prod")
@example("static/..%2Fhttp.py")
def test_what_is_not_described_is_not_served(served, client, path):
    for url in (served.urls[GATE], served.urls[OPS]):
        status = client.get(f"{url}/x{path}", timeout=WAIT_S, allow_redirects=False).status_code
        assert status in {400, 404}
