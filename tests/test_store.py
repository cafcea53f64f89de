"""The file store: what a new process finds, and what happens when the disk does not do what it should."""

from __future__ import annotations

import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.core import memory
from scaler.core.memory import Recalled
from scaler.core.model import Absent, Phase, Reading, Starting, WorkloadKey
from scaler.core.pressure import Condition
from scaler.core.starts import Begun, Finished, Starts
from scaler.core.step import State
from scaler.store import FileStore, WholeState
from tests.support.law import CHAT, Engine, Law, workload

KEY, OTHER = WorkloadKey("prod", "llama"), WorkloadKey("prod", "qwen")


def nothing(fault: str) -> None:
    raise AssertionError(fault)


def opened(directory: Path, told=nothing, **rest) -> FileStore:
    store = FileStore(directory, told, **rest)
    store.load()
    return store


def texts(directory: Path, *keys: WorkloadKey) -> list[str | None]:
    """What a new process finds."""
    store = opened(directory)
    store.close()
    return [store.recall(key) for key in keys]


def stored(directory: Path, **by_name: str) -> None:
    """Texts of workloads of one namespace, put by a process that has ended."""
    store = opened(directory)
    for name, text in by_name.items():
        store.put(WorkloadKey("prod", name), text)
    store.close()


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_new_process_finds_what_was_put_last(tmp_path):
    store = opened(tmp_path / "state")
    for number in range(200):
        store.put(KEY, f"text {number}")
    store.put(OTHER, "another")
    store.close()
    assert store.recall(KEY) == "text 199"
    assert texts(tmp_path / "state", KEY, OTHER, WorkloadKey("prod", "unknown")) == ["text 199", "another", None]


def test_it_is_always_due(tmp_path):
    assert opened(tmp_path).due(KEY, changed=False)


def test_what_is_forgotten_leaves_no_file(tmp_path):
    stored(tmp_path, llama="a", qwen="b")
    store = opened(tmp_path)
    store.forget(KEY)
    store.forget(WorkloadKey("prod", "unknown"))
    store.close()
    assert (store.recall(KEY), texts(tmp_path, KEY, OTHER), len(list(tmp_path.iterdir()))) == (None, [None, "b"], 1)


def test_nothing_is_written_after_the_end(tmp_path):
    store = opened(tmp_path)
    store.close()
    store.put(KEY, "late")
    assert texts(tmp_path, KEY) == [None]


def test_only_its_owner_may_read_it(tmp_path):
    stored(tmp_path / "state", llama="a")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state", *(tmp_path / "state").iterdir())]
    assert modes == [0o700, 0o600]


HOSTILE = [
    WorkloadKey("..", ".."),
    WorkloadKey("../../etc", "passwd"),
    WorkloadKey("a/b", "c"),
    WorkloadKey("a", "b/c"),
    WorkloadKey("a_b", "c"),
    WorkloadKey("ünïcode", "\n\0"),
    WorkloadKey("n" * 253, "m" * 253),
    WorkloadKey("n" * 253, "m" * 252 + "k"),
]


def test_any_name_is_a_file_of_its_own_inside_the_directory(tmp_path):
    store = opened(tmp_path / "state")
    for key in HOSTILE:
        store.put(key, repr(key))
    store.close()
    assert texts(tmp_path / "state", *HOSTILE) == [repr(key) for key in HOSTILE]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_of_more_workloads_than_files_those_stored_last_are_kept(tmp_path):
    store = opened(tmp_path, most_files=3)
    for number in range(5):
        store.put(WorkloadKey("prod", str(number)), str(number))
    store.put(WorkloadKey("prod", "2"), "again")
    store.put(WorkloadKey("prod", "5"), "5")
    store.close()
    keys = [WorkloadKey("prod", str(number)) for number in range(6)]
    assert texts(tmp_path, *keys) == [None, None, "again", None, "4", "5"]
    assert len(list(tmp_path.iterdir())) == 3


