"""What an operator breaks in an emergency: the annotations for a floor and for the gate."""

import pytest

from scaler.cluster.glass import floor_of, glass_notes
from scaler.cluster.scaled_objects import Service, named_workload
from scaler.core.model import Floor, Note
from tests.support.cluster_objects import WALL, scaled_object, stamp

OFFSET = WALL - 1000.0
UNTIL = stamp(WALL + 3600)


def said(now: float, **annotations: str) -> list[Note]:
    written = {f"slo-scaler/{name}": value for name, value in annotations.items()}
    named = named_workload(scaled_object(annotations=written), frozenset({Service("slo-scaler", "keda")}))
    assert named is not None
    return list(glass_notes(named, floor_of(named.floor, OFFSET), now))


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(f"6 until {UNTIL}", id="zulu"),
        pytest.param(f"  6   until {UNTIL} ", id="spaces"),
    ],
)
def test_a_floor_is_a_number_and_a_time(written):
    assert floor_of(written, OFFSET) == Floor(6, 1000.0 + 3600.0, UNTIL)


def test_a_time_may_be_of_any_zone():
    assert floor_of("6 until 2026-12-01T20:00+02:00", 0.0) == Floor(6, 1_796_148_000.0, "2026-12-01T20:00+02:00")


@pytest.mark.parametrize(
    "written",
    [
        "",
        "6",
        f"0 until {UNTIL}",
        f"-6 until {UNTIL}",
        f"6.5 until {UNTIL}",
        f"1000000 until {UNTIL}",
        "6 until 2026-12-01T18:00",
        "6 until tomorrow",
        "6 until 2026-13-01T18:00Z",
        f"six until {UNTIL}",
    ],
)
def test_what_is_no_number_and_time_with_a_zone_sets_no_floor(written):
    assert floor_of(written, OFFSET) is None


def test_a_floor_that_stands_is_said_with_its_end():
    text = f"at least 6 replicas until {UNTIL} by annotation slo-scaler/floor, whatever the load asks for"
    assert said(1000.0, floor=f"6 until {UNTIL}") == [Note("floor", text)]


def test_one_that_is_over_is_said_until_it_is_taken_away():
    text = f"the floor of annotation slo-scaler/floor ended at {UNTIL}; take it away"
    assert said(4600.0, floor=f"6 until {UNTIL}") == [Note("floor_over", text)]


def test_one_that_means_nothing_says_how_to_write_it_and_not_what_was_written():
    text = (
        "annotation slo-scaler/floor: write a number of replicas and a time with its zone, such as 6 until 2026-12-01T18:00Z; "
        "no floor stands"
    )
    assert said(1000.0, floor="hunter2") == [Note("floor_refused", text)]


def test_a_gate_that_an_annotation_turns_is_said():
    text = "the gate is off by annotation slo-scaler/gate, whatever the trigger says"
    assert said(1000.0, gate="off") == [Note("gate_annotated", text)]


def test_without_annotations_nothing_is_said():
    assert said(1000.0) == []
