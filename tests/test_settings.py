"""The configuration file and the environment: what they mean, and every fault by its place."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.capacity import Profile
from scaler.core.model import GateMode, Objective, RequestClass, WorkloadKey
from scaler.errors import ConfigError
from scaler.settings import Configuration, Ports, parse_configuration, read_configuration, read_ports
from scaler.sources.targets import NamedTargets
from scaler.workload import Catalog, parse_workload

WHOLE = """
scrape: {default: {path: /prometheus}}
profiles:
  llama-8b-chat:
    safe_concurrency: 100
    safe_rate_per_s: 8.0
    unloaded_ttft_s: 0.15
    mix: {in_p50: 1000, out_p50: 200}
    confidence: high
classes:
  chat: {ttft_s: 2, tpot_s: 0.1, order: 0, floor: 0.02, gate: enforce}
  batch: {objective: completion, deadline_s: 86400, order: 3}
workloads:
  prod/llama: {targets: ["10.0.0.7:8000"], dns: "llama-headless.prod:8000", metadata: {profile: llama-8b-chat, ttftSloSeconds: "2"}}
  prod/waits-for-keda: {targets: ["10.0.0.8:8000"]}
"""
CATALOG = Catalog(
    {"llama-8b-chat": Profile(100.0, 8.0, 0.15, 1000.0, "llama-8b-chat", "high")},
    {
        "chat": RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02, gate=GateMode.ENFORCE),
        "batch": RequestClass("batch", objective=Objective.COMPLETION, deadline_s=86400.0, order=3),
    },
)
LLAMA, WAITS = WorkloadKey("prod", "llama"), WorkloadKey("prod", "waits-for-keda")


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        parse_configuration(text)
    return raised.value.faults


def test_a_whole_file_is_understood():
    assert parse_configuration(WHOLE) == Configuration(
        catalog=CATALOG,
        targets={
            LLAMA: NamedTargets(("10.0.0.7:8000",), "llama-headless.prod:8000", "/prometheus"),
            WAITS: NamedTargets(("10.0.0.8:8000",), None, "/prometheus"),
        },
        workloads=(parse_workload(LLAMA, {"profile": "llama-8b-chat", "ttftSloSeconds": "2"}, CATALOG),),
    )


def test_no_file_is_an_empty_configuration():
    assert read_configuration(None) == Configuration(Catalog(), {}, ())


def test_a_file_that_is_not_there_is_a_fault_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        read_configuration(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "profiles: [", ("not YAML: expected the node content, but found '<stream end>' in line 1",), id="not YAML"
        ),
        pytest.param("profile: {}", ("profile: Extra inputs are not permitted",), id="an unknown section"),
        pytest.param(
            "profiles: {a: {safe_concurrency: -1}}",
            ("profiles.a.safe_concurrency: Input should be greater than 0",),
            id="a number out of range",
        ),
        pytest.param(
            "classes: {batch: {objective: completion}}",
            ("classes.batch.deadline_s: required with objective completion, in seconds",),
            id="a deadline that is missing",
        ),
        pytest.param(
            "classes: {chat: {}}",
            ("classes.chat.ttft_s: required with objective latency, the budget to the first token in seconds",),
            id="a budget that is missing",
        ),
        pytest.param(
            'workloads: {prod/llama: {metadata: {profile: none, ttftSloSeconds: "2"}}}',
            ("workloads.prod/llama.metadata.profile: no such profile is configured; there are none",),
            id="metadata as strict as KEDA's",
        ),
    ],
)
def test_a_fault_names_its_place(text, expected):
    assert faults(text) == expected


def test_ports_come_from_the_environment_and_default_to_those_of_the_documentation():
    given_ports = read_ports({"SLO_SCALER_HOST": "127.0.0.1", "SLO_SCALER_KEDA_PORT": "7000"})
    assert (read_ports({}), given_ports) == (Ports("0.0.0.0", 6000, 8080, 8081), Ports("127.0.0.1", 7000, 8080, 8081))


@pytest.mark.parametrize("text", ["", "http", "-1", "65536", "80.5"])
def test_a_port_that_is_none_is_a_fault_that_names_the_variable(text):
    with pytest.raises(ConfigError, match="SLO_SCALER_OPS_PORT: a port is a number from 0 to 65535"):
        read_ports({"SLO_SCALER_OPS_PORT": text})


JSONLIKE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["scrape", "profiles", "classes", "workloads", "other"]), JSONLIKE))
def test_whatever_a_file_holds_is_a_configuration_or_a_list_of_faults(content):
    try:
        outcome: object = parse_configuration(yaml.safe_dump(content))
    except ConfigError as error:
        outcome = error.faults
    assert outcome not in ((), None)