def test_at_start_the_oldest_files_beyond_the_most_go(tmp_path):
    stored(tmp_path, a="a", b="b", c="c")
    for age, path in enumerate(sorted(tmp_path.iterdir())):
        os.utime(path, (1e9 - age, 1e9 - age))
    opened(tmp_path, most_files=2).close()
    assert texts(tmp_path, *(WorkloadKey("prod", name) for name in "abc")) == ["a", "b", None]


@pytest.mark.fault("process is killed")
def test_what_a_process_left_half_written_is_removed_and_the_text_before_it_counts(tmp_path):
    stored(tmp_path, llama="whole")
    (whole,) = tmp_path.iterdir()
    whole.with_name(f"{whole.name}.part").write_text("wh")
    assert texts(tmp_path, KEY) == ["whole"]
    assert list(tmp_path.iterdir()) == [whole]


# --- faults -----------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read_are_told_of_and_the_others_count(tmp_path):
    stored(tmp_path, llama="a", qwen="b")
    broken = next(path for path in tmp_path.iterdir() if "qwen" in path.name)
    broken.write_bytes(b"\xff\xfe")
    (tmp_path / "directory.state.json").mkdir()
    told: list[str] = []
    store = opened(tmp_path, told.append)
    assert (store.recall(KEY), store.recall(OTHER)) == ("a", None)
    assert [fault.split(", ")[0] for fault in told] == [f"2 files of {tmp_path} cannot be read"]


@pytest.mark.fault("disk is full")
def test_a_directory_that_cannot_be_is_told_of_and_nothing_raises(tmp_path):
    (tmp_path / "file").write_text("in the way")
    told: list[str] = []
    store = opened(tmp_path / "file" / "state", told.append)
    store.put(KEY, "a")
    store.close()
    assert (store.recall(KEY), len(told)) == ("a", 1)
    assert told[0].startswith(f"{tmp_path / 'file' / 'state'} cannot be read")


@pytest.mark.fault("disk is full")
def test_a_fault_is_told_once_and_again_when_it_comes_back(tmp_path):
    directory, told = tmp_path / "state", list[str]()
    store = opened(directory, told.append)

    def ticks() -> None:
        for number in range(5):
            store.put(KEY, str(number))
            store._worker.submit(list).result()  # all that waited has been tried

    for times in (1, 2):
        directory.rmdir()
        directory.write_text("in the way")
        ticks()
        assert len(told) == times
        directory.unlink()
        ticks()
        (file,) = directory.iterdir()
        assert file.read_text() == "4"
        file.unlink()
    assert all("after a restart its workload begins anew" in fault for fault in told)


