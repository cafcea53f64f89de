"""The HPA model against Kubernetes' source and what a real 1.36 controller behind KEDA 2.20 was seen to do."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.hpa import (
    DEFAULT_BEHAVIOR,
    SHIPPED_BEHAVIOR,
    SHIPPED_TOLERANCE,
    Behavior,
    Generation,
    Hpa,
    HpaResult,
    HpaState,
    KedaGeneration,
    Policy,
    PolicyKind,
    Reason,
    Rules,
    ScaleStatus,
    Select,
    Stamped,
    Tolerance,
    lands_on,
    quantize,
    reachable,
    sync,
    tolerance_note,
)
from scaler.errors import ConfigError

OLD = Tolerance(generation=Generation.OLD)
NEW = Tolerance(generation=Generation.NEW)
NONE_OLD = Tolerance(0.0, 0.0, Generation.OLD)
SHIPPED = Hpa(behavior=SHIPPED_BEHAVIOR, tolerance=SHIPPED_TOLERANCE)
STEADY = Rules(0.0, (Policy(PolicyKind.PERCENT, 1000, 15.0),))
EPS = 0.01


def settled(count: int) -> ScaleStatus:
    return ScaleStatus(spec=count, status=count, ready=count)


def once(hpa: Hpa, value: float | None, scale: ScaleStatus) -> HpaResult:
    return sync(hpa, HpaState(), value, scale, 0.0)[1]


def drive(hpa: Hpa, values: list[float | None], spec: int, surge: int = 0) -> list[int]:
    """The counts that a series of values leads to, one sync each, the pods being created at once."""
    state, counts = HpaState(), []
    for i, value in enumerate(values):
        state, result = sync(hpa, state, value, ScaleStatus(spec, spec + surge, spec), i * hpa.sync_s)
        spec = result.desired
        counts.append(spec)
    return counts


# --- Which steps are executed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("currents", "up_new", "up_old", "down", "down_with_fraction"),
    [
        pytest.param(range(1, 10), 1, 1, 1, 1, id="1 to 9"),
        pytest.param([10], 2, 1, 2, 1, id="10"),
        pytest.param(range(11, 20), 2, 2, 2, 1, id="11 to 19"),
        pytest.param([20], 3, 2, 3, 2, id="20"),
        pytest.param([30], 4, 3, 4, 3, id="30"),
        pytest.param([50], 6, 5, 6, 5, id="50"),
        pytest.param([100], 11, 10, 11, 10, id="100"),
    ],
)
def test_the_smallest_executed_step_depends_on_the_count(currents, up_new, up_old, down, down_with_fraction):
    def smallest(current, tolerance, sign, less=0.0):
        steps = (s for s in range(1, 2 * current + 2) if sign > 0 or s <= current)
        return next(s for s in steps if reachable(current, current + sign * s - less, tolerance) == current + sign * s)

    seen = {
        (
            smallest(c, NEW, +1),
            smallest(c, OLD, +1),
            smallest(c, NEW, -1),
            smallest(c, OLD, -1),
            smallest(c, NEW, -1, 1 - EPS),
            smallest(c, OLD, -1, 1 - EPS),
        )
        for c in currents
    }
    assert seen == {(up_new, up_old, down, down, down_with_fraction, down_with_fraction)}


@pytest.mark.parametrize(
    ("tolerance", "value", "count"),
    [
        *(
            pytest.param(NEW, value, count, id=f"ten percent, {value} asked")
            for value, count in [
                (21, 20),
                (22, 20),
                (22.001, 23),
                (23, 23),
                (24, 24),
                (19, 20),
                (18, 20),
                (17.999, 18),
                (17, 17),
            ]
        ),
        pytest.param(OLD, 22, 22, id="the old comparison executes exactly ten percent up"),
        pytest.param(OLD, 18, 20, id="but not exactly ten percent down"),
        *(
            pytest.param(tolerance, value, count, id=f"no tolerance, {value} asked, {tolerance.generation}")
            for tolerance in (SHIPPED_TOLERANCE, NONE_OLD)
            for value, count in [(21, 21), (20.5, 21), (19, 19), (19.5, 20)]
        ),
    ],
)
def test_from_twenty_replicas_the_count_is_the_one_seen_on_a_real_cluster(tolerance, value, count):
    hpa = Hpa(behavior=SHIPPED_BEHAVIOR, tolerance=tolerance)
    assert once(hpa, quantize(value), settled(20)).desired == count


@pytest.mark.parametrize("current", range(1, 101))
def test_the_counts_inside_ten_percent_are_unreachable_and_all_others_are_exact(current):
    counts = range(1, 2 * current + 12)
    assert [reachable(current, n, NEW) for n in counts] == [
        current if 9 * current <= 10 * n <= 11 * current else n for n in counts
    ]
    assert [reachable(current, n, OLD) for n in counts] == [
        current if 9 * current <= 10 * n < 11 * current else n for n in counts
    ]


@pytest.mark.parametrize("tolerance", [SHIPPED_TOLERANCE, NONE_OLD], ids=lambda t: str(t.generation))
def test_without_tolerance_every_count_is_reached_exactly(tolerance):
    pairs = [(current, n) for current in range(1, 101) for n in range(101)]
    assert [reachable(current, n, tolerance) for current, n in pairs] == [n for _, n in pairs]


@given(
    value=st.floats(0, 300).map(quantize),
    status=st.integers(0, 300),
    tolerance=st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.2, 0.5]),
)
def test_the_two_generations_differ_only_at_the_exact_edge(value, status, tolerance):
    old, new = (reachable(status, value, Tolerance(tolerance, tolerance, g)) for g in Generation)
    at_edge = any(math.isclose(value, edge * status, rel_tol=1e-12) for edge in (1 - tolerance, 1 + tolerance))
    assert old == new or at_edge


def test_each_direction_may_have_its_own_tolerance():
    tolerance = Tolerance(up=0.0, down=0.2)
    assert [reachable(20, n, tolerance) for n in (15, 16, 19, 21)] == [15, 20, 20, 21]


def test_an_operator_is_told_what_the_tolerance_withholds():
    assert tolerance_note(20, 21, NEW) == "HPA tolerance holds you at 20 although 21 is asked"


@pytest.mark.parametrize(
    ("desired", "tolerance"),
    [
        pytest.param(23, NEW, id="outside the band"),
        pytest.param(20, NEW, id="nothing to do"),
        pytest.param(21, SHIPPED_TOLERANCE, id="no band"),
    ],
)
def test_an_operator_is_told_nothing_where_the_decision_is_executed(desired, tolerance):
    assert tolerance_note(20, desired, tolerance) is None


@pytest.mark.parametrize(
    ("hpa", "current", "desired", "count"),
    [
        pytest.param(Hpa(behavior=DEFAULT_BEHAVIOR), 9, 11, 11, id="reached at once"),
        pytest.param(Hpa(behavior=DEFAULT_BEHAVIOR), 1, 11, 10, id="the ramp stops inside the band"),
        pytest.param(Hpa(), 20, 10, 10, id="down, after the window"),
        pytest.param(Hpa(), 20, 18, 20, id="down, inside the band"),
        pytest.param(SHIPPED, 1, 11, 11, id="shipped: no band to stop in"),
        pytest.param(replace(SHIPPED, target=2.0), 1, 11, 11, id="desired is a count, whatever the target"),
        pytest.param(SHIPPED, 1, 1000, 100, id="bounded"),
        pytest.param(SHIPPED, 0, 5, 0, id="zero is left by KEDA only"),
        pytest.param(
            Hpa(behavior=replace(DEFAULT_BEHAVIOR, down=replace(STEADY, select=Select.DISABLED))),
            20,
            5,
            20,
            id="scale-down disabled",
        ),
    ],
)
def test_it_comes_to_rest_where_bounds_tolerance_and_limits_let_it(hpa, current, desired, count):
    assert lands_on(hpa, current, desired) == count


# --- Bounds, errors, zero ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "scale", "result"),
    [
        pytest.param(None, settled(7), HpaResult(7, Reason.FAILED_METRIC), id="an error holds"),
        pytest.param(9.0, settled(0), HpaResult(0, Reason.SCALING_DISABLED), id="zero replicas are left to KEDA"),
        pytest.param(None, settled(0), HpaResult(0, Reason.SCALING_DISABLED), id="zero replicas and an error"),
        pytest.param(None, settled(99), HpaResult(50, Reason.TOO_MANY), id="above max, the metric is not even asked"),
        pytest.param(None, settled(1), HpaResult(2, Reason.TOO_FEW), id="below min, likewise"),
        pytest.param(5.0, ScaleStatus(4, 0, 0), HpaResult(5, Reason.WITHIN_RANGE), id="no pod exists yet"),
        pytest.param(0.0, ScaleStatus(4, 0, 0), HpaResult(2, Reason.TOO_FEW), id="no pod and no load: minimum"),
        pytest.param(5.0, ScaleStatus(4, 4, 0), HpaResult(5, Reason.WITHIN_RANGE), id="no pod is ready"),
        pytest.param(20.0, ScaleStatus(20, 10, 10), HpaResult(20, Reason.WITHIN_RANGE), id="pods not yet created"),
        pytest.param(
            10.5, ScaleStatus(20, 10, 10), HpaResult(10, Reason.WITHIN_TOLERANCE), id="held at status, not spec"
        ),
        pytest.param(22.0, settled(20), HpaResult(20, Reason.WITHIN_TOLERANCE), id="within tolerance"),
        pytest.param(20.0, settled(20), HpaResult(20, Reason.WITHIN_RANGE), id="exactly right"),
        pytest.param(1e12, settled(30), HpaResult(50, Reason.TOO_MANY), id="1e12 ends at max"),
        pytest.param(0.4, settled(9), HpaResult(2, Reason.TOO_FEW), id="less than one ends at min"),
        pytest.param(-3.0, settled(9), HpaResult(2, Reason.TOO_FEW), id="a negative that old KEDA lets through"),
        pytest.param(40.0, settled(5), HpaResult(10, Reason.SCALE_UP_LIMIT), id="faster than the policies"),
        pytest.param(60.0, settled(25), HpaResult(50, Reason.TOO_MANY), id="the policies end where the bounds do"),
    ],
)
def test_one_sync_gives_the_count_and_its_reason(value, scale, result):
    hpa = Hpa(min_replicas=2, max_replicas=50, behavior=SHIPPED_BEHAVIOR)
    assert once(hpa, value, scale) == result


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 1e300], ids=str)
def test_what_is_no_number_arrives_as_zero_and_ends_at_the_minimum(value):
    assert quantize(value) == 0.0
    assert once(SHIPPED, quantize(value), settled(4)) == HpaResult(1, Reason.TOO_FEW)


@pytest.mark.parametrize(
    ("value", "old", "new"),
    [
        pytest.param(8.001, 8.0, 8.001, id="8.001 is truncated by old KEDA"),
        pytest.param(8.0006, 8.0, 8.001, id="rounded by new KEDA"),
        pytest.param(8.01, 8.01, 8.01, id="a hundredth survives both"),
        pytest.param(7.0, 7.0, 7.0, id="an integer survives both"),
        pytest.param(1e12, 1e12, 1e12, id="large but representable"),
        pytest.param(-2.5, -2.5, 0.0, id="negatives pass old KEDA"),
        pytest.param(math.nan, 0.0, 0.0, id="NaN"),
        pytest.param(math.inf, 0.0, 0.0, id="infinity"),
    ],
)
def test_keda_quantises_to_thousandths(value, old, new):
    assert (quantize(value, KedaGeneration.OLD), quantize(value, KedaGeneration.NEW)) == (old, new)


def test_an_error_changes_neither_the_count_nor_the_memory():
    state, _ = sync(SHIPPED, HpaState(), 5.0, settled(5), 0.0)
    after, result = sync(SHIPPED, state, None, settled(5), 15.0)
    assert after is state
    assert result.held


def test_the_first_sync_counts_the_present_as_recommended():
    state, _ = sync(SHIPPED, HpaState(), None, settled(5), 3.0)
    assert state == HpaState(recommendations=(Stamped(3.0, 5),))


@given(
    values=st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True).map(quantize)), max_size=30),
    spec=st.integers(0, 60),
    surge=st.integers(0, 5),
    hpa=st.sampled_from([Hpa(3, 40), Hpa(3, 40, DEFAULT_BEHAVIOR), replace(SHIPPED, min_replicas=3, max_replicas=40)]),
)
def test_the_result_is_within_the_bounds_whenever_it_is_not_held(values, spec, surge, hpa):
    state = HpaState()
    for i, value in enumerate(values):
        state, result = sync(hpa, state, value, ScaleStatus(spec, spec + surge, spec), 15.0 * i)
        assert hpa.min_replicas <= result.desired <= hpa.max_replicas or result == HpaResult(spec, result.reason)
        assert result.held or hpa.min_replicas <= result.desired <= hpa.max_replicas
        spec = result.desired


# --- Ramps and windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behavior", "counts"),
    [
        pytest.param(DEFAULT_BEHAVIOR, [5, 10, 20, 40, 50, 50], id="default behavior: 4 pods or 100 %"),
        pytest.param(SHIPPED_BEHAVIOR, [5, 10, 20, 40, 50, 50], id="shipped behavior"),
        pytest.param(None, [4, 8, 16, 32, 50, 50], id="no behavior: twice, at least 4"),
    ],
)
def test_a_ramp_from_one_replica_takes_known_steps(behavior, counts):
    assert drive(Hpa(behavior=behavior), [50.0] * 6, spec=1) == counts


def test_syncs_within_one_policy_period_share_its_allowance():
    hpa = replace(SHIPPED, sync_s=5.0)
    assert drive(hpa, [50.0] * 7, spec=1) == [5, 5, 5, 10, 10, 10, 20]


@pytest.mark.parametrize(
    ("select", "policies", "counts"),
    [
        pytest.param(Select.MAX, ((PolicyKind.PODS, 2), (PolicyKind.PERCENT, 50)), [15, 23, 35], id="the largest"),
        pytest.param(Select.MIN, ((PolicyKind.PODS, 2), (PolicyKind.PERCENT, 50)), [12, 14, 16], id="the smallest"),
        pytest.param(Select.MAX, ((PolicyKind.PERCENT, 1),), [11, 12, 13], id="percent is rounded up"),
        pytest.param(Select.DISABLED, ((PolicyKind.PODS, 2),), [10, 10, 10], id="disabled"),
    ],
)
def test_policies_limit_the_way_up(select, policies, counts):
    up = Rules(0.0, tuple(Policy(kind, value, 15.0) for kind, value in policies), select)
    assert drive(replace(SHIPPED, behavior=Behavior(up=up)), [90.0] * 3, spec=10) == counts


@pytest.mark.parametrize(
    ("select", "policies", "counts"),
    [
        pytest.param(Select.MAX, ((PolicyKind.PODS, 2), (PolicyKind.PERCENT, 50)), [10, 5, 2], id="the largest"),
        pytest.param(Select.MIN, ((PolicyKind.PODS, 2), (PolicyKind.PERCENT, 50)), [19, 17, 15], id="the smallest"),
        pytest.param(Select.MAX, ((PolicyKind.PERCENT, 100),), [1, 1, 1], id="all at once"),
        pytest.param(Select.DISABLED, ((PolicyKind.PODS, 2),), [21, 21, 21], id="disabled"),
    ],
)
def test_policies_limit_the_way_down(select, policies, counts):
    down = Rules(0.0, tuple(Policy(kind, value, 15.0) for kind, value in policies), select)
    assert drive(replace(SHIPPED, behavior=Behavior(down=down)), [0.0] * 3, spec=21) == counts


@pytest.mark.parametrize(
    ("minimum", "reason"),
    [
        pytest.param(10, Reason.SCALE_DOWN_LIMIT, id="above the minimum"),
        pytest.param(18, Reason.TOO_FEW, id="where the minimum is"),
    ],
)
def test_the_reason_of_a_limited_scale_down_names_the_policies_only_above_the_minimum(minimum, reason):
    behavior = Behavior(down=Rules(0.0, (Policy(PolicyKind.PODS, 2, 15.0),)))
    assert once(replace(SHIPPED, min_replicas=minimum, behavior=behavior), 0.0, settled(20)) == HpaResult(18, reason)


def test_a_scale_down_gives_back_the_allowance_of_a_scale_up():
    behavior = Behavior(up=Rules(0.0, (Policy(PolicyKind.PODS, 2, 60.0),)), down=SHIPPED_BEHAVIOR.down)
    hpa = replace(SHIPPED, behavior=behavior)
    assert drive(hpa, [20.0, 20.0, 6.0, 20.0, 20.0], spec=10) == [12, 12, 6, 12, 14]


@pytest.mark.parametrize(
    ("behavior", "syncs"),
    [
        # Exactly 300 s old still counts without a behavior (not Before) and no longer counts with one (After).
        pytest.param(None, 21, id="no behavior"),
        pytest.param(DEFAULT_BEHAVIOR, 20, id="default behavior"),
        pytest.param(SHIPPED_BEHAVIOR, 1, id="shipped behavior: no window"),
    ],
)
def test_a_scale_down_waits_for_the_window_and_then_goes_all_the_way(behavior, syncs):
    counts = drive(Hpa(behavior=behavior), [20.0, *[2.0] * 25], spec=20)
    assert counts == [20] * syncs + [2] * (26 - syncs)


def test_a_window_holds_the_scale_down_of_a_controller_that_has_just_started():
    assert once(Hpa(behavior=DEFAULT_BEHAVIOR), 2.0, settled(20)) == HpaResult(20, Reason.SCALE_DOWN_STABILIZED)


def test_a_window_on_the_way_up_waits_for_the_smallest_recommendation():
    behavior = replace(DEFAULT_BEHAVIOR, up=replace(DEFAULT_BEHAVIOR.up, stabilization_s=60.0))
    hpa = Hpa(behavior=behavior)
    assert drive(hpa, [20.0] * 6, spec=10) == [10, 10, 10, 10, 20, 20]
    assert once(hpa, 20.0, settled(10)).reason is Reason.SCALE_UP_STABILIZED


def test_without_a_behavior_one_spurious_peak_is_scaled_up_from_for_five_minutes():
    assert drive(Hpa(), [2.0, 40.0, *[2.0] * 22], spec=2) == [2, 4, 8, 16, 32, *[40] * 17, 2, 2]


def test_with_a_behavior_a_spurious_peak_moves_the_count_once():
    assert drive(Hpa(behavior=DEFAULT_BEHAVIOR), [2.0, 40.0, *[2.0] * 20], spec=2) == [2, *[6] * 20, 2]


def test_without_a_behavior_a_recommendation_from_before_zero_returns_within_five_minutes():
    hpa = Hpa()
    state, _ = sync(hpa, HpaState(), 12.0, settled(12), 0.0)
    state, _ = sync(hpa, state, 0.0, settled(0), 15.0)
    early = sync(hpa, state, 1.0, settled(1), 200.0)[1].desired
    late = sync(hpa, state, 1.0, settled(1), 400.0)[1].desired
    assert (early, late) == (4, 1)


def test_a_cold_start_does_not_overshoot_because_status_counts_pods_that_are_not_ready():
    state, spec, counts = HpaState(), 1, []
    for i in range(6):
        state, result = sync(SHIPPED, state, 5.0, ScaleStatus(spec, spec, ready=0), 15.0 * i)
        spec = result.desired
        counts.append(spec)
    assert counts == [5] * 6


@given(
    value=st.floats(0, 150),
    spec=st.integers(1, 100),
    keda=st.sampled_from(KedaGeneration),
    generation=st.sampled_from(Generation),
)
def test_without_tolerance_repeated_syncs_converge_on_the_value_rounded_up(value, spec, keda, generation):
    hpa = replace(SHIPPED, tolerance=Tolerance(0.0, 0.0, generation))
    sent = quantize(value, keda)
    assert drive(hpa, [sent] * 10, spec)[-1] == min(max(math.ceil(sent), 1), 100)


@given(values=st.lists(st.floats(0, 80).map(quantize), min_size=1, max_size=30), start=st.integers(-10_000, 10_000))
def test_shifting_all_times_changes_nothing(values, start):
    def run(offset):
        state, spec, results = HpaState(), 10, []
        for i, value in enumerate(values):
            state, result = sync(Hpa(behavior=DEFAULT_BEHAVIOR), state, value, settled(spec), offset + 15.0 * i)
            spec = result.desired
            results.append(result)
        return results

    assert run(start) == run(0)


@given(values=st.lists(st.floats(0, 80).map(quantize), min_size=1, max_size=200))
def test_the_memory_stays_bounded(values):
    hpa, state, spec = Hpa(behavior=DEFAULT_BEHAVIOR), HpaState(), 10
    for i, value in enumerate(values):
        state, result = sync(hpa, state, value, settled(spec), 15.0 * i)
        spec = result.desired
    assert len(state.recommendations) <= hpa.memory_s / hpa.sync_s + 2
    assert len(state.changes) <= hpa.memory_s / hpa.sync_s + 2


# --- The surge ratchet (kubernetes#138505) ----------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [OLD, NEW], ids=lambda t: str(t.generation))
@pytest.mark.parametrize("surge", [1, 2, 3])
def test_a_rolling_update_ratchets_the_count_from_nine_times_its_surge_on(surge, tolerance):
    hpa = Hpa(behavior=SHIPPED_BEHAVIOR, tolerance=tolerance)
    counts = range(1, 41)
    assert [once(hpa, float(n), ScaleStatus(n, n + surge, n)).desired for n in counts] == [
        n + surge if n >= 9 * surge else n for n in counts
    ]


def test_the_ratchet_climbs_until_the_ratio_leaves_the_band_and_the_window_keeps_it_there():
    assert drive(Hpa(behavior=DEFAULT_BEHAVIOR), [40.0] * 6, spec=40, surge=1) == [41, 42, 43, 44, 44, 44]


@pytest.mark.parametrize("surge", [1, 2, 5])
def test_without_tolerance_a_surge_never_ratchets(surge):
    assert [drive(SHIPPED, [float(n)] * 5, spec=n, surge=surge) for n in range(1, 60)] == [
        [n] * 5 for n in range(1, 60)
    ]


# --- Configuration ----------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_kubernetes_and_of_our_manifests():
    ups = (Policy(PolicyKind.PODS, 4, 15.0), Policy(PolicyKind.PERCENT, 100, 15.0))
    downs = (Policy(PolicyKind.PERCENT, 100, 15.0),)
    assert Behavior(up=Rules(0.0, ups, Select.MAX), down=Rules(300.0, downs, Select.MAX)) == DEFAULT_BEHAVIOR
    assert Behavior(up=Rules(0.0, ups, Select.MAX), down=Rules(0.0, downs, Select.MAX)) == SHIPPED_BEHAVIOR
    assert Tolerance(0.0, 0.0, Generation.NEW) == SHIPPED_TOLERANCE
    assert Hpa() == Hpa(1, 100, None, Tolerance(0.1, 0.1, Generation.NEW), 1.0, 15.0)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Hpa(min_replicas=0), id="a minimum of zero"),
        pytest.param(lambda: Hpa(min_replicas=5, max_replicas=4), id="min above max"),
        pytest.param(lambda: Hpa(target=0.0004), id="a target that rounds to zero"),
        pytest.param(lambda: Hpa(target=math.nan), id="a target that is no number"),
        pytest.param(lambda: Hpa(sync_s=0.0), id="no time between syncs"),
        pytest.param(lambda: Tolerance(up=-0.1), id="a negative tolerance"),
        pytest.param(lambda: Tolerance(down=math.nan), id="a tolerance that is no number"),
        pytest.param(lambda: Tolerance(0.0, 0.1, Generation.OLD), id="two tolerances before 1.33"),
        pytest.param(lambda: Rules(0.0, ()), id="no policies"),
        pytest.param(lambda: Rules(3601.0, DEFAULT_BEHAVIOR.up.policies), id="a window over an hour"),
        pytest.param(lambda: Rules(0.0, (Policy(PolicyKind.PODS, 0, 15.0),)), id="a policy of nothing"),
        pytest.param(lambda: Rules(0.0, (Policy(PolicyKind.PODS, 1, 1801.0),)), id="a period over half an hour"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused(build):
    with pytest.raises(ConfigError):
        build()
