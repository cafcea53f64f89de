"""The key map: whose a token is by its hash, every fault by its place, and nothing of an entry in any fault."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.backpressure.asked import Owner
from scaler.core.classes import BUILT_IN
from scaler.errors import ConfigError
from scaler.settings.followed import Followed
from scaler.settings.key_map import LARGEST, MOST_FAULTS, NO_HASH, WatchedKeyMap, parse_key_map

DOCS = Path(__file__).parents[1] / "docs"
PATH = Path("/keys.yaml")
CLASSES = ("chat", "agent")
HASH, OTHER = (hashlib.sha256(key).hexdigest() for key in (b"sk-one", b"sk-two"))
SECRET = "sk-canary-0123456789"
NO_VALUE = "a value that YAML takes for a date or a number is none; put it in quotes"


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        parse_key_map(PATH, text, CLASSES)
    return raised.value.faults


WRITTEN = {HASH: {"tenant": "acme", "class": "agent"}, OTHER: {"tenant": "umbrella"}}


@pytest.mark.parametrize("written", [json.dumps(WRITTEN), yaml.safe_dump(WRITTEN)], ids=["JSON", "YAML"])
def test_a_map_tells_whose_each_key_is(written):
    assert parse_key_map(PATH, written, CLASSES) == {HASH: Owner("acme", "agent"), OTHER: Owner("umbrella", None)}


def test_the_map_of_the_documentation_is_one():
    shown = re.search(r"```yaml\n(# printf .*?)```", (DOCS / "gateways.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    owners = parse_key_map(PATH, shown[1], BUILT_IN)
    assert [*owners.values()] == [Owner("acme", "agent"), Owner(None, "batch")]


def test_a_map_may_hold_no_key_or_name_a_class_only():
    assert (parse_key_map(PATH, "{}", CLASSES), parse_key_map(PATH, f"{HASH}: {{class: chat}}", CLASSES)) == (
        {},
        {HASH: Owner(None, "chat")},
    )


def test_the_hash_is_what_the_command_of_the_fault_prints():
    command = NO_HASH.partition(": ")[2]
    printed = subprocess.run(["sh", "-c", command], env={"KEY": "sk-one"}, capture_output=True, text=True, check=True)
    assert printed.stdout.split()[0] == HASH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{SECRET}: {{tenant: a}}", f"entry 1: {NO_HASH}", id="a key that is not hashed"),
        pytest.param(f"{HASH.upper()}: {{tenant: a}}", f"entry 1: {NO_HASH}", id="capitals"),
        pytest.param(f"{HASH[1:]}: {{tenant: a}}", f"entry 1: {NO_HASH}", id="a digit too few"),
        pytest.param(f"{'1' * 64}: {{tenant: a}}", f"entry 1: {NO_HASH}", id="a hash that YAML takes for a number"),
        pytest.param(f"? [{SECRET}]\n: {{}}", "is neither YAML nor JSON in line 1", id="a list as a name"),
        pytest.param(f"{HASH}: {SECRET}", "entry 1: a mapping is needed here, {tenant: ..., class: ...}", id="a word"),
        pytest.param(f"{HASH}: {{{SECRET}: a}}", "entry 1: unknown key; known are class, tenant", id="an unknown key"),
        pytest.param(f"{HASH}: {{}}", "entry 1: give tenant, class or both", id="nothing said"),
        pytest.param(f"{HASH}: {{tenant: 7}}", "entry 1.tenant: Input should be a valid string", id="a number"),
        pytest.param(
            f"{HASH}: {{tenant: ''}}", "entry 1.tenant: String should have at least 1 character", id="no name"
        ),
        pytest.param(
            f"{OTHER}: {{tenant: a}}\n{HASH}: {{class: {SECRET}}}",
            "entry 2.class: no such class; there are agent, chat",
            id="an unknown class",
        ),
        pytest.param(
            f"{HASH}: {{tenant: a}}\n{HASH}: {{tenant: b}}", "an entry in line 2 stands twice; keep one", id="twice"
        ),
        pytest.param(f"{HASH}: *{SECRET}", "is neither YAML nor JSON in line 1", id="not YAML"),
        pytest.param("[" * 5000, "is neither YAML nor JSON", id="nested too deep"),
        *(
            pytest.param(f"{HASH}: {{tenant: {value}}}", NO_VALUE, id=f"YAML's own trap, {value[:20]}")
            for value in (
                "2026-13-45",
                "2026-01-01 99:99:99",
                "0b_",
                "9" * 5000,
                "!!int x",
                "!!bool x",
                "!!timestamp x",
            )
        ),
        *(
            pytest.param(
                text, "a mapping is needed here, of the SHA-256 of each key to {tenant: ..., class: ...}", id=repr(text)
            )
            for text in ("", "[]", SECRET)
        ),
        pytest.param(
            "#" * (LARGEST + 1), "is longer than 1048576 characters; leave out keys that are not in use", id="too long"
        ),
    ],
)
def test_a_fault_names_the_entry_and_what_to_do(text, expected):
    assert faults(text) == (f"{PATH}: {expected}",)


def test_a_file_of_another_kind_is_told_of_in_a_few_lines():
    told = faults(yaml.safe_dump({f"{SECRET}-{number}": SECRET for number in range(1000)}))
    assert (len(told), told[-1], SECRET in str(told)) == (MOST_FAULTS + 1, f"{PATH}: and 990 faults more", False)


@given(
    st.dictionaries(
        st.just(SECRET) | st.just(HASH),
        st.just(SECRET) | st.dictionaries(st.sampled_from([SECRET, "tenant", "class"]), st.just([SECRET]), max_size=2),
    ),
    st.sampled_from(["", "\n}", f"\n{SECRET}: *x", f"\n{SECRET}: 1\n{SECRET}: 2"]),
)
def test_no_fault_ever_repeats_what_the_file_holds(entries, more):
    try:
        told = str(parse_key_map(PATH, yaml.safe_dump(entries) + more, CLASSES))
    except ConfigError as error:
        told = str(error)
    assert SECRET not in told


def followed(path: Path, content: str | None, watched: WatchedKeyMap) -> tuple[bool, bool, int]:
    """Whether owners are news, whether the file is good, and how many keys are known, once it holds that."""
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    return watched.changed(path, CLASSES), not watched.faults, len(watched.owners)


def test_a_bad_version_leaves_the_last_good_one_in_use_and_says_so_until_it_is_mended(tmp_path):
    path, watched = tmp_path / "keys.yaml", WatchedKeyMap()
    one = f"{HASH}: {{tenant: a}}"
    seen = [followed(path, text, watched) for text in (one, one, "[]", "[]", one, None)]
    assert watched.faults == (f"tenants.key_map_file: {path}: cannot be read (No such file or directory)",)
    seen.append(followed(path, "{}", watched))
    assert seen == [
        (True, True, 1),
        (False, True, 1),
        (False, False, 1),
        (False, False, 1),
        (True, True, 1),
        (False, False, 1),
        (True, True, 0),
    ]


def test_a_class_that_is_no_longer_configured_makes_the_map_a_bad_one(tmp_path):
    path, watched = tmp_path / "keys.yaml", WatchedKeyMap()
    path.write_text(f"{HASH}: {{class: agent}}")
    before = watched.changed(path, CLASSES)
    after = watched.changed(path, ("chat",))
    assert (before, after, watched.faults) == (
        True,
        False,
        (f"tenants.key_map_file: {path}: entry 1.class: no such class; there are chat",),
    )


def test_without_a_file_nobodys_key_is_known(tmp_path):
    path, watched = tmp_path / "keys.yaml", WatchedKeyMap()
    path.write_text(f"{HASH}: {{tenant: a}}")
    watched.changed(path, CLASSES)
    assert (watched.changed(None, CLASSES), watched.changed(None, CLASSES), watched.owners) == (True, False, {})


def test_a_file_that_cannot_be_read_again_and_again_is_refused_and_nothing_waits_for_it(tmp_path):
    pipe, watched = tmp_path / "pipe", WatchedKeyMap()
    os.mkfifo(pipe)
    changed = [watched.changed(path, CLASSES) for path in (pipe, Path("/dev/zero"))]
    assert (changed, watched.faults) == (
        [False, False],
        ("tenants.key_map_file: /dev/zero: is no file that can be read again and again",),
    )


def test_a_path_that_can_be_none_is_a_fault():
    watched = WatchedKeyMap()
    watched.changed(Path("/keys\0.yaml"), CLASSES)
    assert watched.faults == ("tenants.key_map_file: '/keys\\x00.yaml': is no path",)


def test_a_version_that_we_cannot_cope_with_is_a_bad_one_and_the_next_is_followed(tmp_path):
    path = tmp_path / "file"
    followed_file: Followed[int] = Followed()

    def parse(text: str) -> int:
        return int(text)  # its ValueError is no ConfigError, and has the text in it

    path.write_text("1")
    seen = [followed_file.changed(path, parse)]
    path.write_text(SECRET)
    seen.append(followed_file.changed(path, parse))
    told = followed_file.faults
    path.write_text("2")
    seen.append(followed_file.changed(path, parse))
    assert (seen, told, followed_file.faults) == (
        [1, None, 2],
        (f"{path}: cannot be understood (ValueError); see what has changed in it",),
        (),
    )
