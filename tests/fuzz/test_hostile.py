"""What others send, damaged: real pages, files, requests and objects with bytes flipped, lines doubled and numbers in odd forms."""

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaler.pb import ext_authz_pb2 as pb
from scaler.workload import KEYS
from tests.support import damage, hostile
from tests.support.cluster_objects import scaled_object, trigger

DATA = Path(__file__).parents[1] / "data"
PAGES = tuple(path.read_bytes() for path in sorted((DATA / "metrics").rglob("*.prom"))[::4])
REQUESTS = tuple(path.read_bytes() for path in sorted((DATA / "ext_authz").glob("*.bin")))
LOAD_TESTS = tuple(path.read_bytes() for path in sorted((DATA / "load-tests").rglob("*c0[14]*.json")))
SWEEP = gzip.decompress((DATA / "load-tests" / "guidellm" / "guidellm-0.8.1-concurrent.csv.gz").read_bytes())
FEW = settings(max_examples=settings().max_examples // 4)


@pytest.mark.fault("half a page")
@pytest.mark.fault("engine reports what is no number")
@FEW
@given(damage.of(PAGES))
@example(PAGES[0] * 20)
@example(b'vllm:num_requests_waiting{engine="0"} ' + b"9" * 1_000_000 + b"\n")
def test_a_damaged_page_gives_sound_numbers_or_none(page):
    hostile.exposition(page)


VALUES = st.sampled_from(damage.ODD) | st.text(max_size=30) | st.sampled_from(["2", "p", "x" * 60_000])


@given(st.dictionaries(st.sampled_from(sorted(KEYS)) | st.text(max_size=9), VALUES, max_size=6))
def test_metadata_that_is_nearly_right_is_a_spec_or_a_few_faults(written):
    hostile.given({"scalerAddress": "slo-scaler:6000", "ttftSloSeconds": "2", "profile": "p", **written})


HEADERS = st.dictionaries(
    st.sampled_from(
        ["authorization", "x-envoy-expected-rq-timeout-ms", "x-stainless-retry-count", "x-tenant", "grpc-timeout"]
    )
    | st.text(max_size=5),
    VALUES,
    max_size=4,
)


def written_request(extensions, headers, raw) -> bytes:
    values = [pb.HeaderValue(key=name, raw_value=value) for name, value in raw.items()]
    http = pb.AttributeContext.HttpRequest(headers=headers, header_map=pb.HeaderMap(headers=values) if raw else None)
    asked = pb.AttributeContext(request=pb.AttributeContext.Request(http=http), context_extensions=extensions)
    return pb.CheckRequest(attributes=asked).SerializeToString()


UTF_8 = st.text(st.characters(codec="utf-8"), max_size=12)


@FEW
@given(
    damage.of(REQUESTS)
    | st.binary(max_size=99)
    | st.builds(
        written_request,
        st.dictionaries(st.sampled_from(["workload", "class"]), UTF_8 | st.sampled_from(["prod/llama", "chat"])),
        HEADERS,
        st.dictionaries(st.sampled_from(["X-Stainless-Retry-Count", "Authorization", ""]), st.binary(max_size=9)),
    )
)
def test_any_check_request_is_admitted_or_refused(content):
    hostile.check_request(content)


@FEW
@given(
    damage.of(
        (b"/v1/x?class=batch&deny=403\nx-request-timeout-ms: 5\nauthorization: Bearer a", b"?class=chat&class=x&deny=5")
    )
)
def test_any_path_query_and_header_is_admitted_or_refused(content):
    hostile.http_query(content)


@FEW
@given(damage.of(LOAD_TESTS) | damage.of((SWEEP,)))
def test_a_load_test_file_with_damaged_bytes_is_read_or_refused(content):
    hostile.load_test(content)


OBJECT = scaled_object(
    "llama",
    "prod",
    trigger(profile="chat"),
    annotations={"slo-scaler/shadow": "{a: 1}", "slo-scaler/floor": "6 until 2026-12-01T18:00Z"},
)
HPA = {
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "keda-hpa-llama", "namespace": "prod"},
    "spec": {
        "maxReplicas": 9,
        "metrics": [
            {
                "type": "External",
                "external": {"metric": {"name": "s0-desired-replicas"}, "target": {"averageValue": "1"}},
            },
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
    "status": {
        "desiredReplicas": 3,
        "currentReplicas": 3,
        "currentMetrics": [
            {
                "type": "External",
                "external": {"metric": {"name": "s0-desired-replicas"}, "current": {"averageValue": "2334m"}},
            },
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 70}}},
        ],
        "conditions": [
            {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "no"}
        ],
    },
}
POD = {
    "metadata": {"name": "a", "uid": "1", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": {"app": "llama"}},
    "spec": {
        "nodeName": "n",
        "containers": [
            {"name": "main", "image": "vllm/vllm-openai:v0.32.0", "args": ["--max-num-seqs", "256", "--port=8000"]}
        ],
    },
    "status": {
        "podIP": "10.0.0.1",
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-12-01T00:01:00Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-12-01T00:00:30Z"}},
            }
        ],
    },
}
JUNK: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    2**63,
    1e308,
    -0.0,
    "",
    "-1",
    "9" * 400,
    "1e999m",
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
)


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """Where values stand in an object, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def spoilt(item: dict, path: tuple, junk: object) -> dict:
    """The same object with another value in one place."""
    found = copy.deepcopy(item)
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = copy.deepcopy(junk)
    return found


OBJECTS = pytest.mark.parametrize("item", [OBJECT, HPA, POD], ids=["ScaledObject", "HPA", "Pod"])


@OBJECTS
def test_an_object_with_anything_in_one_place_is_read_for_what_it_is(item):
    for path in places(item):
        for junk in JUNK:
            hostile.kubernetes_object(spoilt(item, path, junk))


@OBJECTS
@FEW
@given(data=st.data())
def test_an_object_with_anything_in_some_places_is_read_for_what_it_is(item, data):
    for _ in range(3):
        item = spoilt(item, data.draw(st.sampled_from(list(places(item)))), data.draw(st.sampled_from(JUNK)))
    hostile.kubernetes_object(item)


@FEW
@given(damage.of(tuple(json.dumps(item).encode() for item in (OBJECT, HPA, POD))))
def test_an_object_with_damaged_bytes_is_read_or_refused(content):
    hostile.kubernetes(content)
