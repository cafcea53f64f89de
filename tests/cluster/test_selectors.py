"""Label selectors: the language of the API server, and several joined into one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.cluster.selectors import LONGEST_TEXT, Index, Selector, joined, selector_of

LABELS = {"app": "llama", "tier": "gpu"}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("app=llama", True),
        ("app==llama,tier=gpu", True),
        ("app=llama,tier=cpu", False),
        ("app!=llama", False),
        ("zone!=a", True),
        ("app in (mistral, llama)", True),
        ("app notin (mistral,llama)", False),
        ("zone notin (a)", True),
        ("zone in (a)", False),
        ("tier", True),
        ("!tier", False),
        ("!zone,app in (llama),tier", True),
        ("app=", False),
    ],
)
def test_a_selector_matches_as_the_api_server_does(text, fits):
    assert selector_of(text).matches(LABELS) is fits


@pytest.mark.parametrize(
    "text", ["", "a=b,", "cpu>3", "a in b", "a b", "a in (b", ",a=b", "a=" + "b" * 64, "a=" + "b" * 5000]
)
def test_what_is_no_selector_of_pods_is_refused(text):
    with pytest.raises(ValueError, match="not understood"):
        selector_of(text)


@pytest.mark.parametrize(
    "text", ["app=$X", "app=-a", "-a=b", "a/b/c=d", "A.b/c=d", "app in (a,b c)", "!$", "ü=a", "a=ü"]
)
def test_what_the_api_server_would_refuse_is_refused_before_it_is_asked_for_with_others(text):
    with pytest.raises(ValueError, match="not understood"):
        selector_of(text)


@pytest.mark.parametrize(
    ("texts", "one"),
    [
        pytest.param(["app=a"], "app=a", id="one"),
        pytest.param(["app=a", "app=b"], "app in (a,b)", id="one label"),
        pytest.param(["app=a", "app in (b,c)"], "app in (a,b,c)", id="a set"),
        pytest.param(["x=1,app=a", "app=b,x=1"], "app in (a,b),x=1", id="the rest is shared"),
        pytest.param(["app=a", "name=b"], "", id="different labels"),
        pytest.param(["x=1,app=a", "x=1,name=b"], "x=1", id="different labels beside a shared one"),
        pytest.param(["app=a", "app!=b"], "", id="a negation"),
        pytest.param(["app=a", "app=a,x=1"], "app=a", id="one within the other"),
    ],
)
def test_selectors_are_joined_as_narrowly_as_the_language_allows(texts, one):
    assert joined(frozenset(map(selector_of, texts))) == one


def test_a_thousand_selectors_that_are_too_long_to_be_asked_together_are_asked_for_by_what_they_share():
    selectors = {selector_of(f"app=llama-{number},tier=gpu") for number in range(1000)}

    assert (joined(selectors), len(joined(list(selectors)[:100])) <= LONGEST_TEXT) == ("tier=gpu", True)


KEYS, VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2"])
PARTS = st.one_of(
    st.builds("{}={}".format, KEYS, VALUES),
    st.builds("{}!={}".format, KEYS, VALUES),
    st.builds("{} in (1,2)".format, KEYS),
    st.builds("{} notin (1,2)".format, KEYS),
    KEYS,
    KEYS.map("!{}".format),
)
SELECTORS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: selector_of(",".join(parts)))


@given(st.sets(SELECTORS, min_size=1, max_size=4), st.dictionaries(KEYS, VALUES))
def test_the_joined_selector_never_hides_a_pod_that_one_of_them_selects(selectors: set[Selector], labels):
    one = joined(selectors)
    through = not one or selector_of(one).matches(labels)

    assert through or not any(selector.matches(labels) for selector in selectors)


@given(st.sets(SELECTORS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_those_that_fit_are_found_among_many_as_if_each_were_tried(selectors, labels):
    assert Index(selectors).fitting(labels) == {selector for selector in selectors if selector.matches(labels)}


@given(SELECTORS)
def test_a_selector_means_the_same_when_it_is_written_and_read_again(selector):
    assert selector_of(str(selector)) == selector


def test_a_label_is_required_unless_it_is_spoken_of():
    assert str(selector_of("name=a").requiring("index", "0")) == "index=0,name=a"
    assert str(selector_of("name=a,index=0").requiring("index", "0")) == "index=0,name=a"
