"""The ScaledObjects that are shown: KEDA and KServe take them, this scaler takes their triggers, and they say what the law assumes."""

from __future__ import annotations

import re

import pytest
import yaml

from scaler.core.hpa import SHIPPED_BEHAVIOR, SHIPPED_TOLERANCE, Behavior, Policy, PolicyKind, Rules, Select, Tolerance
from scaler.core.model import WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.settings.file import Configuration, parse_configuration
from scaler.workload import AUTHENTICATION_KEYS, Bounds, parse_workload
from tests.manifests.rendering import (
    EXAMPLES,
    MANIFESTS,
    ROOT,
    Json,
    documents,
    example,
    fragments,
    merged,
    of_kind,
    only,
    rendered,
    scaled_objects,
)
from tests.manifests.schemas import CRDS, NEWEST, OLDEST, annotation_faults, crd_faults, faults, key_faults

MIGRATE, README = ROOT / "docs" / "migrate.md", MANIFESTS / "README.md"


def configuration() -> Configuration:
    return parse_configuration((MANIFESTS / "examples" / "slo-scaler.yaml").read_text(encoding="utf-8"))


def shown() -> list[tuple[str, Json]]:
    """Every ScaledObject of an example, and the one example with each fragment of the documents written into it."""
    found = [
        (path.stem, item) for path in EXAMPLES for item in scaled_objects(documents(path.read_text(encoding="utf-8")))
    ]
    (base,) = example("scaledobject.yaml")
    parts = [(page.name, part) for page in (MIGRATE, README) for part in fragments(page) if "spec" in part]
    return found + [(f"{name} {number}", merged(base, part)) for number, (name, part) in enumerate(parts, start=1)]


EVERY = pytest.mark.parametrize("item", [pytest.param(item, id=name) for name, item in shown()])


def trigger(item: Json) -> Json:
    triggers = item["spec"]["triggers"]
    assert len(triggers) == 1
    found: Json = triggers[0]
    return found


def bounds(item: Json) -> Bounds:
    """Where KEDA moves it: to idleReplicaCount where that is given, else from minReplicaCount."""
    spec = item["spec"]
    return Bounds(spec.get("idleReplicaCount", spec["minReplicaCount"]), spec["maxReplicaCount"])


def parsed(item: Json) -> WorkloadSpec:
    key = WorkloadKey(item["metadata"]["namespace"], item["metadata"]["name"])
    return parse_workload(key, trigger(item)["metadata"], configuration().catalog, bounds(item))


