"""The configuration file and the environment: what they mean, and every fault by its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.api.certificates import ServerTls
from scaler.backpressure.asked import Owner, Trust
from scaler.core.capacity import Match, Profile
from scaler.core.classes import BUILT_IN
from scaler.core.model import GateMode, Objective, RequestClass, WorkloadKey
from scaler.core.shadow import NOTE, UNENFORCED
from scaler.errors import ConfigError
from scaler.settings import (
    Configuration,
    DemandQueries,
    Ports,
    WatchedFile,
    parse_configuration,
    read_configuration,
    read_ports,
    schema,
)
from scaler.settings.process import everywhere
from scaler.sources.prometheus_api import PrometheusSettings
from scaler.sources.scrape import ScrapeSettings
from scaler.sources.targets import NamedTargets
from scaler.workload import Catalog, parse_workload

DOCS = Path(__file__).parents[1] / "docs"
WHOLE = """
prometheus:
  default:
    url: https://prometheus.monitoring:9090/
    interval_s: 30
    labels: {namespace: exported_namespace, pod: exported_pod}
    bearer_token_file: /var/run/token
    ca_file: /etc/ca.pem
    headers: {X-Scope-OrgID: team-a}
server: {tls: {cert_file: /tls/tls.crt, key_file: /tls/tls.key, client_ca_file: /tls/ca.crt}}
scrape: {kserve: {scheme: https, port: 8443, path: /prometheus, insecure: true}}
profiles:
  llama-8b-chat:
    safe_concurrency: 100
    safe_rate_per_s: 8.0
    unloaded_ttft_s: 0.15
    mix: {in_p50: 1000, out_p50: 200}
    match: {gpu: H100, engine_version: "0.32"}
    confidence: high
    provenance: {tool: vllm bench serve, files: [a.json]}
classes:
  chat: {ttft_s: 2, tpot_s: 0.1, order: 0, floor: 0.02, gate: enforce}
  batch: {objective: completion, deadline_s: 3600, order: 3}
tenants: {header: X-Tenant, key_map_file: /etc/slo-scaler/tenants.yaml}
prices: {H100: 2.5}
demand: {gateway: {prometheus: default, refused: 'sum(refused{ns="{namespace}"})', queued: 'sum(queued)'}}
workloads:
  prod/llama: {targets: ["10.0.0.7:8000"], dns: "llama-headless.prod:8000", metadata: {profile: llama-8b-chat, ttftSloSeconds: "2"}}
  prod/waits-for-keda: {targets: ["10.0.0.8:8000"], gpus: {H100: 4}}
