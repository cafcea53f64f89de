"""One workload as a cluster shows it, over the stand-in for the API server."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from scaler.checks import Facts, Finding, Verdict, Versions, examine
from scaler.cli.check_cluster import gather
from scaler.cli.check_objects import facts_of
from scaler.cli.commands import app
from scaler.cluster.api import Forbidden, Json, NotFound, Page
from scaler.cluster.client import Client
from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError
from tests.checks.good import Launch, launch
from tests.support.cluster_objects import condition, hpa
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Resource

KEY = WorkloadKey("prod", "llama")
HPAS, BUDGETS = (
    "/apis/autoscaling/v2/namespaces/prod/horizontalpodautoscalers",
    "/apis/policy/v1/namespaces/prod/poddisruptionbudgets",
)
MORE = (
    Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)


@asynccontextmanager
async def cluster(made: Launch) -> AsyncIterator[tuple[KubernetesApi, Client]]:
    async with kubernetes() as api:
        api.resources.extend(MORE)
        api.put("/apis/keda.sh/v1alpha1/namespaces/prod/scaledobjects/llama", made.scaled)
        api.put(
            "/apis/apps/v1/namespaces/prod/deployments/llama",
            made.deployment | {"spec": made.deployment["spec"] | {"replicas": 1}},
        )
        api.put(f"{BUDGETS}/llama", made.budget)
        api.put(f"{HPAS}/keda-hpa-llama", hpa())
        configuration = {"slo-scaler.yaml": yaml.safe_dump(made.configuration)}
        api.put("/api/v1/namespaces/slo-scaler/configmaps/slo-scaler", {"data": configuration})
        operator = {"spec": {"template": {"spec": {"containers": [{"image": "ghcr.io/kedacore/keda:2.20.2"}]}}}}
        api.put("/apis/apps/v1/namespaces/keda/deployments/keda-operator", operator)
        async with aclosing(Client.at(api.url, random.Random(7))) as client:
            yield api, client


async def facts(client: Client) -> tuple[Facts, tuple[str, ...]]:
    gathered, notes = await gather(client, KEY, None)
    return facts_of(KEY, gathered), notes


def alarms(found: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {one.code: one.verdict for one in found if one.verdict in {Verdict.FAILS, Verdict.WARNS}}


async def test_a_good_workload_on_a_cluster_gives_no_alarm():
    async with cluster(launch()) as (_, client):
        told, notes = await facts(client)
    assert alarms(examine(told)) == {}
    assert (told.spec is not None, told.rivals, told.hpa_troubles, told.disruptions is not None) == (True, (), (), True)
    assert (told.versions, len(notes)) == (Versions(None, (2, 20)), 1)  # the stand-in has no /version


async def test_what_may_not_be_read_is_named_and_left_open():
    async with cluster(launch()) as (api, client):
        for resource in ("horizontalpodautoscalers", "poddisruptionbudgets"):
            api.forbid("list", resource)
        api.forbid("get", "configmaps")
        told, notes = await facts(client)
    assert (told.rivals, told.hpa_troubles, told.disruptions, told.spec) == (None, None, None, None)
    assert [
        word
        for word in ("horizontalpodautoscalers", "poddisruptionbudgets", "configmaps")
        if word not in "".join(notes)
    ] == []
    assert alarms(examine(told)) == {}


async def test_an_hpa_that_is_missing_or_in_trouble_fails():
    trouble = condition("ScalingActive", "False", reason="FailedGetExternalMetric", message="no metric")
    async with cluster(launch()) as (api, client):
        api.put(f"{HPAS}/keda-hpa-llama", hpa("keda-hpa-llama", 1, 1, trouble))
        troubled, _ = await facts(client)
        api.delete(f"{HPAS}/keda-hpa-llama")
        missing, _ = await facts(client)
    assert (troubled.hpa_troubles, missing.hpa_troubles) == (
        ("FailedGetExternalMetric: no metric",),
        ("there is no HPA keda-hpa-llama: KEDA could not make it",),
    )


async def test_another_autoscaler_of_the_same_target_fails():
    other = {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}, "maxReplicas": 3}}
    async with cluster(launch()) as (api, client):
        api.put(f"{HPAS}/cpu", other)
        told, _ = await facts(client)
    assert alarms(examine(told)) == {"T15": Verdict.FAILS}


async def test_a_scaled_object_that_does_not_exist_is_an_error():
    async with kubernetes() as api, aclosing(Client.at(api.url, random.Random(7))) as client:
        with pytest.raises(ConfigError, match="--workload: cannot get scaledobjects"):
            await gather(client, KEY, None)


async def test_the_command_looks_at_the_cluster_of_a_kubeconfig(tmp_path: Path):
    async with cluster(launch(lambda m: m.trigger.update(metricType="Value"))) as (api, _):
        context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
        kubeconfig = {
            "current-context": "here",
            "contexts": [context],
            "clusters": [{"name": "here", "cluster": {"server": api.url}}],
            "users": [{"name": "me", "user": {}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
        arguments = ["check", "--cluster", "-w", "prod/llama", "--kubeconfig", str(tmp_path / "config"), "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    (workload,) = json.loads(result.stdout)["workloads"]
    assert (result.exit_code, [one["code"] for one in workload["findings"] if one["verdict"] == "fail"]) == (1, ["T03"])


class Told:
    """An API server that knows a few paths."""

    def __init__(self, objects: dict[str, Json]) -> None:
        self._objects = objects

    async def get(self, path: str) -> Json:
        if path not in self._objects:
            raise NotFound(path)
        return dict(self._objects[path])

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        raise Forbidden(path)


@pytest.mark.parametrize(
    ("minor", "labels", "versions"),
    [
        ("35", {"app.kubernetes.io/version": "2.20.2"}, Versions((1, 35), (2, 20))),
        ("32+", {"app.kubernetes.io/version": "v2.18.0"}, Versions((1, 32), (2, 18))),
        ("31", {}, Versions((1, 31), None)),
    ],
)
async def test_versions_are_those_of_the_api_server_and_of_keda(minor, labels, versions):
    made = launch()
    api = Told(
        {
            "/apis/keda.sh/v1alpha1/namespaces/prod/scaledobjects/llama": made.scaled,
            "/version": {"major": "1", "minor": minor},
            "/apis/apps/v1/namespaces/openshift-keda/deployments/keda-operator": {"metadata": {"labels": labels}},
        }
    )
    gathered, _ = await gather(api, KEY, None)  # type: ignore[arg-type]
    assert gathered.versions == versions
