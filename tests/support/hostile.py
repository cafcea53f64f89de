"""What must hold of anything that others send, as functions of bytes: hypothesis, atheris and a person with a file can all call them.

Each returns, whatever the bytes are, or raises AssertionError. Only the errors that are for the sender are caught.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from aiohttp.test_utils import make_mocked_request
from google.protobuf.message import DecodeError

from scaler.backpressure import admit, check
from scaler.backpressure.ext_authz import Authorization, CheckParts
from scaler.calibration import read as read_load_test
from scaler.cluster.hpas import hpa_of
from scaler.cluster.nodes import node_class
from scaler.cluster.pods import pod_of
from scaler.cluster.scaled_objects import Service, named_workload
from scaler.core.memory import MOST_BYTES, recall, remember
from scaler.core.model import Absent, Histogram, Reading, WorkloadKey
from scaler.engines import ENGINES
from scaler.engines.row import select
from scaler.errors import ConfigError
from scaler.pb import ext_authz_pb2 as pb
from scaler.settings.file import parse_configuration
from scaler.sim.traces import read as read_trace
from scaler.sources.exposition import Wanted, parse, whole
from scaler.workload import Catalog, parse_workload
from tests.support import decisions as made
from tests.support.gated import Gated

WANTED = {name: Wanted.of(engine) for name, engine in ENGINES.items()}
KEY = WorkloadKey("prod", "llama")
OURS = frozenset({Service("slo-scaler", "slo-scaler")})
LONGEST_FAULTS = 20_000
"""Characters of all that is said of one wrong input: it goes into logs, conditions and answers."""
STATUSES = frozenset({200, 403, 429, 503})


def exposition(page: bytes) -> None:
    """A page gives numbers that can be, or none; never more samples than it has lines."""
    for engine in ENGINES.values():
        samples = parse(page, WANTED[engine.name])
        assert sum(map(len, samples.values())) <= page.count(b"\n") + 1
        sound(select(engine, samples, "pod-0", 1.0))
    whole(page, openmetrics=True)


def sound(reading: Reading) -> None:
    """Each number is None, absent, or finite and not negative; each histogram rises."""
    for field in fields(reading):
        value = getattr(reading, field.name)
        if isinstance(value, Histogram):
            assert list(value.counts) == sorted(value.counts)
            assert len(value.counts) == len(value.edges) + 1
            assert all(0 <= number < math.inf for number in (*value.counts, value.sum))
        elif isinstance(value, int | float) and not isinstance(value, bool | Absent):
            assert 0 <= value < math.inf, field.name


def metadata(content: bytes) -> None:
    """Lines of ``key=value`` are a spec, or a list of faults of a bounded length."""
    pairs = (line.partition("=") for line in content.decode(errors="replace").split("\n"))
    given({key: value for key, _, value in pairs})


def given(written: Mapping[str, str]) -> None:
    """Trigger metadata is a spec, or a list of faults of a bounded length."""
    told(lambda: parse_workload(KEY, written, CATALOG))


def told(parsed: Callable[[], object]) -> None:
    """What is wrong with an input is told, in a bounded number of words."""
    said = ""
    try:
        parsed()
    except ConfigError as error:
        said = str(error) or "nothing"
    assert said != "nothing"
    assert len(said) < LONGEST_FAULTS


CATALOG = Catalog({"p": made.SPEC.profile}, {one.name: one for one in made.SPEC.classes}, sources={"default": 15.0})


def check_request(content: bytes) -> None:
    """Any CheckRequest is admitted or refused; nothing of ours fails, and nobody is counted twice."""
    with suppress(DecodeError):
        request, gated = pb.CheckRequest.FromString(content), Gated([RED])
        failures: list[Exception] = []
        parts = CheckParts(gated.gates, lambda *_: None, lambda _, error: failures.append(error))
        context: Any = SimpleNamespace(invocation_metadata=lambda: ())
        response = asyncio.run(Authorization(parts).Check(request, context))
        assert failures == []
        assert response.WhichOneof("http_response") in {"ok_response", "denied_response"}
        counted = gated.gates.drain(KEY).classes
        assert sum(one.attempts for one in counted) <= 1


RED = made.red()


def http_query(content: bytes) -> None:
    """Whatever follows a workload's name, path, query and headers, both checks answer, and nothing of ours fails."""
    failures: list[Exception] = []
    target, *headers = content.decode("latin-1").split("\n")
    told = [(name.strip() or "x", value) for name, _, value in (line.partition(":") for line in headers[:20])]
    with suppress(ValueError):  # no address at all; the server's parser refuses it
        request = make_mocked_request("GET", f"/v1/admit/prod/llama{target}", headers=dict(told))
        request.match_info.update({"namespace": "prod", "name": "llama"})
        gated = Gated([RED])
        asked = admit.Admit(gated.gates, lambda _, error: failures.append(error))
        checked = check.Check(gated.board, gated.clock, gated.coins, lambda _, error: failures.append(error))
        answers = (admit.answer(asked, request), check.answer(checked, request))
        assert failures == []
        assert {answer.status for answer in answers} <= STATUSES


def configuration(content: bytes) -> None:
    """A text is a configuration, or a list of faults of a bounded length."""
    told(lambda: parse_configuration(content.decode(errors="replace")))


def trace(content: bytes) -> None:
    """A file is a trace or is refused."""
    with suppress(ConfigError):
        read_trace("x", content)


def load_test(content: bytes) -> None:
    """A file is the result of a load test or is refused."""
    with suppress(ConfigError):
        read_load_test("x", content)


def kubernetes(content: bytes) -> None:
    """Any JSON object is read as a pod, an HPA, a node and a ScaledObject, with no more of it than there is."""
    with suppress(ValueError, RecursionError):
        item = json.loads(content)
        if isinstance(item, dict):
            kubernetes_object(item)


def kubernetes_object(item: dict) -> None:
    """Any object is read as each kind."""
    pod_of(item)
    hpa = hpa_of(item)
    assert 0 <= hpa.up_s < math.inf
    assert node_class(item) is not None
    named_workload(item, OURS)


def memory(content: bytes) -> None:
    """Any text is recalled as a state that decides, and what is remembered of it is short and understood."""
    state = recall(content.decode(errors="replace"), made.SPEC, 0.0, 2e9).state
    again = remember(state, 0.0, 2e9)
    assert len(again) <= MOST_BYTES
    assert recall(again, made.SPEC, 0.0, 2e9).note == ""


CHECKS: Mapping[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (exposition, metadata, check_request, http_query, configuration, trace, load_test, kubernetes, memory)
}