"""
CATALOG = Catalog(
    {
        "llama-8b-chat": Profile(
            100.0, 8.0, 0.15, 1000.0, "llama-8b-chat", "high", Match("H100", "0.32"), output_p50=200.0
        )
    },
    {
        **BUILT_IN,
        "chat": RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02, gate=GateMode.ENFORCE),
        "batch": RequestClass("batch", objective=Objective.COMPLETION, deadline_s=3600.0, order=3),
    },
    sources={"default": 30.0},
    scrapes=frozenset({"default", "kserve"}),
    demands=frozenset({"gateway"}),
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
            LLAMA: NamedTargets(("10.0.0.7:8000",), "llama-headless.prod:8000"),
            WAITS: NamedTargets(("10.0.0.8:8000",), gpus={"H100": 4}),
        },
        workloads=(parse_workload(LLAMA, {"profile": "llama-8b-chat", "ttftSloSeconds": "2"}, CATALOG),),
        scrapes={
            "default": ScrapeSettings(),
            "kserve": ScrapeSettings("https", 8443, "/prometheus", insecure=True, name="kserve"),
        },
        prometheus={
            "default": PrometheusSettings(
                url="https://prometheus.monitoring:9090",
                interval_s=30.0,
                namespace_label="exported_namespace",
                pod_label="exported_pod",
                bearer_token_file="/var/run/token",
                ca_file="/etc/ca.pem",
                headers=(("X-Scope-OrgID", "team-a"),),
            )
        },
        demands={"gateway": DemandQueries("default", 'sum(refused{ns="{namespace}"})', "sum(queued)")},
        tls=ServerTls("/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt"),
        trust=Trust("x-tenant"),
        key_map=Path("/etc/slo-scaler/tenants.yaml"),
        prices={"H100": 2.5},
    )


def test_the_example_of_the_documentation_is_a_configuration_that_matches_the_schema():
    example = (DOCS / "slo-scaler.yaml").read_text()
    sections = set(yaml.safe_load(example))
    assert parse_configuration(example).workloads != ()
    assert sections == set(schema()["properties"])


def test_numbers_in_metadata_need_no_quotes():
    text = (
        "profiles: {a: {safe_concurrency: 1}}\nworkloads: {prod/llama: {metadata: {profile: a, ttftSloSeconds: 2.5}}}"
    )
    assert [spec.budget_s for spec in parse_configuration(text).workloads] == [2.5]


def test_a_match_may_be_left_out_or_empty():
    text = "profiles: {a: {safe_concurrency: 1}, b: {safe_concurrency: 1, match: null}, c: {safe_concurrency: 1, match: {gpu: null}}}"
    assert {one.match for one in parse_configuration(text).catalog.profiles.values()} == {Match()}


def test_no_file_is_an_empty_configuration():
    assert read_configuration(None) == Configuration(Catalog())


def test_a_file_that_is_not_there_is_a_fault_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        read_configuration(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "profiles: [", ("not YAML: expected the node content, but found '<stream end>' in line 1",), id="not YAML"
        ),
        pytest.param("profile: {}", ("profile: unknown key, did you mean profiles?",), id="an unknown section"),
        pytest.param(
            "profiles: {a: {safe_concurrency: -1}}",
            ("profiles.a.safe_concurrency: Input should be greater than or equal to 0.1",),
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
            'profiles: {a: {safe_concurrency: 1, match: {gpu: "", engine_version: latest}}}',
            (
                "profiles.a.match.gpu: it has letters or digits",
                'profiles.a.match.engine_version: a version begins with a number, e.g. "0.32"',
            ),
            id="a match that nothing can be",
        ),
        pytest.param(
            "profiles: {a: {safe_concurrency: 1, match: {engine_version: 0.30}}}",
            ("profiles.a.match.engine_version: Input should be a valid string",),
            id="a version that YAML takes for a number",
        ),
        pytest.param(
            'workloads: {prod/llama: {metadata: {profile: none, ttftSloSeconds: "2"}}}',
            ("workloads.prod/llama.metadata.profile: no such profile is configured; there are none",),
            id="metadata as strict as KEDA's",
        ),
        pytest.param(
            "demand: {gateway: {refused: x}}",
            ("demand.gateway.prometheus: no such Prometheus is configured; there are none",),
            id="a demand counter that nobody can be asked for",
        ),
        pytest.param(
            "prometheus: {default: {url: 'ftp://x'}}",
            ("prometheus.default.url: write it as http://host:port or https://host:port",),
            id="an address that is no web address",
        ),
        pytest.param(
            "profiles: {a: {safe_concurrency: 1, safe_concurency: 2}}",
            ("profiles.a.safe_concurency: unknown key, did you mean safe_concurrency?",),
            id="a misspelt key inside a section",
        ),
        pytest.param(
            "workloads: {prod/llama: {targets: ['http://10.0.0.7:8000']}}",
            ("workloads.prod/llama.targets.0: write it as host:port, e.g. 10.0.0.7:8000, without http://",),
            id="an address with a scheme",
        ),
        pytest.param("workloads: {llama: {}}", ("workloads.llama: write it as namespace/name",), id="a bare name"),
        pytest.param(
            "profiles: {a: {safe_concurrency: 1}, a: {safe_concurrency: 2}}",
            ("not YAML: the key a stands twice in line 1",),
            id="a key that stands twice",
        ),
        pytest.param(
            "workloads: {prod/llama: {targets: ['10.0.0.7:8000', '10.0.0.7:8000']}}",
            ("workloads.prod/llama.targets: an address stands twice; each is one replica",),
            id="a replica that is named twice",
        ),
        pytest.param("[]", ("file: a mapping is needed here",), id="a list"),
        pytest.param(
            "tenants: {header: 'x tenant:'}",
            ("tenants.header: write the name of a header, e.g. x-tenant",),
            id="a header that is none",
        ),
        pytest.param(
            "tenants: {header: Authorization}",
            ("tenants.header: it holds a credential, which is never kept; name tenants by key in a key_map_file",),
            id="a header that holds a credential",
        ),
    ],
)
def test_a_fault_names_its_place(text, expected):
    assert faults(text) == expected


def test_ports_come_from_the_environment_and_default_to_those_of_the_documentation():
    given_ports = read_ports({"SLO_SCALER_HOST": "127.0.0.1", "SLO_SCALER_KEDA_PORT": "7000"})
    assert (read_ports({}), given_ports) == (
        Ports(everywhere(), 6000, 8080, 8081, 6001),
        Ports("127.0.0.1", 7000, 8080, 8081, 6001),
    )


@pytest.mark.parametrize(
    ("written", "host"), [("[::1]", "::1"), ("::", "::"), ("0.0.0.0", "0.0.0.0"), ("scaler.prod", "scaler.prod")]
)
def test_a_host_is_kept_without_brackets(written, host):
    assert read_ports({"SLO_SCALER_HOST": written}).host == host


@pytest.mark.parametrize("text", ["", "http", "-1", "65536", "80.5"])
def test_a_port_that_is_none_is_a_fault_that_names_the_variable(text):
    with pytest.raises(ConfigError, match="SLO_SCALER_OPS_PORT: a port is a number from 0 to 65535"):
        read_ports({"SLO_SCALER_OPS_PORT": text})


JSONLIKE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(["scrape", "profiles", "classes", "workloads", "prometheus", "server", "demand", "other"]),
        JSONLIKE,
    )
)
def test_whatever_a_file_holds_is_a_configuration_or_a_list_of_faults(content):
    try:
        outcome: object = parse_configuration(yaml.safe_dump(content))
    except ConfigError as error:
        outcome = error.faults
    assert outcome not in ((), None)


WORDS = "tenants workloads prod/llama a 1 { } [ ] , &a *a !!int 2026-13-45 !!timestamp 0x_ ? | <<: ' .nan --- 9999999999999999999999"
YAML = st.lists(st.sampled_from([*WORDS.split(), ": ", "- ", "\n", "  ", "!!bool x", "\t", "\x00"])).map("".join)


@given(YAML, st.floats(0, 1), st.integers(0, 30))
@example("a: 2026-13-45", 0.0, 2000)
def test_whatever_text_a_file_is_is_a_configuration_or_a_list_of_faults(text, at, gone):
    begins = int(at * len(WHOLE))
    try:
        outcome: object = parse_configuration(WHOLE[:begins] + text + WHOLE[begins + gone :])
    except ConfigError as error:
        outcome = error.faults
    assert outcome not in ((), None)


def watched(path: Path, text: str) -> WatchedFile:
    path.write_text(text.replace("/etc/slo-scaler", str(path.parent)))
    path.with_name("tenants.yaml").write_text(KEYS)
    file = WatchedFile(path)
    file.first()
    return file


HASH = "0" * 63 + "a"
KEYS = f"{HASH}: {{tenant: acme}}"


def whole(path: Path) -> tuple[str, Configuration]:
    """The text of a file beside a key map, and what it means."""
    text = WHOLE.replace("/etc/slo-scaler", str(path.parent))
    return text, replace(parse_configuration(text), trust=Trust("x-tenant", {HASH: Owner("acme")}))


def test_an_unchanged_file_is_no_news(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    assert (file.changed(), file.faults) == (None, ())


def test_a_changed_file_is_the_new_configuration(tmp_path):
    file = watched(tmp_path / "c.yaml", "")
    text, configuration = whole(file.path)
    file.path.write_text(text)
    assert (file.changed(), file.faults) == (configuration, ())


def test_a_bad_file_is_refused_whole_and_says_why_until_it_is_mended(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    text, _ = whole(file.path)
    file.path.write_text(text + "other: {}\n")
    refused, faults = file.changed(), file.faults
    file.path.write_text(text.replace("interval_s: 30", "interval_s: 60"))
    mended = file.changed()
    keys = "access, classes, cluster, demand, prices, profiles, prometheus, scrape, server, tenants, workloads"
    assert (refused, faults) == (None, (f"other: unknown key; known are {keys}",))
    assert (mended is not None, file.faults) == (True, ())


def test_a_file_put_back_as_it_was_ends_the_complaint(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    text, configuration = whole(file.path)
    file.path.write_text("other: {}\n")
    file.changed()
    file.path.write_text(text)
    assert (file.changed(), file.faults) == (configuration, ())


def test_a_file_that_is_gone_for_a_while_is_a_complaint_and_not_an_empty_configuration(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    text, configuration = whole(file.path)
    file.path.unlink()
    gone, faults = file.changed(), file.faults
    file.path.write_text(text)
    back = file.changed()
    assert (gone, [fault.endswith("cannot be read (No such file or directory)") for fault in faults]) == (None, [True])
    assert (back, file.faults) == (configuration, ())


def test_a_file_swapped_by_a_symbolic_link_is_seen(tmp_path):
    old, new, link = tmp_path / "old.yaml", tmp_path / "new.yaml", tmp_path / "c.yaml"
    old.write_text("")
    new.write_text("prices: {H100: 2.5}")
    link.symlink_to(old)
    file = WatchedFile(link)
    file.first()
    link.unlink()
    link.symlink_to(new)
    assert file.changed() == parse_configuration("prices: {H100: 2.5}")


def test_a_key_map_that_changes_is_a_new_configuration(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    _, configuration = whole(file.path)
    (tmp_path / "tenants.yaml").write_text(KEYS.replace("acme", "umbrella"))
    fresh = file.changed()
    assert fresh == replace(configuration, trust=Trust("x-tenant", {HASH: Owner("umbrella")}))


def test_a_bad_key_map_holds_up_no_other_change(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    text, configuration = whole(file.path)
    (tmp_path / "tenants.yaml").write_text("[]")
    file.path.write_text(text.replace("X-Tenant", "x-team"))
    fresh = file.changed()
    assert fresh == replace(configuration, trust=Trust("x-team", configuration.trust.owners))
    assert [fault.startswith("tenants.key_map_file: ") for fault in file.faults] == [True]


def test_a_bad_file_holds_up_no_change_of_the_key_map(tmp_path):
    file = watched(tmp_path / "c.yaml", WHOLE)
    _, configuration = whole(file.path)
    file.path.write_text("[]")
    (tmp_path / "tenants.yaml").write_text("{}")
    fresh = file.changed()
    assert (fresh, file.faults) == (
        replace(configuration, trust=Trust("x-tenant")),
        ("file: a mapping is needed here",),
    )


def test_no_process_starts_on_a_key_map_that_is_not_there(tmp_path):
    (tmp_path / "c.yaml").write_text("tenants: {key_map_file: /nowhere/tenants.yaml}")
    with pytest.raises(ConfigError, match=r"tenants\.key_map_file: /nowhere/tenants\.yaml: cannot be read"):
        read_configuration(tmp_path / "c.yaml")


def test_a_shadow_is_looked_at_only_with_its_own_metadata_or_a_triggers():
    metadata = "{safeConcurrency: '100', ttftSloSeconds: '2', maxReplicas: '9', gate: enforce}"
    found = parse_configuration(
        f"workloads: {{prod/llama: {{shadow: true, metadata: {metadata}}}, prod/other: {{shadow: true}}}}"
    )
    [spec] = found.workloads
    assert found.shadows == {WorkloadKey("prod", "llama"), WorkloadKey("prod", "other")}
    assert (spec.shadow, spec.gate, spec.warnings[:2]) == (True, GateMode.OBSERVE, (NOTE, UNENFORCED))
