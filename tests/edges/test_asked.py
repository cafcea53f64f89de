"""What a gateway's request says of itself by its headers, whoever wrote them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.backpressure.asked import RETRIES, TIMEOUTS, Owner, Trust, answer_body, answer_headers, request_of
from scaler.core.gate import Request, Verdict, Why, unknown
from scaler.core.model import GateMode, Pressure
from scaler.core.retry import Retry
from tests.support import decisions as made

NOBODY = Trust()
KEY = "sk-secret"
TRUST = Trust("x-tenant", {hashlib.sha256(KEY.encode()).hexdigest(): Owner("acme", "agent")})
REFUSED = Verdict(
    admit=False,
    why=Why.NO_CAPACITY,
    state=Pressure.RED,
    admit_ratio=0.0,
    request_class="chat",
    retry=Retry(8, 7200, futile=False),
    decision=made.red(),
)


@pytest.mark.parametrize(
    ("headers", "deadline_s"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"x-request-timeout-ms": "1500"}, 1.5, id="milliseconds"),
        pytest.param({"x-stainless-read-timeout": "600.0"}, 600.0, id="Python clients"),
        pytest.param({"x-stainless-timeout": "60"}, 60.0, id="TypeScript clients"),
        pytest.param({"grpc-timeout": "2500m"}, 2.5, id="grpc milliseconds"),
        pytest.param({"grpc-timeout": "2S"}, 2.0, id="grpc seconds"),
        pytest.param({"grpc-timeout": "2S", "x-request-timeout-ms": "500"}, 0.5, id="the shortest counts"),
        pytest.param({"x-request-timeout-ms": "0"}, None, id="nought is none"),
        pytest.param({"x-request-timeout-ms": "1e3"}, None, id="not a plain number"),
        pytest.param({"x-request-timeout-ms": "-5"}, None, id="negative"),
        pytest.param({"x-request-timeout-ms": "\u0665"}, None, id="other digits"),
        pytest.param({"grpc-timeout": "2"}, None, id="no unit"),
        pytest.param({"x-envoy-expected-rq-timeout-ms": "200"}, None, id="over HTTP that is the check's own"),
    ],
)
def test_how_long_a_client_waits_is_read(headers, deadline_s):
    told = request_of(headers, NOBODY, None).deadline_s
    assert told == (None if deadline_s is None else pytest.approx(deadline_s))


@pytest.mark.parametrize(
    ("headers", "retries"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"x-stainless-retry-count": "2"}, 2, id="OpenAI and Anthropic"),
        pytest.param({"grpc-previous-rpc-attempts": "1"}, 1, id="grpc"),
        pytest.param({"x-envoy-attempt-count": "1"}, 0, id="an Envoy's first attempt"),
        pytest.param({"x-envoy-attempt-count": "3"}, 2, id="its third"),
        pytest.param({"x-envoy-attempt-count": "0"}, 0, id="its noughth"),
        pytest.param({"x-stainless-retry-count": "many"}, 0, id="not a number"),
    ],
)
def test_announced_retries_are_read(headers, retries):
    assert request_of(headers, NOBODY, None).retries == retries


@pytest.mark.parametrize(
    ("trust", "route", "headers", "request_class", "tenant"),
    [
        pytest.param(NOBODY, None, {"x-tenant": "a", "x-request-class": "chat"}, None, None, id="nobody is believed"),
        pytest.param(TRUST, None, {"x-tenant": "a"}, None, "a", id="the proxy's header"),
        pytest.param(TRUST, None, {"authorization": f"Bearer {KEY}"}, "agent", "acme", id="a known key"),
        pytest.param(TRUST, "chat", {"authorization": f"Bearer {KEY}"}, "chat", "acme", id="the route counts first"),
        pytest.param(TRUST, "", {"authorization": f"Bearer {KEY}"}, "agent", "acme", id="a route that says nothing"),
        pytest.param(TRUST, None, {"authorization": "Bearer other"}, None, None, id="an unknown key"),
        pytest.param(TRUST, None, {"authorization": ""}, None, None, id="no key"),
    ],
)
def test_class_and_tenant_come_from_who_is_trusted(trust, route, headers, request_class, tenant):
    told = request_of(headers, trust, route)
    assert (told.request_class, told.tenant) == (request_class, tenant)


@given(
    st.dictionaries(
        st.sampled_from(["authorization", "x-tenant", "grpc-timeout", *TIMEOUTS, *RETRIES]),
        st.text(max_size=30) | st.from_regex(r"[0-9]{1,5}[.HMSmun]?[0-9]?", fullmatch=True),
    ),
    st.none() | st.text(max_size=10),
)
def test_whatever_headers_say_there_is_a_request(headers, request_class):
    told = request_of(headers, TRUST, request_class)
    assert told.retries >= 0
    assert told.deadline_s is None or told.deadline_s > 0


@given(st.text(min_size=12, max_size=40))
def test_a_credential_is_in_no_request(secret):
    headers = {"authorization": f"Bearer {secret}", "cookie": secret}
    assert request_of(headers, TRUST, None) == Request()


def test_a_refusal_says_why_and_when_to_come_back_to_every_kind_of_client():
    assert answer_headers(REFUSED, made.red().observed_at + 1.5) == {
        "X-Backpressure-State": "RED",
        "X-Backpressure-Admit": "0",
        "X-Backpressure-Gate": "enforce",
        "X-Backpressure-Age-Ms": "1500",
        "X-Backpressure-Seq": "19",
        "X-Backpressure-Reason": "no-capacity",
        "Retry-After": "8",
        "retry-after-ms": "7200",
        "grpc-retry-pushback-ms": "7200",
    }
    assert json.loads(answer_body(REFUSED)) == {
        "error": {
            "message": "no replica is ready; retry in 8 s",
            "type": "overloaded_error",
            "param": None,
            "code": "backpressure_no_capacity",
        },
        "state": "RED",
        "class": "chat",
    }


def test_who_should_not_come_back_is_told_so():
    told = answer_headers(replace(REFUSED, retry=Retry(60, 60_000, futile=True)), 39.0)
    assert (told["x-should-retry"], told["grpc-retry-pushback-ms"], told["Retry-After"]) == ("false", "-1", "60")


def test_one_that_is_let_in_by_a_gate_that_observes_is_told_why_but_not_to_come_back():
    told = answer_headers(replace(REFUSED, admit=True), 39.0)
    assert (told["X-Backpressure-Reason"], "Retry-After" in told) == ("no-capacity", False)
    assert json.loads(answer_body(replace(REFUSED, admit=True))) == {"state": "RED", "class": "chat"}


@pytest.mark.parametrize("gate", GateMode)
def test_the_gate_that_is_told_is_that_of_the_requests_class(gate):
    first, second, *others = made.red().classes
    decision = replace(made.red(), classes=(first, replace(second, gate=gate), *others))
    told = answer_headers(replace(REFUSED, request_class=second.name, decision=decision), 39.0)
    assert told["X-Backpressure-Gate"] == gate


@pytest.mark.parametrize("why", [Why.UNKNOWN_WORKLOAD, Why.PENDING, Why.ERROR])
def test_of_what_is_not_known_that_is_said(why):
    assert answer_headers(unknown(why), 39.0) == {
        "X-Backpressure-State": "UNKNOWN",
        "X-Backpressure-Admit": "1",
        "X-Backpressure-Reason": why.value,
    }


def test_a_key_of_bytes_that_are_no_text_is_known_by_its_hash_as_any_other():
    key = b"sk-\xff\xe9"
    trust = Trust(None, {hashlib.sha256(key).hexdigest(): Owner("acme")})
    headers = {"authorization": (b"Bearer " + key).decode(errors="surrogateescape")}  # as HTTP servers give it
    assert request_of(headers, trust, None).tenant == "acme"


@given(
    st.dictionaries(st.sampled_from(["authorization", "x-tenant", *TIMEOUTS, *RETRIES, "grpc-timeout"]), st.binary())
)
def test_whatever_bytes_a_client_sends_make_a_request_and_no_failure_of_ours(sent):
    request = request_of({name: told.decode(errors="surrogateescape") for name, told in sent.items()}, TRUST, None)
    assert request.deadline_s is None or request.deadline_s > 0
