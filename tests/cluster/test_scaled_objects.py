"""Which ScaledObjects name us, and what they say."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.cluster.scaled_objects import NamedWorkload, Service, TargetRef, named_workload, names_us
from scaler.core.model import WorkloadKey
from scaler.workload import Bounds
from tests.support.cluster_objects import scaled_object, trigger

OURS = frozenset({Service("slo-scaler", "keda"), Service("slo-scaler-headless", "keda")})


def named(item) -> NamedWorkload:
    found = named_workload(item, OURS)
    assert found is not None
    return found


def test_a_scaled_object_that_names_us_is_a_workload_with_its_spec():
    item = scaled_object(
        "llama", "prod", trigger(profile="chat"), scaleTargetRef={"name": "llama-7b"}, maxReplicaCount=4
    )

    assert named(item) == NamedWorkload(
        key=WorkloadKey("prod", "llama"),
        metadata={"scalerAddress": "slo-scaler.keda.svc:6000", "ttftSloSeconds": "2", "profile": "chat"},
        target=TargetRef("apps/v1", "Deployment", "llama-7b"),
        bounds=Bounds(1, 4),
        push=True,
        ours=1,
        complete=True,
        held=(),
        hpa_name="keda-hpa-llama",
    )


@pytest.mark.parametrize(
    "address",
    [
        "slo-scaler:6000",
        "slo-scaler.keda:6000",
        "slo-scaler.keda.svc:6000",
        "slo-scaler.keda.svc.cluster.local:6000",
        "slo-scaler.keda.svc.cluster.local.:6000",
        "slo-scaler.keda.svc.corp.example:9090",
        "slo-scaler-headless.keda",
        "SLO-Scaler.KEDA.svc:6000",
        "dns:///slo-scaler.keda.svc:6000",
    ],
)
def test_our_service_is_known_in_all_its_spellings(address):
    assert names_us(address, OURS)


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":6000",
        "other.keda.svc:6000",
        "slo-scaler.prod.svc:6000",
        "slo-scaler.keda.example.com:6000",
        "10.0.0.7:6000",
    ],
)
def test_another_address_is_not_ours(address):
    assert not names_us(address, OURS)


def test_a_trigger_of_another_type_is_not_ours_though_its_metadata_names_us():
    assert named_workload(scaled_object("llama", "prod", trigger(kind="prometheus")), OURS) is None


def test_of_several_triggers_the_first_that_names_us_counts_and_all_of_them_are_counted():
    other = {"type": "cpu", "metadata": {"value": "80"}}
    item = scaled_object("llama", "prod", other, trigger(kind="external", gate="off"), trigger(gate="enforce"))

    assert (named(item).metadata["gate"], named(item).push, named(item).ours) == ("off", False, 2)


def test_a_scaled_object_that_is_being_deleted_is_gone():
    item = scaled_object()
    item["metadata"]["deletionTimestamp"] = "2026-08-20T10:00:00Z"

    assert named_workload(item, OURS) is None


def test_a_value_that_only_keda_can_resolve_leaves_the_metadata_incomplete():
    assert not named(scaled_object("llama", "prod", trigger(profileFromEnv="PROFILE"))).complete


def test_counts_that_are_not_given_are_kedas_defaults():
    assert named(scaled_object(minReplicaCount=None, maxReplicaCount=None)).bounds == Bounds(0, 100)


def test_the_idle_count_is_the_least_that_keda_goes_to():
    assert named(scaled_object(idleReplicaCount=0, minReplicaCount=3)).bounds == Bounds(0, 8)


@pytest.mark.parametrize(
    ("annotations", "held"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"paused": "true"}, ("paused",), id="paused"),
        pytest.param({"paused": "yes please"}, ("paused",), id="keda takes a word that is no boolean for true"),
        pytest.param({"paused": "false", "paused-scale-in": "F"}, (), id="switched off"),
        pytest.param({"paused-replicas": "0"}, ("paused-replicas",), id="paused at zero"),
        pytest.param(
            {"paused-scale-in": "true", "paused-scale-out": "1"}, ("paused-scale-in", "paused-scale-out"), id="ways"
        ),
        pytest.param({"force-activation": "true"}, ("force-activation",), id="kept awake"),
    ],
)
def test_annotations_that_hold_keda_back_are_read_as_keda_reads_them(annotations, held):
    prefix = "autoscaling.keda.sh/"
    item = scaled_object(annotations={prefix + name: value for name, value in annotations.items()})

    assert named(item).held == tuple(prefix + name for name in held)


def test_the_hpa_is_found_by_the_name_that_was_given_or_that_keda_gave():
    own = scaled_object(advanced={"horizontalPodAutoscalerConfig": {"name": "llama-hpa"}})
    told = scaled_object(status={"hpaName": "keda-hpa-llama-2"})

    assert (named(own).hpa_name, named(told).hpa_name) == ("llama-hpa", "keda-hpa-llama-2")


def test_a_change_of_status_is_no_other_workload():
    before = scaled_object(status={"hpaName": "keda-hpa-llama", "lastActiveTime": "2026-08-20T10:00:00Z"})
    after = scaled_object(status={"hpaName": "keda-hpa-llama", "lastActiveTime": "2026-08-20T10:00:30Z"})

    assert named(before) == named(after)


def test_port_and_engine_are_those_of_the_trigger_and_nonsense_is_none():
    good, bad = (
        named(scaled_object("a", "b", trigger(port="9000", engine="sglang"))),
        named(scaled_object("a", "b", trigger(port="http"))),
    )

    assert [(one.port, one.engine) for one in (good, bad)] == [(9000, "sglang"), (None, "")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "triggers", "type", "name"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_no_object_however_odd_is_more_than_nothing(item):
    assert named_workload(item, OURS) is None


def test_the_gate_can_be_told_by_an_annotation():
    said = scaled_object(annotations={"slo-scaler/gate": "enforce"})
    assert [named(item).gate for item in (said, scaled_object())] == ["enforce", ""]


PROMETHEUS = {"type": "prometheus", "metadata": {"query": "sum(x)"}}
WRITTEN = '{profile: chat, ttftSloSeconds: 2, maxReplicas: "9"}'


def shadowed(written: str, *triggers: dict) -> NamedWorkload | None:
    return named_workload(scaled_object("llama", "prod", *triggers, annotations={"slo-scaler/shadow": written}), OURS)


def test_a_scaled_object_with_other_triggers_is_a_shadow_with_what_its_annotation_says():
    found = shadowed(WRITTEN, PROMETHEUS)
    assert found is not None
    assert (found.shadow, found.alone, found.ours, found.metadata) == (
        True,
        True,
        0,
        {"profile": "chat", "ttftSloSeconds": "2", "maxReplicas": "9"},
    )


def test_a_trigger_of_ours_gives_the_metadata_where_the_annotation_says_yes_only():
    found = shadowed("true", trigger(profile="chat"), PROMETHEUS)
    assert found is not None
    assert (found.shadow, found.alone, found.metadata["profile"]) == (True, False, "chat")


@pytest.mark.parametrize("written", ["false", "0", " False "])
def test_a_shadow_that_is_turned_off_is_none(written):
    assert shadowed(written, PROMETHEUS) is None


@pytest.mark.parametrize("written", ["yes please", "[1, 2]", "{a: [", "true"])
def test_an_annotation_that_is_no_mapping_gives_no_metadata(written):
    found = shadowed(written, PROMETHEUS)
    assert found is not None
    assert (found.shadow, found.metadata) == (True, {})


ALIASES = "a: &a [x]\n" + "".join(f"{to}: &{to} [{','.join([f'*{of}'] * 10)}]\n" for of, to in pairwise("abcdefghijkl"))


def test_what_a_value_of_an_annotation_is_made_of_is_never_written_out():
    found = shadowed(ALIASES, PROMETHEUS)
    assert found is not None
    assert found.metadata == dict.fromkeys("abcdefghijkl", "(a list or a mapping)")


def test_a_scalar_of_an_annotation_is_the_text_that_stands_there():
    found = shadowed("{a: 2026-13-45, b: true, c: 1.50, d: 0x_, e: , f: !!int x}", PROMETHEUS)
    assert found is not None
    assert found.metadata == {"a": "2026-13-45", "b": "true", "c": "1.50", "d": "0x_", "e": "", "f": "x"}


WORDS = (
    "a",
    "1",
    ": ",
    "- ",
    "\n",
    " ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "!!int ",
    "2026-13-45",
    "? ",
    "|",
    "<<",
    "'",
    "0x_",
)
YAML = st.lists(st.sampled_from(WORDS)).map("".join)


@given(st.text(max_size=60) | YAML)
@example("[" * 3000)
def test_no_annotation_ever_raises(written):
    shadowed(written, PROMETHEUS)


def test_the_annotations_of_an_emergency_and_the_fallback_are_told():
    said = {"slo-scaler/floor": "6 until 2026-12-01T18:00Z", "slo-scaler/gate": "off"}
    status = {"conditions": [{"type": "Fallback", "status": "True"}]}
    found = named(scaled_object(annotations=said, status=status))
    assert (found.floor, found.gate, found.fallback) == ("6 until 2026-12-01T18:00Z", "off", True)
