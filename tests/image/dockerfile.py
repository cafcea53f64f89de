"""The Dockerfile and the .dockerignore, read as a builder reads them, as far as ours go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Instruction:
    """``COPY`` and what stands behind it, continued lines joined."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[str]:
        return [instruction.text for instruction in self.instructions if instruction.name == name]

    def only(self, name: str) -> str:
        """The text of an instruction that stands there once."""
        [text] = self.all(name)
        return text


@cache
def stages() -> tuple[Stage, ...]:
    """The Dockerfile's stages, the last one being the image."""
    found: list[Stage] = []
    for instruction in _instructions((ROOT / "Dockerfile").read_text()):
        if instruction.name == "FROM":
            base, _, name = instruction.text.partition(" AS ")
            found.append(Stage(base, name, ()))
        elif found:
            *before, last = found
            found = [*before, Stage(last.base, last.name, (*last.instructions, instruction))]
    return tuple(found)


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for statement in "\n".join(lines).replace("\\\n", "").split("\n"):
        name, _, rest = statement.partition(" ")
        yield Instruction(name, rest.strip())


@cache
def _rules() -> tuple[tuple[bool, re.Pattern[str]], ...]:
    """(ignored, pattern) of every line of the .dockerignore."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    return tuple((not rule.startswith("!"), _pattern(rule.removeprefix("!").rstrip("/"))) for rule in rules)


def _pattern(rule: str) -> re.Pattern[str]:
    wild = {"**/": "(?:.*/)?", "*": "[^/]*"}
    return re.compile("".join(wild.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*/|\*)", rule)))


def ignored(path: PurePosixPath | str) -> bool:
    """Whether the builder never sees this path: the last rule that matches it or a directory above it decides."""
    path = PurePosixPath(path)
    places = [str(place) for place in (path, *path.parents)]
    return [False, *(verdict for verdict, rule in _rules() if any(map(rule.fullmatch, places)))][-1]
