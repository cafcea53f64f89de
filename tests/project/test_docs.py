"""The documentation: what it points at exists, what it tells to run can be run, what is generated is what the code says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer

from scaler.cli.commands import app

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted([README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "manifests").rglob("*.md")])
FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
OURS = re.compile(r"^(?:manifests|docs|tests|bench|\.ci|proto|scaler)/[\w./-]*\w$")
HOST = re.compile(r"^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)$")
COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """The page without its code: what stands there in brackets is no link."""
    return SPAN.sub(lambda span: "`" + re.sub(r"\S", "x", span[1]) + "`", FENCE.sub("", text_of(page)))


def anchors(page: Path) -> set[str]:
    """The names of the headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(next(name for number in range(99) if (name := f"{slug}-{number}" if number else slug) not in found))
    return found


def links(page: Path) -> list[str]:
    return LINK.findall(prose(page))


def place(page: Path) -> str:
    return str(page.relative_to(ROOT))


def broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    inside = target.is_relative_to(ROOT)
    return not inside or not target.exists() or bool(anchor and anchor not in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_link_leads_somewhere(page):
    assert [link for link in links(page) if "://" not in link and broken(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_address_of_another_site_is_one(page):
    addresses = [urlsplit(link) for link in links(page) if "://" in link]
    assert [one.geturl() for one in addresses if one.scheme != "https" or not HOST.match(one.hostname or "")] == []


def test_every_page_can_be_reached_from_the_readme():
    reached, left = {README}, [README]
    while left:
        page = left.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix in {".md", ".yaml"} and target.is_file() and target not in reached:
                reached.add(target)
                left += [target] if target.suffix == ".md" else []
    documents = [*PAGES, *(ROOT / "docs").rglob("*.yaml")]
    assert sorted(place(page) for page in set(documents) - reached) == []


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_file_of_ours_that_is_named_exists(page):
    words = [*SPAN.findall(text_of(page)), *(word for line in fenced(page) for word in line.split())]
    named = {word for word in words if OURS.match(word)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@dataclass(frozen=True, slots=True)
class Line:
    """A call of ``slo-scaler`` in a page. In a fence it is whole; in a sentence it may be only a name and an option."""

    page: str
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def fenced(page: Path) -> Iterator[str]:
    """The lines of all code that is no output or configuration, those that go on in the next one joined."""
    for _, language, code in FENCE.findall(text_of(page)):
        if language in {"", "sh"}:
            yield from code.replace("\\\n", " ").splitlines()


def calls(page: Path) -> Iterator[Line]:
    for line in fenced(page):
        for words in split(line):
            yield Line(place(page), words, whole=True)
    for span in SPAN.findall(FENCE.sub("", text_of(page))):
        if re.match(r"slo-scaler [a-z]", span):
            yield from (Line(place(page), words, whole=False) for words in split(span))


def split(line: str) -> Iterator[tuple[str, ...]]:
    """The words after each ``slo-scaler`` that is a command of the line, up to what ends it."""
    lexer = shlex.shlex(line.strip(), posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    try:
        words = [*lexer]
    except ValueError:
        return  # a line of output with one quote
    begins = [at for at, word in enumerate(words) if word.removeprefix(".venv/bin/") == "slo-scaler"]
    for at in begins:
        called = at == 0 or words[at - 1] in {"--", "|", "&&", ";", "(", "&"} or "=" in words[at - 1]
        if called and at + 1 < len(words):
            rest = words[at + 1 :]
            end = next((i for i, word in enumerate(rest) if word[0] in ";|&<>()"), len(rest))
            yield tuple(rest[:end])


CALLS = [line for page in PAGES for line in calls(page)]


def wrong_with(line: Line) -> str:
    """Why the command line would not do that; empty if it would. Files need not be there, and values are not looked at."""
    name, *arguments = line.words
    if name not in COMMANDS:
        return "" if name.startswith("-") else "no such command"
    command = COMMANDS[name]
    context = command.context_class(command, info_name=name)
    try:
        given, left, _ = command.make_parser(context).parse_args(arguments)
    except Exception as error:  # noqa: BLE001 - the parser's own errors are of a library inside a library
        return "" if not line.whole and "requires an argument" in str(error) else str(error)
    wanted = [one.name for one in command.params if one.required and given.get(one.name) in (None, ())]
    return f"left over: {left}" if left else f"missing: {wanted}" if line.whole and wanted else ""


@pytest.mark.parametrize("line", CALLS, ids=str)
def test_every_command_line_is_one_that_the_program_takes(line):
    assert wrong_with(line) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("explain", "prod/llama"), ""),
        (("explain", "prod/llama", "--json", "--ops", "localhost:8081"), ""),
        (("explain",), "missing: ['workload']"),
        (("explain", "prod/llama", "prod/other"), "left over: ['prod/other']"),
        (("explane", "prod/llama"), "no such command"),
    ],
)
def test_a_command_line_that_the_program_would_refuse_is_found(words, said):
    assert wrong_with(Line("", words, whole=True)) == said


def test_an_option_that_there_is_not_is_found():
    assert "--loud" in wrong_with(Line("", ("explain", "prod/llama", "--loud"), whole=True))


def test_a_command_is_found_behind_others_and_in_a_pod():
    line = "kubectl -n slo-scaler exec deploy/slo-scaler -- slo-scaler explain a/b | head; .venv/bin/slo-scaler check x # y"
    assert [*split(line)] == [("explain", "a/b"), ("check", "x")]


def test_pages_have_commands_and_links_at_all():
    assert (len(CALLS) > 50, sum(len(links(page)) for page in PAGES) > 100) == (True, True)


def test_every_target_of_make_that_is_named_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    told = [words for page in PAGES for words in (*SPAN.findall(text_of(page)), *fenced(page))]
    named = {found[1] for words in told if (found := re.match(r"make ([a-z0-9-]+)", words))}
    assert sorted(named - targets) == []


GENERATOR = ROOT / ".ci" / "reference.py"


def generated(generator: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, generator], capture_output=True, text=True, check=False)


def test_the_reference_is_what_the_code_says():
    done = generated(GENERATOR)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text_of(ROOT / "docs" / "reference.md"), "run: make docs"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("  headroom:", "  # headroom:", "headroom needs one sentence"),
        ("trigger:", "trigger:\n  headrom: as before", "the code has no headrom"),
    ],
    ids=["a key without a sentence", "a sentence without a key"],
)
def test_what_keys_mean_cannot_be_forgotten_or_left_behind(before, after, said, tmp_path):
    copy = shutil.copy(GENERATOR, tmp_path)
    (tmp_path / "reference.yaml").write_text(text_of(GENERATOR.with_suffix(".yaml")).replace(before, after, 1))
    done = generated(Path(copy))
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
