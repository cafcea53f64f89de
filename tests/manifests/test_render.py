"""The manifests as kubectl renders them: valid, complete in themselves, and no right or open door more than is listed here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scaler import __version__
from scaler.app.serving import GRACE_S
from scaler.settings.file import Configuration, parse_configuration
from scaler.settings.place import SERVICE, Kubernetes, read_place
from scaler.settings.process import Ports
from tests.manifests.rendering import (
    COMPONENTS,
    MANIFESTS,
    OVERLAYS,
    Json,
    documents,
    fragments,
    of_kind,
    only,
    rendered,
    rendered_text,
)
from tests.manifests.schemas import CRDS, NEWEST, OLDEST, crd_faults, faults

CLUSTER_WIDE, PER_NAMESPACE = "overlays/cluster-wide", "overlays/per-namespace"
MTLS, PROMETHEUS = "overlays/mtls", "overlays/prometheus"
ACTIVE = "slo-scaler/active"


def pod_template(objects: list[Json]) -> Json:
    template: Json = only(objects, "Deployment", "slo-scaler")["spec"]["template"]
    return template


def container(objects: list[Json]) -> Json:
    containers = pod_template(objects)["spec"]["containers"]
    assert len(containers) == 1
    found: Json = containers[0]
    return found


def configuration(objects: list[Json]) -> Configuration:
    return parse_configuration(only(objects, "ConfigMap", "slo-scaler")["data"]["slo-scaler.yaml"])


@pytest.fixture
def everything(tmp_path: Path) -> list[Json]:
    """An overlay of a user's: base and all components at once."""
    written = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
        "components": [os.path.relpath(component, tmp_path) for component in COMPONENTS],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    return documents(rendered_text(tmp_path))


# --- Valid ------------------------------------------------------------------------------------------------------------


def test_the_overlays_are_those_that_the_tests_know():
    assert OVERLAYS == [CLUSTER_WIDE, MTLS, PER_NAMESPACE, PROMETHEUS]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_valid(overlay, version):
    assert [(o["kind"], fault) for o in rendered(overlay) for fault in faults(o, version)] == []


def test_all_components_go_together(everything):
    assert [(o["kind"], fault) for o in everything for fault in faults(o, NEWEST)] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_of_others_kinds_satisfy_their_crds(overlay):
    found = [o for o in rendered(overlay) if o["kind"] in CRDS]
    assert [fault for o in found for fault in crd_faults(o)] == []


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        pytest.param("Deployment", {"replica": 2}, "replica", id="a core kind"),
        pytest.param("ClusterIssuer", {"selfsigned": {}}, "selfsigned", id="a kind without a schema"),
    ],
)
def test_a_misspelt_key_is_a_fault(kind, change, named):
    item = of_kind(rendered(MTLS), kind)[0]
    item["spec"].update(change)
    assert [fault for fault in faults(item, NEWEST) if named in fault]


def test_a_kind_that_nobody_knows_is_a_fault():
    item = {"apiVersion": "example.org/v1", "kind": "Gizmo", "metadata": {"name": "one"}, "spec": {}}
    assert faults(item, NEWEST) == ["Gizmo of example.org/v1: no schema, and not in our list"]


def test_what_is_committed_to_install_is_what_renders():
    committed = (MANIFESTS / "install.yaml").read_text(encoding="utf-8")
    assert committed == rendered_text(MANIFESTS / CLUSTER_WIDE), (
        "run: kubectl kustomize manifests/overlays/cluster-wide > manifests/install.yaml"
    )


# --- Complete ---------------------------------------------------------------------------------------------------------


Reference = tuple[str, str | None, str]
"""(kind, namespace, name) of what one object expects of another; Nodes, Namespaces of others and the like are not ours to make."""


def references(objects: list[Json]) -> set[Reference]:
    return {*_of_the_pod(objects), *_of_bindings(objects), *_of_certificates(objects)}


