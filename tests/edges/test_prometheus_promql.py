"""The text of what we ask, and which namespaces are asked for together."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.engines import ENGINES
from scaler.errors import ConfigError
from scaler.sources.prometheus_poll import SERIES_LIMIT, Plan
from scaler.sources.promql import Scope, Signals, Template, around, newest, signals, values

VLLM, SGLANG = ENGINES["vllm"], ENGINES["sglang"]
SCOPE = Scope("namespace", "pod", ("prod",), 45.0)
TTFT_EDGES = ("0.001", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "7.5", "10.0", "+Inf")


def test_values_are_the_largest_copy_of_each_fresh_series():
    wanted = Signals(("a", "b"), ("__name__", "engine"))

    assert values(wanted, SCOPE) == (
        "max by (namespace, pod, __name__, engine) "
        '({__name__=~"a|b",namespace="prod"} and last_over_time({__name__=~"a|b",namespace="prod"}[45000ms]))'
    )


def test_buckets_are_asked_for_by_edge_and_the_sum_has_none():
    wanted = Signals(("x_bucket", "x_sum"), ("le",), ("x_bucket",))

    assert ',le=~"0\\\\.5|\\\\+Inf|"}' in values(wanted, SCOPE, ("0.5", "+Inf"))


def test_one_query_holds_all_that_decides_on_idleness():
    first = signals(VLLM)[0]

    for row in (VLLM.running, VLLM.waiting, VLLM.kv_usage, *VLLM.proofs):
        assert row is not None
        assert set(row.sample_names) <= set(first.names)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_everything_that_an_engine_can_use_is_asked_for_by_what_tells_it_apart(engine):
    asked = signals(engine)

    # how long a request took in all goes into no decision: it is for the checklist, and read from pages only
    usable = {name for name in engine.sample_names if "e2e_request_latency" not in name}
    assert {name for wanted in asked for name in wanted.names} == usable
    assert all({"__name__", "model_name", *engine.ranks} <= set(wanted.labels) for wanted in asked)
    assert all({label for label, _ in engine.keep} <= set(wanted.labels) for wanted in asked)


def test_a_pod_is_dated_by_its_engine_and_without_one_by_being_reached():
    query = newest(SGLANG, SCOPE)

    assert query.startswith('max by (namespace, pod) (timestamp({__name__="sglang:num_running_reqs",namespace="prod"})')
    assert query.endswith('({__name__="up",namespace="prod"}) and {__name__="up",namespace="prod"} == 1)')


@pytest.mark.parametrize(
    ("objectives_s", "kept"),
    [
        pytest.param((), TTFT_EDGES, id="none: all"),
        pytest.param((2.0,), ("0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "7.5", "+Inf"), id="about one"),
        pytest.param((0.1, 2.0), TTFT_EDGES[:8] + TTFT_EDGES[9:], id="about two"),
        pytest.param((1e6,), ("10.0", "+Inf"), id="beyond all"),
        pytest.param((1e-6,), ("0.001", "+Inf"), id="below all"),
    ],
)
def test_edges_about_the_objectives_are_kept(objectives_s, kept):
    assert around(TTFT_EDGES, objectives_s) == kept


@given(st.sets(st.floats(0.001, 1000.0)), st.lists(st.floats(0.01, 100.0), min_size=1))
def test_the_bucket_of_an_objective_is_always_kept_whole(edges, objectives):
    kept = {float(edge) for edge in around([*map(str, edges), "+Inf"], objectives)}

    assert float("inf") in kept
    for objective in objectives:
        assert max((e for e in edges if e <= objective), default=None) in {*kept, None}
        assert min((e for e in edges if e >= objective), default=None) in {*kept, None}


def test_two_spellings_of_an_edge_are_kept_together():
    assert around(("1", "1.0", "+Inf"), (0.2,)) == ("1", "1.0", "+Inf")


NASTY = st.text(st.characters(codec="utf-8"), max_size=20)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


@given(NASTY, NASTY)
def test_a_value_never_leaves_its_string(namespace, name):
    query = Template('a{n="{namespace}"} or b{m=~"x-{name}"}').filled(namespace, name)
    first, second = LITERAL.findall(query)

    assert LITERAL.sub("", query) == "a{n=} or b{m=~}"
    assert json.loads(f'"{first}"', strict=False) == namespace
    assert re.compile(json.loads(f'"{second}"', strict=False)).fullmatch(f"x-{name}")


def test_a_value_in_single_quotes_stays_there_too():
    assert Template("a{n='{name}'}").filled("", 'it\'s "x"') == "a{n='it\\'s \"x\"'}"


def test_a_value_that_looks_like_a_placeholder_is_a_value():
    assert Template('a{n="{namespace}",m="{name}"}').filled("{name}", "x") == 'a{n="{name}",m="x"}'


@pytest.mark.parametrize("text", ["refused_{name}", "a{n=`{name}`}", 'a{n="x"} or {namespace}'])
def test_a_placeholder_outside_of_a_quoted_string_is_a_fault(text):
    with pytest.raises(ConfigError):
        Template(text)


def plan(weights: dict[str, float], ranks: float = 1.0) -> Plan:
    edges = {"x_bucket": tuple(map(str, range(9)))}
    return Plan(0.0, frozenset(weights), edges, dict.fromkeys(weights, ranks), weights)


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.floats(0, 2 * SERIES_LIMIT), max_size=30))
def test_every_namespace_is_asked_for_once_and_no_group_is_too_large(weights):
    chunks = plan(weights).chunks(weights)

    assert sorted(namespace for chunk in chunks for namespace in chunk) == sorted(weights)
    assert all(len(chunk) == 1 or sum(weights[one] for one in chunk) <= SERIES_LIMIT + 1e-6 for chunk in chunks)


def test_a_namespace_that_is_too_large_alone_is_asked_for_edge_by_edge():
    wanted = Signals(("x_bucket", "x_sum"), ("le",), ("x_bucket",))
    of = plan({"prod": 10_000.0}, ranks=1000.0)

    assert of.slices(wanted, ("prod",)) == [("0", "1", "2", "3", "4"), ("5", "6", "7", "8")]
    assert of.slices(wanted, ()) == [tuple(map(str, range(9)))]


def test_a_plan_holds_for_a_minute_and_for_the_namespaces_it_was_made_for():
    of = plan({"a": 1.0, "b": 1.0})

    assert of.holds(["a"], 59.0)
    assert not of.holds(["a"], 60.0)
    assert not of.holds(["a", "c"], 0.0)
