"""KEDA asks a shadow all the same: whatever it is told must move nothing."""

import grpc
import pytest

from scaler.api.keda_client import MetricValue, RpcFailed, ScaledObject
from scaler.core.shadow import ShadowRole
from tests.support.builders import KEY, decision, observation, reading, spec
from tests.support.keda_edge import Edge, edge

LLAMA = ScaledObject(KEY, {"scalerAddress": "slo-scaler:6000", "safeConcurrency": "100"})
NONSENSE = ScaledObject(KEY, {"scalerAddress": "slo-scaler:6000", "nonsense": "1"})


def publish(keda: Edge) -> int:
    """A decision that wants more than there is; how many there are."""
    found = decision(spec(KEY), observation(0.0, reading("llama-0", 0.0, running=500.0)))
    assert found.desired > found.estimate.current > 0
    keda.board.publish(found)
    return found.estimate.current


async def test_alone_in_its_scaled_object_it_says_what_there_is():
    async with edge(shadow=ShadowRole.ALONE) as keda:
        current = publish(keda)
        value, active = await keda.client.metrics(LLAMA), await keda.client.is_active(LLAMA)
    assert (value, active) == (MetricValue("desired-replicas", current), True)


async def test_alone_and_without_a_decision_it_says_nothing():
    async with edge(shadow=ShadowRole.ALONE) as keda:
        with pytest.raises(RpcFailed) as failed:
            await keda.client.metrics(LLAMA)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("asked", [pytest.param(LLAMA, id="as written"), pytest.param(NONSENSE, id="wrong metadata")])
async def test_beside_other_triggers_it_is_zero_and_inactive_and_never_fails_the_others(asked):
    async with edge(shadow=ShadowRole.BESIDE) as keda:
        one = await keda.client.metric_spec(asked)
        value, active = await keda.client.metrics(asked), await keda.client.is_active(asked)
    assert (one.name, value.value, active) == ("desired-replicas", 0.0, False)


async def test_where_nobody_can_say_which_it_is_it_refuses_and_says_what_to_do():
    async with edge(shadow=ShadowRole.UNREAD) as keda:
        publish(keda)
        with pytest.raises(RpcFailed) as failed:
            await keda.client.metric_spec(LLAMA)
    assert failed.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "prod/llama: it is a shadow by configuration" in failed.value.details
    assert "Take the trigger out" in failed.value.details


@pytest.mark.parametrize("role", [ShadowRole.ALONE, ShadowRole.BESIDE])
async def test_a_shadow_starts_no_loop_of_what_a_call_says(role):
    async with edge(shadow=role) as keda:
        await keda.client.metric_spec(LLAMA)
        assert KEY not in keda.supervisor