def _of_the_pod(objects: list[Json]) -> Iterator[Reference]:
    pod = pod_template(objects)["spec"]
    yield "ServiceAccount", "slo-scaler", pod["serviceAccountName"]
    sources = [source for volume in pod["volumes"] for source in volume["projected"]["sources"]]
    for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
        yield from ((kind, "slo-scaler", source[key]["name"]) for source in sources if key in source)


def _of_bindings(objects: list[Json]) -> Iterator[Reference]:
    for binding in (o for o in objects if o["kind"].endswith("RoleBinding")):
        yield binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"]
        yield from ((subject["kind"], subject["namespace"], subject["name"]) for subject in binding["subjects"])


def _of_certificates(objects: list[Json]) -> Iterator[Reference]:
    """Secrets of cluster-scoped kinds are looked for in one namespace: cert-manager's, and KEDA's."""
    for certificate in of_kind(objects, "Certificate"):
        yield certificate["spec"]["issuerRef"]["kind"], None, certificate["spec"]["issuerRef"]["name"]
    for issuer in of_kind(objects, "ClusterIssuer"):
        if "ca" in issuer["spec"]:
            yield "Secret", "cert-manager", issuer["spec"]["ca"]["secretName"]
    for authentication in of_kind(objects, "ClusterTriggerAuthentication"):
        yield from (("Secret", "keda", target["name"]) for target in authentication["spec"]["secretTargetRef"])


def provided(objects: list[Json]) -> set[Reference]:
    found = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects}
    secrets = {
        ("Secret", certificate["metadata"]["namespace"], certificate["spec"]["secretName"])
        for certificate in of_kind(objects, "Certificate")
    }
    return found | secrets


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_an_object_refers_to_exists(overlay):
    objects = rendered(overlay)
    assert references(objects) - provided(objects) == set()


def test_what_an_object_refers_to_exists_with_all_components(everything):
    assert references(everything) - provided(everything) == set()


