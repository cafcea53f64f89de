"""What a workload costs, as it is shown over HTTP."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from scaler.api.http import Ops, ops_app
from scaler.api.view import View
from scaler.core.model import GpuPhase, GpuUse, Observation, Reading, ReplicaSet
from tests.support import decisions as made
from tests.support.served import serving, view_of

LINE = "0.04 GPU-hours in 36 s (0% of it starting), 2,500 tokens per GPU-second, cost 0.1, 0.278 per million tokens"


def costly() -> View:
    """Four GPUs for 36 s until now, at 2.5 an hour, and 360,000 tokens."""
    view = replace(view_of(made.red()), prices=lambda: {"H100": 2.5})
    for at, tokens in ((3.0, 0.0), (39.0, 360_000.0)):
        gpus = {GpuUse("NVIDIA-H100-80GB-HBM3", GpuPhase.SERVING): 4}
        counted = Reading("llama-0", at, prompt_tokens_total=tokens)
        view.board.costs.add(made.KEY, Observation(at, ReplicaSet(("llama-0",), (), 1, at, gpus=gpus), (counted,)))
    return view


async def shown(view: View, path: str) -> str:
    async with serving(ops_app(Ops(view, CollectorRegistry(), lambda: True))) as client, client.get(path) as response:
        return await response.text()


async def test_an_explanation_has_the_bill_of_the_last_hour():
    told = await shown(costly(), "/v1/explain/prod/llama")
    assert f'"cost": {{"text": "{LINE}", "gpu_s": 144.0, "starting_ratio": 0.0, "tokens": 360000.0' in told


async def test_the_page_of_a_workload_has_it_in_one_line():
    assert f"<li>Cost: {LINE}.</li>" in await shown(costly(), "/workload/prod/llama")


async def test_where_nobody_tells_of_gpus_there_is_none():
    for path in ("/v1/explain/prod/llama", "/workload/prod/llama"):
        assert "cost" not in (await shown(view_of(made.red()), path)).lower()
