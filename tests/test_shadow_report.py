"""What is printed of a shadow."""

from scaler.cli.shadow_report import shadow_lines

COMPARED = {
    "seen_s": 7200.0,
    "blind_s": 60.0,
    "real_replica_s": 36000.0,
    "ours_replica_s": 27000.0,
    "more_s": 720.0,
    "fewer_s": 3600.0,
    "late_s": 360.0,
    "helped_s": 300.0,
    "most_real": 6,
    "most_ours": 8,
}


def test_what_would_have_been_stands_beside_what_was():
    lines = shadow_lines("prod/llama", COMPARED)
    assert (
        "10 replica-hours were asked for (at most 6 replicas); this scaler would have asked for 7.5 (at most 8), -25%"
        in lines[0]
    )
    assert lines[1] == "  shadow    it would have asked for more during 12 min (10%), for fewer during 1.0 h (50%)"
    assert "longer than their budget during 6 min (5%); in 5 min of that it would have asked for more." in lines[2]
    assert lines[3] == "  shadow    nothing is known of 1 min"


def test_the_edit_that_makes_it_count_is_printed():
    text = "\n".join(shadow_lines("prod/llama", COMPARED))
    for words in (
        "in ScaledObject prod/llama",
        "take away the annotation slo-scaler/shadow",
        "metricType: AverageValue",
    ):
        assert words in text


def test_before_anything_was_seen_nothing_is_claimed():
    lines = shadow_lines("prod/llama", dict.fromkeys(COMPARED, 0))
    assert lines[0] == "  shadow    nothing was compared yet"
