"""HPAs: what they want, and what keeps them from it."""

import pytest

from scaler.cluster.hpas import Hpa, hpa_of
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
