"""What is shipped for gateways that are not run here: it can be read, names what is served, and waits and fails as promised."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.telemetry.gauges import OnBoard
from tests.support import decisions as made
from tests.support.gateways import SHIPPED
from tests.support.served import Clock, board_of

READ: dict[str, Callable[[str], Any]] = {".yaml": yaml.safe_load_all, ".json": json.loads}
FILES = sorted(path for path in SHIPPED.rglob("*") if path.is_file())
DOCUMENTS = [path for path in FILES if path.suffix in READ]
DOCS = (Path(__file__).parents[2] / "docs" / "gateways.md").read_text(encoding="utf-8")
ADDRESSES = re.compile(r"slo-scaler[\w.-]*\.slo-scaler\.svc(?:\.cluster\.local)?(?::(\d+))?")


def of(path: str) -> list:
    return list(yaml.safe_load_all((SHIPPED / path).read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(SHIPPED).as_posix())
def test_every_document_can_be_read(path):
    assert list(READ[path.suffix](path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SHIPPED).as_posix())
def test_every_file_is_told_of_and_asks_a_port_that_is_served(path):
    text = path.read_text(encoding="utf-8")
    ports = {found[1] for found in ADDRESSES.finditer(text) if found[1]}
    assert f"manifests/gateways/{path.relative_to(SHIPPED).as_posix()}" in DOCS
    assert ports <= {"8080", "6001"}


def test_those_that_ask_wait_two_tenths_of_a_second_and_fail_open_where_they_can():
    [policy, _], [mesh] = of("envoy-gateway/securitypolicy.yaml"), of("istio/mesh.yaml")
    [provider] = mesh["extensionProviders"]
    [apisix] = of("apisix/route.yaml")
    auth, http = policy["spec"]["extAuth"], provider["envoyExtAuthzHttp"]
    forward = apisix["routes"][0]["plugins"]["forward-auth"]
    assert (auth["timeout"], auth["failOpen"]) == ("200ms", True)
    assert (http["timeout"], http["failOpen"]) == ("0.2s", True)
    assert (forward["timeout"], forward["allow_degradation"]) == (200, True)
    assert "Retry-After" in forward["client_headers"]


def test_those_that_ask_name_the_workload_in_the_path():
    [policy, _], [mesh], [middleware], [apisix], [route] = map(
        of,
        (
            "envoy-gateway/securitypolicy.yaml",
            "istio/mesh.yaml",
            "traefik/middleware.yaml",
            "apisix/route.yaml",
            "gateway-api/httproute.yaml",
        ),
    )
    asked = [
        policy["spec"]["extAuth"]["http"]["path"],
        mesh["extensionProviders"][0]["envoyExtAuthzHttp"]["pathPrefix"],
        middleware["spec"]["forwardAuth"]["address"],
        apisix["routes"][0]["plugins"]["forward-auth"]["uri"],
        route["spec"]["rules"][0]["filters"][0]["externalAuth"]["http"]["path"],
    ]
    assert [path[path.index("/v1") :] for path in asked] == ["/v1/admit/prod/llama"] * len(asked)


def test_llm_d_async_reads_a_gauge_that_is_exported():
    [queue] = json.loads((SHIPPED / "llm-d-async" / "queues.json").read_text(encoding="utf-8"))
    read = re.fullmatch(r"min\((\w+)\{(.*)\}\)", queue["gate_params"]["query"])
    assert read is not None
    labels = dict(pair.strip().split("=") for pair in read[2].replace('"', "").split(","))
    exported = {family.name: family.samples for family in OnBoard(board_of([made.red()]), Clock(39.0)).collect()}
    assert [sample.value for sample in exported[read[1]] if sample.labels == labels] == [0.01]
