"""A minute of faults at random, and that the checks of such a run find what they are for.

``python -m bench.chaos --seed N --minutes M`` is the same for longer.
"""

from dataclasses import replace

import pytest

from tests.support.chaos import play
from tests.support.chaos_checks import Call, Log, Sight, Span, figures, violations

CALM = Sight(0.0, {"a": 8.0, "b": 8.0}, {"a": 0.0, "b": 0.0}, 0, 0.0, "GREEN", advised=True, wanted=2)
LATE = {"a": 9.0, "b": 9.0}


def seen(for_s: float = 200.0, **changes) -> list[Sight]:
    """A look each half second."""
    return [replace(CALM, at=index / 2, **changes) for index in range(int(for_s * 2))]


def told(value: float = 2.0, took_s: float = 0.01, rpc: str = "GetMetrics") -> Call:
    return Call(rpc, 100.0, took_s, value=value)


FROZEN = Span("engines freeze", frozenset({"a"}), 100.0, 190.0)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        pytest.param(Log(seen(), [told()]), "", id="all is well"),
        pytest.param(Log(seen(), [told(1.0)]), "KEDA was told 1 where 16 run, which need 2", id="below the load"),
        pytest.param(
            Log(seen(), [told(1.0)], [replace(FROZEN, begin=90.0)]), "", id="below what nobody could read: no matter"
        ),
        pytest.param(Log(seen(), [told(0.0, rpc="IsActive")]), "IsActive said 0 while there was traffic", id="inactive"),
        pytest.param(Log(seen(), [told(took_s=9.0)]), "GetMetrics took 9.0 s and ended with OK", id="late"),
        pytest.param(
            Log(seen(), [told(took_s=9.0)], [Span("scaler stalls", frozenset(), 99.0, 108.0)]), "", id="late for a reason"
        ),
        pytest.param(Log(seen(waiting=900)), "900 wait, which is more than 64", id="a queue"),
        pytest.param(Log(seen(oldest_s=LATE, shown=3.0)), "GREEN for 200 s while whoever came waited longer than 2 s", id="dark"),
        pytest.param(Log(seen(oldest_s=LATE | {"b": 0.0}, shown=3.0)), "", id="one replica is free"),
        pytest.param(Log(seen(oldest_s=LATE)), "", id="a wait that no page shows"),
        pytest.param(Log(seen(state="RED")), "RED for 200 s without a cause", id="alarmed"),
        pytest.param(Log(seen(state="RED"), spans=[FROZEN]), "RED for 100 s without a cause", id="alarmed before"),
        pytest.param(Log(seen(40.0, state="RED")), "a minute after the last fault it is seen as RED", id="not recovered"),
        pytest.param(Log(seen(), complaints=["Traceback"]), "the scaler complained: Traceback", id="a complaint"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_found(log, found):
    problems = violations(log)
    assert found in "\n".join(problems) if found else problems == []


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1])
async def test_whatever_fails_the_number_holds_the_load_every_call_is_answered_and_no_state_lies(seed, tmp_path):
    log = await play(seed, 2.5, tmp_path)
    broken = violations(log)
    assert broken == [], "\n".join([f"seed {seed}", *figures(log), *map(str, log.spans), *broken])
    assert {call.rpc for call in log.calls if call.code == "OK"} == {"GetMetricSpec", "GetMetrics", "IsActive"}
    assert len(log.spans) >= 5
