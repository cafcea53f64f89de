"""The explanation: it recomputes the published number, through JSON and bit for bit, and says why in plain words."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.decision import Decision, LawInputs, Reason, ShapeInputs
from scaler.core.explain import Because, ReadingAge, Step, explain, recompute
from scaler.core.model import Missing
from scaler.core.plain import plain, restore
from scaler.core.stabilize import shape
from scaler.core.target import recommend
from tests.support import decisions as made
from tests.support.golden import GOLDEN, UNTOUCHED

amounts = st.floats(0, 1e6)
counts = st.integers(0, 1000)
law_inputs = st.builds(
    LawInputs,
    offered_per_s=amounts,
    arrival_per_s=amounts,
    drain_per_s=amounts,
    queue=amounts,
    ongoing=amounts,
    running=amounts,
    eta_s=amounts | st.just(math.inf),
    growth_ratio=st.floats(1, 1.5),
    residence_s=st.none() | st.floats(0.01, 1e4),
    safe_rate_per_s=st.none() | st.floats(0.01, 1e3),
    target=st.floats(1, 1e4),
    drain_deadline_s=st.floats(1, 1e4),
    deadline_s=st.none() | st.floats(1, 1e5),
    missing=counts,
    current=counts,
    warm_replicas=counts,
    min_replicas=counts,
    max_replicas=counts,
)
shape_inputs = st.builds(
    ShapeInputs,
    recommended=counts,
    published=st.none() | counts,
    current=counts,
    min_replicas=counts,
    max_replicas=counts,
    start_floor=counts,
    window_max=counts,
    window_min=counts,
    idle=st.booleans(),
    red=st.booleans(),
    pressed=st.booleans(),
    blind=st.booleans(),
)


def through_json(value: object):
    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    written = json.loads(json.dumps(plain(value), allow_nan=False), parse_constant=refuse)
    assert isinstance(written, dict)
    return written


def golden() -> Decision:
    return replace(
        made.green(),
        desired=8,
        reason=Reason.BACKLOG,
        runner_up=Reason.FLOW,
        recommendation=recommend(GOLDEN),
        shaped=shape(UNTOUCHED),
    )


@given(inputs=law_inputs, shaped=shape_inputs)
def test_the_published_number_is_recomputed_from_inputs_that_went_through_json(inputs, shaped):
    shaped = replace(shaped, recommended=recommend(inputs).replicas)
    law, form = restore(LawInputs, through_json(inputs)), restore(ShapeInputs, through_json(shaped))
    assert (law, form, recompute(law, form)) == (inputs, shaped, shape(shaped).replicas)


@given(inputs=law_inputs)
def test_a_recommendation_is_recomputed_bit_for_bit(inputs):
    assert recommend(restore(LawInputs, through_json(inputs))) == recommend(inputs)


def test_inputs_of_two_decisions_are_refused():
    with pytest.raises(ValueError, match="the law recommends 8, but 7 was stabilized"):
        recompute(GOLDEN, replace(UNTOUCHED, recommended=7))


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(made.green(), id="green"),
        pytest.param(made.yellow(), id="yellow"),
        pytest.param(made.red(), id="red"),
        pytest.param(made.blind(), id="blind"),
        pytest.param(made.nothing_ready(), id="nothing ready"),
    ],
)
def test_an_explanation_read_from_json_gives_the_published_number(decision):
    read = through_json(explain(decision, decision.decided_at))
    law, form = restore(LawInputs, read["inputs"]), restore(ShapeInputs, read["shape"])
    assert (recompute(law, form), read["recomputed"]) == (decision.desired, decision.desired)


def test_binding_reason_and_runner_up_say_their_numbers():
    told = explain(golden(), 39.0)
    assert (told.binding, told.runner_up) == (
        Because(
            Reason.BACKLOG,
            8,
            "8 replicas: backlog 2.71 on top of flow 4.69: 1300 requests still wait when the next replica is ready (90 s), "
            "to be drained in 60 s",
        ),
        Because(
            Reason.FLOW,
            4.6875,
            "4.69 replicas: flow 4.69 = offered 30 requests/s × residence 12.5 s / target 80",
        ),
    )


def test_steps_lead_from_load_to_the_published_number():
    flow = "flow 4.69 = offered 30 requests/s × residence 12.5 s / target 80"
    backlog = (
        "backlog 2.71 on top of flow 4.69: 1300 requests still wait when the next replica is ready (90 s), "
        "to be drained in 60 s"
    )
    assert explain(golden(), 39.0).steps == (
        Step("flow", 4.6875, flow),
        Step("flow_with_growth", 4.6875, "flow × growth 1"),
        Step("backlog", 1300 / 480, backlog),
        Step("load", 4.6875 + 1300 / 480, "the larger of flow_with_growth and flow + backlog"),
        Step("wanted", 8, "load, rounded up, and 0 warm"),
        Step("floored", 8, "going down, never below what running and silent replicas need"),
        Step("recommended", 8, "within 1 and 100"),
        Step("published", 8, "the recommendation, untouched"),
    )


@given(inputs=law_inputs.filter(lambda inputs: inputs.min_replicas <= inputs.max_replicas))
def test_the_steps_never_contradict_the_law(inputs):
    recommended = recommend(inputs)
    shaped = shape(replace(UNTOUCHED, recommended=recommended.replicas, max_replicas=inputs.max_replicas))
    told = explain(replace(made.green(), recommendation=recommended, shaped=shaped, desired=shaped.replicas), 39.0)
    steps = {step.name: step.replicas for step in told.steps}
    assert steps["recommended"] == min(max(steps["floored"], inputs.min_replicas), inputs.max_replicas)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_that_begins_with_the_number(reason):
    decision = replace(made.red(), reason=reason, runner_up=reason)
    told = explain(decision, 39.0)
    assert told.binding.text.startswith("5 replicas: ")
    assert told.runner_up.text.endswith(told.binding.text.removeprefix("5 replicas: "))


def test_a_blind_explanation_shows_the_last_readings_with_their_age_and_why_there_are_no_newer_ones():
    told = explain(made.blind(), 57.0)
    assert (told.readings, told.missing, told.age_s, told.decided_age_s, told.blind) == (
        tuple(ReadingAge(f"llama-{i}", 19.0, 40, 0.0, 0.25, awake=True, absent=()) for i in (0, 1)),
        tuple(Missing(f"llama-{i}", "connection refused") for i in (0, 1)),
        19.0,
        1.0,
        True,
    )


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises(TypeError, match="no plain form"):
        plain(value)


def test_a_word_among_the_numbers_is_refused():
    with pytest.raises(TypeError, match="queue is no number"):
        restore(LawInputs, through_json(GOLDEN) | {"queue": "many"})
