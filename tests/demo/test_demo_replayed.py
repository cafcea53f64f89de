"""The simulation says of a run of the demo what really happened in it, over real sockets and in real time."""

import json
from pathlib import Path

import pytest

from scaler.core.model import GateMode
from scaler.demo.addresses import FREE_PORTS
from scaler.demo.run import staged
from scaler.demo.scenario import Scenario
from tests.support.demo_replayed import Course, at_syncs, replayed

RECORDED = json.loads((Path(__file__).parents[1] / "data/traces/demo-runs.json").read_text(encoding="utf-8"))


def assert_alike(scenario: Scenario, recorded: Course) -> None:
    syncs = at_syncs(recorded, replayed(scenario))
    assert max(desired for _, desired, _ in syncs) > 3, "the run must have something to tell"
    assert [one for one in syncs if abs(one[1] - one[2]) > 1] == []
    assert sum(there == here for _, there, here in syncs) > 0.8 * len(syncs)


@pytest.mark.parametrize("run", RECORDED["runs"], ids=lambda run: f"{run['gate']}-seed-{run['seed']}")
def test_a_recorded_run_of_the_demo_agrees_with_its_replay_within_one_replica_at_every_sync(run) -> None:
    scenario = Scenario(run["seconds"], run["seed"], GateMode(run["gate"]))
    assert_alike(scenario, tuple((at, desired) for at, desired in run["desired"]))


@pytest.mark.e2e
@pytest.mark.timeout(150)
@pytest.mark.parametrize("gate", [GateMode.ENFORCE, GateMode.OBSERVE])
async def test_a_run_of_now_agrees_with_its_replay_within_one_replica_at_every_sync(gate) -> None:
    scenario = Scenario(seconds=90.0, seed=3, gate=gate)
    async with staged(scenario, FREE_PORTS) as stage:
        await stage.play(lambda _: None)
        record = stage.record
    assert record is not None
    assert_alike(scenario, tuple((one.at_s, one.desired) for one in record.samples))
