"""The recorded cost of the last hour, by a real promtool."""

from __future__ import annotations

import pytest

from scaler.report.alerts import prometheus_rule
from scaler.report.costs import PER_GPU_SECOND, PER_HOUR, PER_MILLION, STARTING
from tests.support.promtool import Trial, faults

SPEC = prometheus_rule()["spec"]
OF = 'name="llama",namespace="prod"'


def gpus(gpu: str, phase: str, count: int, pod: str = "a") -> dict[str, str]:
    return {f'slo_scaler_gpu_seconds_total{{{OF},gpu="{gpu}",phase="{phase}",pod="{pod}"}}': f"0+{60 * count}x120"}


def tokens(kind: str, per_s: int, pod: str = "a") -> dict[str, str]:
    return {f'slo_scaler_tokens_total{{{OF},kind="{kind}",pod="{pod}"}}': f"0+{60 * per_s}x120"}


def price(gpu: str, of: float, pod: str = "a") -> dict[str, str]:
    return {f'slo_scaler_gpu_hour_price{{gpu="{gpu}",pod="{pod}"}}': f"{of}x120"}


LOAD = tokens("prompt", 16_000) | tokens("generation", 4_000)
FLEET = gpus("H100", "starting", 1) | gpus("H100", "serving", 8) | gpus("L40S", "serving", 1)
PRICED = price("H100", 3.0) | price("L40S", 9.0)
OTHER_POD = gpus("H100", "serving", 8, "b") | tokens("prompt", 16_000, "b") | price("H100", 3.0, "b")


def judged(tmp_path, series: dict[str, str], **expected: float | None) -> str:
    names = {
        one.name.split(":")[1].removeprefix("slo_scaler_"): one.name
        for one in (PER_GPU_SECOND, STARTING, PER_HOUR, PER_MILLION)
    }
    found = {
        f"round({names[name]}, 0.001)": [] if value is None else [{"labels": f"{{{OF}}}", "value": value}]
        for name, value in expected.items()
    }
    return faults(tmp_path, SPEC, [Trial("a fleet", series, 120, None, expressions=found)])


@pytest.mark.parametrize(
    "more", [pytest.param({}, id="one pod"), pytest.param(OTHER_POD, id="another pod that counts the same")]
)
def test_the_cost_of_the_last_hour_is_recorded(tmp_path, more):
    told = judged(
        tmp_path,
        LOAD | FLEET | PRICED | more,
        tokens_per_gpu_second=2000.0,
        gpu_starting=0.1,
        cost_per_hour=9 * 3.0 + 1 * 9.0,
        cost_per_million_tokens=36 / 3600 / 20_000 * 1e6,
    )
    assert told == ""


def test_while_a_gpu_in_use_has_no_price_the_cost_is_not_known(tmp_path):
    told = judged(
        tmp_path,
        LOAD | FLEET | price("H100", 2.0),
        tokens_per_gpu_second=2000.0,
        cost_per_hour=None,
        cost_per_million_tokens=None,
    )
    assert told == ""


def test_a_gpu_that_is_not_in_use_needs_no_price(tmp_path):
    told = judged(
        tmp_path,
        LOAD | gpus("H100", "serving", 8) | gpus("L40S", "serving", 0) | price("H100", 2.0),
        cost_per_hour=16.0,
    )
    assert told == ""
