"""HPAs: what they want, and what keeps them from it."""

import pytest

from scaler.api.keda import METRIC_NAME
from scaler.cluster.hpas import OURS, Hpa, hpa_of
from scaler.core.platform import Proposal
from tests.support.cluster_objects import condition, hpa


def test_an_hpa_tells_its_counts():
    assert hpa_of(hpa("keda-hpa-llama", 5, 3, most=6)) == Hpa(6, desired=5, current=3)


def test_an_hpa_that_was_just_made_has_no_status_yet():
    assert hpa_of({"metadata": {"name": "a"}, "spec": {"maxReplicas": 4}}) == Hpa(4, desired=0, current=0)


@pytest.mark.parametrize(
    ("told", "troubles"),
    [
        pytest.param(condition("ScalingActive", "True", reason="ValidMetricFound"), (), id="works"),
        pytest.param(
            condition(
                "ScalingActive", "False", reason="FailedGetExternalMetric", message="unable to get external metric"
            ),
            (("hpa_inactive", "FailedGetExternalMetric: unable to get external metric"),),
            id="no metric",
        ),
        pytest.param(condition("ScalingActive", "False", reason="ScalingDisabled"), (), id="at zero"),
        pytest.param(
            condition("AbleToScale", "False", reason="FailedGetScale", message="not found"),
            (("hpa_unable", "FailedGetScale: not found"),),
            id="no target",
        ),
        pytest.param(
            condition("ScalingLimited", "True", reason="TooManyReplicas", message="more than the maximum"),
            (("hpa_limited", "TooManyReplicas: more than the maximum"),),
            id="at its maximum",
        ),
        pytest.param(condition("ScalingLimited", "True", reason="TooFewReplicas"), (), id="idle at its minimum"),
        pytest.param(condition("ScalingLimited", "False", reason="DesiredWithinRange"), (), id="in range"),
    ],
)
def test_only_what_keeps_it_from_scaling_is_trouble(told, troubles):
    assert hpa_of(hpa("keda-hpa-llama", 1, 1, told)).troubles == troubles


def external(name: str, target: dict, current: dict | None = None) -> tuple[dict, dict]:
    metric = {"metric": {"name": name}}
    return (
        {"type": "External", "external": {**metric, "target": target}},
        {"type": "External", "external": {**metric, "current": current or {}}},
    )


def resource(used: int | None, wanted: int) -> tuple[dict, dict]:
    told = {} if used is None else {"averageUtilization": used}
    return (
        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": wanted}}},
        {"type": "Resource", "resource": {"name": "cpu", "current": told}},
    )


AVERAGE = {"type": "AverageValue", "averageValue": "1"}


@pytest.mark.parametrize(
    ("metric", "asked"),
    [
        pytest.param(external("s0-desired-replicas", AVERAGE, {"averageValue": "2"}), 6, id="whole"),
        pytest.param(
            external("s0-desired-replicas", AVERAGE, {"averageValue": "2334m"}), 7, id="rounded up by the HPA"
        ),
        pytest.param(external("s1-queue", {"averageValue": "500m"}, {"averageValue": "1"}), 6, id="another target"),
        pytest.param(external("s1-queue", {"value": "1k"}, {"value": "2k"}), 6, id="a value for all"),
        pytest.param(external("s1-queue", AVERAGE), None, id="not told"),
        pytest.param(external("s1-queue", {"averageValue": "0"}, {"averageValue": "1"}), None, id="no target"),
        pytest.param(resource(90, 60), 5, id="a share of what is requested"),
        pytest.param(resource(None, 60), None, id="a share not told"),
    ],
)
def test_what_each_metric_asks_for_of_three_replicas(metric, asked):
    item = hpa("keda-hpa-llama", 3, 3)
    item["spec"]["metrics"], item["status"]["currentMetrics"] = [metric[0]], [metric[1]]
    [found] = hpa_of(item).proposals
    assert found.replicas == asked


def test_our_own_metric_is_known_among_others():
    item = hpa("keda-hpa-llama", 3, 3)
    item["spec"]["metrics"] = [resource(90, 60)[0], external(f"s1-{METRIC_NAME}", AVERAGE)[0]]
    assert OURS.fullmatch(f"s0-{METRIC_NAME}")
    assert hpa_of(item).proposals == (Proposal("cpu", None), Proposal("s1-desired-replicas", None, ours=True))


def test_its_windows_and_the_reasons_of_its_conditions():
    stabilized = condition("AbleToScale", "True", reason="ScaleDownStabilized")
    limited = condition("ScalingLimited", "True", reason="ScaleUpLimit")
    item = hpa("keda-hpa-llama", 3, 3, stabilized, limited)
    item["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    found = hpa_of(item)
    assert (found.up_s, found.down_s, found.able, found.limited) == (0.0, 0.0, "ScaleDownStabilized", "ScaleUpLimit")
