"""The command line that tests one level, from what the level is and what the person adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scaler.calibration.advice import NextTest

SECRET = frozenset({"--api-key", "--header", "-H"})
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Where a load tester sends what. ``url`` is without ``/v1``; lengths are tokens, None where ``extra`` names a data set.

    ``extra`` are options of the load tester's own, each of which replaces what is given otherwise.
    """

    url: str
    model: str
    tokenizer: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    api_key: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a load tester: a level, the seed of its prompts, and the folder for its result."""

    step: NextTest
    seed: int
    folder: str

    @property
    def concurrency(self) -> str:
        """As an option takes it."""
        return f"{self.step.load.value:g}"

    @property
    def requests(self) -> str:
        """As an option takes it."""
        return str(self.step.requests)


class Option:
    """An option and its value, None for a switch. The first of ``names`` is written; a person may write any."""

    __slots__ = ("names", "value")

    def __init__(self, *names: str, value: str | None = None) -> None:
        """All names of one option."""
        self.names = names
        self.value = value


@dataclass(frozen=True, slots=True)
class Tester:
    """A load tester: what it is called with, and the file that it leaves in its folder.

    ``fixed`` options make the sweep what it is; a person replaces the ``usual`` ones.
    """

    program: str
    start: tuple[str, ...]
    fixed: Callable[[Traffic, Turn], Iterable[Option]]
    usual: Callable[[Traffic, Turn], Iterable[Option]]
    result: str


def command(tester: Tester, traffic: Traffic, turn: Turn) -> tuple[str, ...]:
    """The whole command line."""
    given = _named(traffic.extra)
    usual = (option for option in tester.usual(traffic, turn) if given.isdisjoint(option.names))
    options = [
        word
        for option in (*tester.fixed(traffic, turn), *usual)
        for word in (option.names[0], option.value)
        if word is not None
    ]
    return (*tester.start, *options, *traffic.extra)


def reserved(tester: Tester, traffic: Traffic, turn: Turn) -> str | None:
    """The first option that a person gives though the sweep decides it, None when there is none."""
    names = {name for option in tester.fixed(traffic, turn) for name in option.names}
    return next((word for word in traffic.extra if word.partition("=")[0] in names), None)


def public(words: Sequence[str]) -> tuple[str, ...]:
    """A command line without its secrets, to be written down."""
    shown: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        name, equals, _ = word.partition("=")
        shown.append(HIDDEN if before in SECRET else f"{name}={HIDDEN}" if equals and name in SECRET else word)
    return tuple(shown)


def _named(extra: Sequence[str]) -> frozenset[str]:
    return frozenset(word.partition("=")[0] for word in extra if word.startswith("-"))