def test_an_overlay_as_the_readme_shows_it_renders(tmp_path):
    (shown,) = [part for part in fragments(MANIFESTS / "README.md") if part.get("kind") == "Kustomization"]
    mine, configured = tmp_path / "my-overlay", MANIFESTS / "base/slo-scaler.yaml"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(shown), encoding="utf-8")
    (mine / "slo-scaler.yaml").write_text(configured.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    objects = documents(rendered_text(mine))
    assert container(objects)["image"] == f"registry.example.org/slo-scaler:{__version__}"
    assert configuration(objects) == configuration(rendered(CLUSTER_WIDE))
    assert references(objects) - provided(objects) == set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_selects_our_pods(overlay):
    objects = rendered(overlay)
    labels = pod_template(objects)["metadata"]["labels"]
    selectors = {
        **{o["metadata"]["name"]: o["spec"]["selector"] for o in of_kind(objects, "Service")},
        **{
            kind: o["spec"]["selector"]["matchLabels"]
            for kind in ("Deployment", "PodDisruptionBudget")
            for o in of_kind(objects, kind)
        },
        **{o["kind"]: o["spec"]["podSelector"]["matchLabels"] for o in of_kind(objects, "NetworkPolicy")},
        **{o["kind"]: o["spec"]["selector"]["matchLabels"] for o in of_kind(objects, "PodMonitor")},
    }
    # The label that a pod puts on itself cannot be in the template, or both pods would have it.
    assert {name: {k: v for k, v in s.items() if labels.get(k) != v} for name, s in selectors.items()} == {
        **{name: {} for name in selectors},
        "slo-scaler": {ACTIVE: "true"},
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_port_that_is_named_is_one_of_the_container(overlay):
    objects = rendered(overlay)
    ours = container(objects)
    named = {
        *(ours[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")),
        *(port["targetPort"] for service in of_kind(objects, "Service") for port in service["spec"]["ports"]),
        *(
            port["port"]
            for p in of_kind(objects, "NetworkPolicy")
            for rule in p["spec"]["ingress"]
            for port in rule["ports"]
        ),
        *(e["port"] for monitor in of_kind(objects, "PodMonitor") for e in monitor["spec"]["podMetricsEndpoints"]),
    }
    ports = Ports()
    assert {port["name"]: port["containerPort"] for port in ours["ports"]} == {
        "keda": ports.keda,
        "authz": ports.authz,
        "gate": ports.gate,
        "ops": ports.ops,
    }
    assert named == {"keda", "authz", "gate", "ops"}


def test_each_service_leads_where_its_port_says():
    services = of_kind(rendered(CLUSTER_WIDE), "Service")
    assert {
        s["metadata"]["name"]: (s["spec"].get("clusterIP"), [(p["port"], p["targetPort"]) for p in s["spec"]["ports"]])
        for s in services
    } == {
        "slo-scaler": (None, [(6000, "keda")]),
        "slo-scaler-gate": (None, [(8080, "gate"), (6001, "authz")]),
        "slo-scaler-headless": ("None", [(8080, "gate"), (6001, "authz"), (8081, "ops")]),
    }


def test_the_process_reads_its_place_from_what_the_pod_tells(tmp_path):
    told = {"metadata.name": "slo-scaler-1", "metadata.uid": "8b4f", "metadata.namespace": "slo-scaler"}
    environment = {
        entry["name"]: entry["value"] if "value" in entry else told[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container(rendered(CLUSTER_WIDE))["env"]
    }
    (tmp_path / "token").touch()
    assert read_place(environment, tmp_path).kubernetes == Kubernetes("slo-scaler", "slo-scaler-1", "8b4f", SERVICE)


def test_the_service_that_the_process_goes_by_is_the_one_for_keda():
    service = only(rendered(CLUSTER_WIDE), "Service", SERVICE)
    assert ACTIVE in service["spec"]["selector"]


# --- Configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_configuration_is_taken(overlay):
    assert "default" in configuration(rendered(overlay)).scrapes


@pytest.mark.parametrize("overlay", [CLUSTER_WIDE, MTLS, PROMETHEUS])
def test_with_the_cluster_role_all_namespaces_are_followed(overlay):
    objects = rendered(overlay)
    assert configuration(objects).namespaces == ()
    assert of_kind(objects, "ClusterRoleBinding")


def test_without_it_the_namespaces_followed_are_those_with_a_role():
    objects = rendered(PER_NAMESPACE)
    bound = [
        o["metadata"]["namespace"] for o in of_kind(objects, "RoleBinding") if "workloads" in o["metadata"]["name"]
    ]
    assert configuration(objects).namespaces == ("prod",) == tuple(bound)
    assert [o["kind"] for o in objects if o["kind"].startswith("Cluster")] == []


def mounted(objects: list[Json]) -> set[str]:
    """The files of the configuration's directory."""
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    paths = set()
    for volume in pod_template(objects)["spec"]["volumes"]:
        for source in volume["projected"]["sources"]:
            if "configMap" in source:
                names = only(objects, "ConfigMap", source["configMap"]["name"])["data"]
            else:
                names = {item["path"]: item for item in source["secret"]["items"]}
            paths |= {f"{mounts[volume['name']]}/{name}" for name in names}
    return paths


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_files_that_are_named_are_mounted(overlay):
    objects = rendered(overlay)
    tls = configuration(objects).tls
    named = {container(objects)["args"][1]} | ({tls.cert_file, tls.key_file, tls.client_ca_file} if tls else set())
    assert named == mounted(objects)


def test_mtls_asks_callers_for_a_certificate_and_on_kedas_port_for_kedas():
    configured = configuration(rendered(MTLS))
    assert configured.tls is not None
    assert configured.tls.client_ca_file is not None
    shown = only(rendered(MTLS), "Certificate", "slo-scaler-client")["spec"]["commonName"]
    assert configured.access.keda_names == {shown}


def test_our_certificate_has_every_name_by_which_keda_may_call_us():
    names = only(rendered(MTLS), "Certificate", "slo-scaler")["spec"]["dnsNames"]
    ways = {f"slo-scaler{rest}" for rest in ("", ".slo-scaler", ".slo-scaler.svc", ".slo-scaler.svc.cluster.local")}
    assert ways - set(names) == set()


def test_the_prometheus_overlay_names_the_source_that_triggers_take():
    assert set(configuration(rendered(PROMETHEUS)).prometheus) == {"default"}


# --- No more than needed ----------------------------------------------------------------------------------------------

OWN = [
    ("coordination.k8s.io", "leases", ("slo-scaler",), ("get", "update")),
    ("coordination.k8s.io", "leases", (), ("create",)),
    ("", "configmaps", (), ("get", "list", "create", "patch")),
    ("", "pods", (), ("list", "patch")),
]
WORKLOADS = [
    ("keda.sh", "scaledobjects", (), ("list", "watch")),
    ("", "pods", (), ("list", "watch")),
    ("autoscaling", "horizontalpodautoscalers", (), ("list", "watch")),
    ("", "events", (), ("create", "patch")),
    ("*", "*/scale", (), ("get",)),
]
NODES = [("", "nodes", (), ("get",))]


def rights(
    objects: list[Json],
) -> dict[tuple[str, str | None], list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]]:
    """What may be done, by the kind of role and its namespace."""
    return {
        (role["kind"], role["metadata"].get("namespace")): [
            (group, resource, tuple(rule.get("resourceNames", ())), tuple(rule["verbs"]))
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        ]
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
    }


@pytest.mark.parametrize("overlay", [CLUSTER_WIDE, MTLS, PROMETHEUS])
def test_the_rights_over_all_namespaces(overlay):
    assert rights(rendered(overlay)) == {("Role", "slo-scaler"): OWN, ("ClusterRole", None): [*WORKLOADS, *NODES]}


def test_the_rights_over_one_namespace():
    assert rights(rendered(PER_NAMESPACE)) == {("Role", "slo-scaler"): OWN, ("Role", "prod"): WORKLOADS}


def test_only_our_pods_get_the_accounts_token():
    objects = rendered(CLUSTER_WIDE)
    assert only(objects, "ServiceAccount", "slo-scaler")["automountServiceAccountToken"] is False
    assert pod_template(objects)["spec"]["automountServiceAccountToken"] is True


def test_the_pod_is_restricted_and_names_no_user():
    objects = rendered(CLUSTER_WIDE)
    assert pod_template(objects)["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_each_port_is_open_to_those_who_need_it():
    (policy,) = of_kind(rendered(CLUSTER_WIDE), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert [(rule["ports"], rule["from"]) for rule in policy["spec"]["ingress"]] == [
        (
            [{"port": "keda"}],
            [
                {
                    "namespaceSelector": {
                        "matchExpressions": [
                            {
                                "key": "kubernetes.io/metadata.name",
                                "operator": "In",
                                "values": ["keda", "openshift-keda"],
                            }
                        ]
                    }
                }
            ],
        ),
        (
            [{"port": "gate"}, {"port": "authz"}],
            [{"namespaceSelector": {"matchLabels": {"slo-scaler/gateway": "true"}}}],
        ),
        ([{"port": "ops"}], [{"namespaceSelector": {"matchLabels": {"slo-scaler/monitoring": "true"}}}]),
    ]


# --- Running ----------------------------------------------------------------------------------------------------------


def test_the_image_is_of_this_version():
    assert container(rendered(CLUSTER_WIDE))["image"] == f"slo-scaler:{__version__}"


def test_one_pod_may_go_and_one_stays():
    objects = rendered(CLUSTER_WIDE)
    deployment = only(objects, "Deployment", "slo-scaler")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert only(objects, "PodDisruptionBudget", "slo-scaler")["spec"]["maxUnavailable"] == 1


def test_a_pod_has_time_to_hand_over_and_to_end():
    assert pod_template(rendered(CLUSTER_WIDE))["spec"]["terminationGracePeriodSeconds"] >= max(20, 2 * GRACE_S)


def test_the_probes_ask_for_what_the_process_answers():
    ours = container(rendered(CLUSTER_WIDE))
    assert {probe: ours[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }


def test_resources_are_asked_for_and_memory_alone_is_limited():
    assert container(rendered(CLUSTER_WIDE))["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }
