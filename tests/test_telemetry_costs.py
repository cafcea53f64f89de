"""What Prometheus sees of GPUs, tokens and prices."""

from prometheus_client import CollectorRegistry, generate_latest

from scaler.control.costs import Costs
from scaler.core.model import GpuPhase, GpuUse, Observation, Reading, ReplicaSet
from scaler.telemetry.costs import OnCosts
from tests.support.decisions import KEY

H100 = "NVIDIA-H100-80GB-HBM3"


def lines(costs: Costs, prices: dict[str, float]) -> list[str]:
    registry = CollectorRegistry()
    registry.register(OnCosts(costs, lambda: prices))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def look(at: float, gpu: str | None = H100, tokens: float | None = None) -> Observation:
    gpus = {} if gpu is None else {GpuUse(gpu, GpuPhase.SERVING): 4}
    reading = Reading("a", at, generation_tokens_total=tokens)
    return Observation(at, ReplicaSet(("a",), (), 1, at, gpus=gpus), (reading,))


def test_gpu_seconds_tokens_and_the_price_are_exported():
    costs = Costs()
    costs.add(KEY, look(0.0, tokens=100.0))
    costs.add(KEY, look(2.0, tokens=160.0))
    assert lines(costs, {"H100": 2.5, "A100": 1.0}) == [
        f'slo_scaler_gpu_seconds_total{{gpu="{H100}",name="llama",namespace="prod",phase="draining"}} 0.0',
        f'slo_scaler_gpu_seconds_total{{gpu="{H100}",name="llama",namespace="prod",phase="serving"}} 8.0',
        f'slo_scaler_gpu_seconds_total{{gpu="{H100}",name="llama",namespace="prod",phase="starting"}} 0.0',
        'slo_scaler_tokens_total{kind="generation",name="llama",namespace="prod"} 60.0',
        f'slo_scaler_gpu_hour_price{{gpu="{H100}"}} 2.5',
    ]


def test_what_nobody_tells_has_no_series():
    costs = Costs()
    costs.add(KEY, look(0.0, gpu=None))
    assert lines(costs, {"H100": 2.5}) == []


def test_a_gpu_of_an_unknown_product_says_so_and_has_no_price():
    costs = Costs()
    costs.add(KEY, look(0.0, gpu=""))
    assert {line.partition(",")[0] for line in lines(costs, {"H100": 2.5})} == {
        'slo_scaler_gpu_seconds_total{gpu="unknown"'
    }


def test_a_workload_that_is_gone_leaves_nothing():
    costs = Costs()
    costs.add(KEY, look(0.0, tokens=1.0))
    costs.drop(KEY)
    assert lines(costs, {}) == []
