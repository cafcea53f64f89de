"""Why the replicas are not what is published: the cause is named, and what passes by itself is no finding."""

from dataclasses import replace

import pytest

from scaler.core.followed import cause_of, followed, not_followed
from scaler.core.model import ReplicaSet
from scaler.core.platform import Hpa, Platform, Proposal

READ = (Proposal("s0-desired-replicas", 6, ours=True),)
HPA = Hpa("keda-hpa-llama", desired=6, current=6, proposals=READ)
SIX = Platform("Deployment llama", asked=6, pods=6, hpa=HPA)
FOUR = replace(SIX, asked=4, pods=4, hpa=replace(HPA, desired=4, current=4))
EIGHT = replace(SIX, asked=8, pods=8, hpa=replace(HPA, desired=8, current=8))


def with_hpa(platform: Platform, **changes) -> Platform:
    assert platform.hpa is not None
    return replace(platform, hpa=replace(platform.hpa, **changes))


@pytest.mark.parametrize(
    ("platform", "words", "passing"),
    [
        pytest.param(replace(FOUR, paused=("autoscaling.keda.sh/paused",)), "KEDA is paused", False, id="paused"),
        pytest.param(
            replace(FOUR, kept=("autoscaling.keda.sh/paused-scale-out",)), "KEDA adds none", False, id="no more"
        ),
        pytest.param(
            replace(EIGHT, kept=("autoscaling.keda.sh/paused-scale-in",)), "KEDA removes none", False, id="no fewer"
        ),
        pytest.param(
            replace(FOUR, kept=("autoscaling.keda.sh/paused-scale-in",)), "does not say why", True, id="other direction"
        ),
        pytest.param(replace(FOUR, fallback=True), "fallback", False, id="fallback"),
        pytest.param(replace(FOUR, asked=0), "at its next poll", True, id="at zero"),
        pytest.param(replace(FOUR, hpa=None), "there is no HPA", False, id="no HPA"),
        pytest.param(replace(FOUR, hpa=None, hpas_known=False), "not been read yet", True, id="HPA not read"),
        pytest.param(
            with_hpa(FOUR, inactive="FailedGetExternalMetric: none"), "does not act: Failed", False, id="no metric"
        ),
        pytest.param(
            with_hpa(EIGHT, proposals=(*READ, Proposal("cpu", 8))), "cpu asks for 8", False, id="another metric"
        ),
        pytest.param(
            with_hpa(FOUR, proposals=(Proposal("s0-desired-replicas", 4, ours=True),)),
            "has not read that number yet",
            True,
            id="between two syncs",
        ),
        pytest.param(with_hpa(FOUR, desired=6), "wants 6 as well", True, id="decided just now"),
        pytest.param(
            with_hpa(EIGHT, able="ScaleDownStabilized", down_s=300.0), "scaleDown window of 300 s", False, id="window"
        ),
        pytest.param(with_hpa(FOUR, limited="TooManyReplicas"), "maximum is reached", False, id="maximum"),
        pytest.param(with_hpa(FOUR, limited="ScaleUpLimit"), "scaleUp policies", True, id="policies"),
        pytest.param(
            replace(
                with_hpa(SIX, current=20, desired=20, proposals=(Proposal("s0-desired-replicas", 21, ours=True),)),
                asked=20,
            ),
            "lets 10% pass",
            False,
            id="tolerance",
        ),
    ],
)
def test_the_cause(platform, words, passing):
    desired = 21 if platform.asked == 20 else 6
    cause = cause_of(desired, platform)
    assert cause is not None
    assert (words in cause.text, cause.passing) == (True, passing)


def test_what_is_followed_is_said():
    assert (cause_of(6, SIX), followed(6, SIX)) == (None, "Deployment llama has 6, as published")


def test_pods_that_nobody_makes_are_a_cause_though_the_count_is_right():
    [found] = not_followed(6, ReplicaSet((), (), 6, 0.0, platform=replace(SIX, pods=4)))
    assert found.text.startswith(
        "6 published, and Deployment llama has 6: 2 of its 6 pods do not exist: a ResourceQuota"
    )


@pytest.mark.parametrize(
    "platform",
    [
        pytest.param(None, id="nothing known"),
        pytest.param(SIX, id="followed"),
        pytest.param(with_hpa(FOUR, desired=6), id="passing"),
    ],
)
def test_what_passes_or_is_followed_is_no_finding(platform):
    assert list(not_followed(6, ReplicaSet((), (), 6, 0.0, platform=platform))) == []