@contextmanager
def no_room(most_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond that: what a full disk is, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.fault("disk is full")
def test_on_a_full_disk_the_text_before_stays_whole_and_the_newest_is_written_when_there_is_room(tmp_path):
    told, large = list[str](), "x" * 100_000
    store = opened(tmp_path, told.append)

    def put(key: WorkloadKey, text: str) -> list[str | None]:
        store.put(key, text)
        store._worker.submit(list).result()  # all that waited has been tried
        return texts(tmp_path, KEY, OTHER)

    put(KEY, "before")
    with no_room(10_000):
        full = [put(KEY, large), put(OTHER, "small"), put(KEY, large)]
    after = put(KEY, large)
    store.close()
    assert (full, after) == ([["before", None], ["before", "small"], ["before", "small"]], [large, "small"])
    assert [fault.partition(": ")[2] for fault in told] == [
        "[Errno 27] File too large; after a restart its workload begins anew"
    ]


# --- the whole state --------------------------------------------------------------------------------------------------

SPEC = workload(classes=(replace(CHAT, tpot_s=0.1),))
NOW, WALL = 5000.0, 1_764_531_000.0


def lived() -> State:
    """A state that has seen load, queues, a silent replica, a start and a spec."""
    law, engines = Law(SPEC, now=NOW - 200.0), (Engine("a", running=30.0), Engine("b", running=40.0, generation=1.0))
    starting = (Starting("c", law.now, "ImagePullBackOff", "H100"),)
    law.steady(120.0, *engines, rate_per_s=7.0, refused_total=3.0)
    engines[0].waiting, engines[1].silent = 300.0, True
    law.steady(78.0, *engines, rate_per_s=7.0, starting=starting, refused_total=9.0)
    law.see(*engines)
    start = Finished(NOW - 900.0, 61.5, "H100", (Phase("scheduled", 1.5), Phase("ready", 60.0)))
    return replace(law.state, starts=replace(law.state.starts, finished=(start,), tokenless={"b": start}))


LIVED = lived()
WHOLE = WholeState()
TEXT = WHOLE.remember(LIVED, NOW, WALL)


def test_a_whole_state_comes_back_to_the_last_bit():
    assert WHOLE.recall(TEXT, SPEC, NOW + 2.0, WALL + 2.5) == Recalled(LIVED)


def test_a_state_of_every_kind_of_value_comes_back():
    odd = replace(
        LIVED,
        decision=None,
        history=replace(
            LIVED.history,
            last={"ü": Reading("ü", 1.0, Absent.IDLE, Absent.UNKNOWN, absent=("ttft",))},
            lacking=frozenset({"a", "b"}),
        ),
        starts=Starts(begun={"x": Begun(1.0, node_class="H100")}, owed=((3, float("inf")),)),
        colours=tuple((name, replace(colour, rule=Condition.BREACHING)) for name, colour in LIVED.colours),
    )
    assert WHOLE.recall(WHOLE.remember(odd, NOW, WALL), SPEC, NOW, WALL) == Recalled(odd)


def short(passed_s: float, wall_passed_s: float, note: str = "") -> Recalled:
    return replace(memory.recall(TEXT, SPEC, NOW + passed_s, WALL + wall_passed_s), note=note)


@pytest.mark.parametrize(
    ("passed_s", "wall_passed_s"),
    [
        pytest.param(11.0, 11.0, id="readings are stale"),
        pytest.param(-4990.0, 5.0, id="another boot"),
        pytest.param(2.0, 60.0, id="the machine slept"),
        pytest.param(2.0, -60.0, id="the time of day was set"),
    ],
)
def test_a_whole_state_of_another_time_counts_in_its_short_form(passed_s, wall_passed_s):
    assert WHOLE.recall(TEXT, SPEC, NOW + passed_s, WALL + wall_passed_s) == short(passed_s, wall_passed_s)


def changed(**state) -> str:
    written = json.loads(TEXT)
    written["whole"]["state"] |= state
    return json.dumps(written)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(changed(more=1), id="a field more"),
        pytest.param(changed(belief={}), id="fields fewer"),
        pytest.param(changed(belief=None), id="null"),
        pytest.param(changed(colours=[["chat", "GREEN"]]), id="another shape"),
        pytest.param(
            changed(learned=json.loads(TEXT)["whole"]["state"]["learned"] | {"windows": "9"}), id="a text for a number"
        ),
    ],
)
def test_a_whole_state_of_another_program_counts_in_its_short_form_and_it_is_said(text):
    note = "the whole state that is stored is another program's: its short form counts"
    assert WHOLE.recall(text, SPEC, NOW + 2.0, WALL + 2.0) == short(2.0, 2.0, note)


def test_a_text_that_a_cluster_kept_will_do():
    assert WHOLE.recall(memory.remember(LIVED, NOW, WALL), SPEC, NOW + 2.0, WALL + 2.0) == short(2.0, 2.0)


@pytest.mark.fault("stored state is damaged")
def test_garbage_is_a_blank_state():
    assert WHOLE.recall(TEXT[:-9], SPEC, NOW, WALL) == Recalled(State(), "what is stored is no text of ours")
