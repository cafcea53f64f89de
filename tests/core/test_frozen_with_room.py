"""Engines that freeze while they have free places: nothing waits on their pages, and nobody is served."""

import pytest

from scaler.core.model import Pressure
from tests.support.law import Engine, Law, workload


@pytest.mark.fault("engine stands still")
@pytest.mark.parametrize("engines", [1, 3])
def test_a_fleet_that_holds_requests_and_gives_no_token_at_all_is_not_green(engines):
    law, fleet = Law(workload()), [Engine(f"r{n}", running=20.0, generation=0.0) for n in range(engines)]
    for beat in range(30):
        for engine in fleet:
            engine.emit(3.0)
            engine.generation = 300.0 * beat
        law.see(*fleet)
    frozen = law.steady(30.0, *fleet)
    assert frozen.state is not Pressure.GREEN