def behavior(item: Json) -> tuple[Behavior, Tolerance]:
    written = item["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    up, down = written["scaleUp"], written["scaleDown"]
    return Behavior(_rules(up), _rules(down)), Tolerance(float(up["tolerance"]), float(down["tolerance"]))


def _rules(written: Json) -> Rules:
    policies = tuple(Policy(PolicyKind(p["type"]), p["value"], float(p["periodSeconds"])) for p in written["policies"])
    return Rules(float(written["stabilizationWindowSeconds"]), policies, Select(written.get("selectPolicy", "Max")))


# --- Taken by others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_known_keys_only(path, version):
    assert [fault for item in documents(path.read_text(encoding="utf-8")) for fault in faults(item, version)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_satisfies_its_crd(path):
    custom = (item for item in documents(path.read_text(encoding="utf-8")) if item["kind"] in CRDS)
    assert [fault for item in custom for fault in crd_faults(item)] == []


@EVERY
def test_a_scaled_object_that_is_shown_has_known_keys_and_annotations_only(item):
    assert key_faults(item) + annotation_faults(item) == []


@EVERY
def test_a_scaled_object_that_is_shown_satisfies_its_crd(item):
    assert crd_faults(item) == []


def test_a_misspelt_key_is_a_fault():
    (item,) = example("scaledobject.yaml")
    item["spec"]["minReplicas"] = 1
    item["metadata"]["annotations"] = {"scaledobject.keda.sh/transfer-ownership": "true"}
    assert key_faults(item) == [
        "spec.minReplicas: not in our list",
        "annotation scaledobject.keda.sh/transfer-ownership: not in our list",
    ]
    assert len(crd_faults(item)) == 1


def test_what_kserve_demands_in_words_holds():
    """The rules that its CRD writes in CEL, which a JSON schema does not evaluate."""
    (service,) = example("kserve-llminferenceservice.yaml")
    scaling = service["spec"]["scaling"]
    assert "replicas" not in service["spec"]
    assert "wva" not in scaling
    assert scaling["keda"]["idleReplicaCount"] < scaling["minReplicas"] <= scaling["maxReplicas"]
    assert "name" not in scaling["keda"]["advanced"]["horizontalPodAutoscalerConfig"]


def test_kserve_leaves_the_replicas_of_the_inference_service_to_the_scaled_object():
    objects = example("kserve-inferenceservice.yaml")
    (service,), (item,) = of_kind(objects, "InferenceService"), of_kind(objects, "ScaledObject")
    assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "external"
    assert item["spec"]["scaleTargetRef"] == {"name": f"{service['metadata']['name']}-predictor"}


# --- Taken by this scaler ---------------------------------------------------------------------------------------------


@EVERY
def test_a_trigger_is_taken_without_a_warning(item):
    assert parsed(item).warnings == ()


@EVERY
def test_no_credential_stands_in_a_trigger(item):
    assert AUTHENTICATION_KEYS & set(trigger(item)["metadata"]) == set()


@EVERY
def test_a_trigger_leads_to_the_service_for_keda(item):
    service = only(rendered("base"), "Service", "slo-scaler")
    (port,) = service["spec"]["ports"]
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert trigger(item)["metadata"]["scalerAddress"] == f"{host}:{port['port']}"


def test_a_trigger_that_names_an_authentication_names_the_one_of_the_overlay():
    named = [trigger(item)["authenticationRef"] for _, item in shown() if "authenticationRef" in trigger(item)]
    (authentication,) = of_kind(rendered("overlays/mtls"), "ClusterTriggerAuthentication")
    assert named == [{"kind": authentication["kind"], "name": authentication["metadata"]["name"]}]


# --- What the law assumes ---------------------------------------------------------------------------------------------


@EVERY
def test_the_metric_does_not_depend_on_ready_pods(item):
    assert trigger(item)["metricType"] == "AverageValue"


@EVERY
def test_the_behavior_is_the_one_that_is_modelled(item):
    assert behavior(item) == (SHIPPED_BEHAVIOR, SHIPPED_TOLERANCE)


@EVERY
def test_only_a_workload_that_may_sleep_is_pushed_and_it_has_a_demand_source(item):
    kind = "external-push" if bounds(item).min_replicas == 0 else "external"
    assert trigger(item)["type"] == kind
    assert (parsed(item).demand is not None) == (kind == "external-push")


@EVERY
def test_without_an_answer_nothing_is_removed(item):
    fallback = item["spec"]["fallback"]
    assert fallback["behavior"] == "currentReplicasIfHigher"
    assert max(1, item["spec"]["minReplicaCount"]) <= fallback["replicas"] <= item["spec"]["maxReplicaCount"]


@EVERY
def test_a_model_is_not_scaled_away_while_it_is_loading(item):
    assert item["spec"]["initialCooldownPeriod"] > parsed(item).latency.p90_s


# --- Documents --------------------------------------------------------------------------------------------------------


def test_the_configuration_that_the_migration_shows_is_taken():
    (part,) = [part for part in fragments(MIGRATE) if "workloads" in part]
    taken = parse_configuration(yaml.safe_dump(part))
    assert [str(spec.key) for spec in taken.workloads] == ["prod/llama"]


def test_the_migration_takes_over_an_hpa_by_annotation_and_name():
    (part,) = [part for part in fragments(MIGRATE) if part.get("metadata", {}).get("annotations")]
    assert part["metadata"]["annotations"] == {"scaledobject.keda.sh/transfer-hpa-ownership": "true"}
    assert part["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["name"] == "llama"


@pytest.mark.parametrize(
    "page", [MIGRATE, README, ROOT / "docs" / "keda.md", ROOT / "docs" / "coming-from.md"], ids=lambda p: p.name
)
def test_the_files_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
