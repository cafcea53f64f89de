"""What a check is, and what it says: a verdict with its evidence, never a pass for what nobody told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scaler.checks.facts import Facts

T = TypeVar("T")


class Verdict(StrEnum):
    """The worst first, as they are shown."""

    FAILS = "fail"
    WARNS = "warn"
    UNKNOWN = "cannot tell"
    PASSES = "pass"


class Basis(StrEnum):
    """How a verdict is known: read or measured at its very place, or concluded from something else."""

    VERIFIED = "verified"
    INFERRED = "inferred"


class Untold(Exception):
    """A fact that a check needs and that nobody told; the text says what, and who could tell."""


def told(value: T | None, what: str) -> T:
    """A fact, or the end of the check. Raises Untold."""
    if value is None:
        raise Untold(what)
    return value


@dataclass(frozen=True, slots=True)
class Outcome:
    """``number`` is the one that decides, in the unit that ``evidence`` names. An empty remedy, a ``basis`` of None: the check's own."""

    verdict: Verdict
    evidence: str
    number: float | None = None
    remedy: str = ""
    basis: Basis | None = None


def passed(evidence: str, number: float | None = None, basis: Basis | None = None) -> Outcome:
    """As it should be."""
    return Outcome(Verdict.PASSES, evidence, number, basis=basis)


def warned(evidence: str, number: float | None = None, remedy: str = "", basis: Basis | None = None) -> Outcome:
    """Works, and will cost something or hurt one day."""
    return Outcome(Verdict.WARNS, evidence, number, remedy, basis)


def failed(evidence: str, number: float | None = None, remedy: str = "", basis: Basis | None = None) -> Outcome:
    """Will not do what it is there for."""
    return Outcome(Verdict.FAILS, evidence, number, remedy, basis)


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a workload. ``title`` says what should be so, ``docs`` is the page that explains it.

    ``basis`` is how its verdict is known, unless an outcome says otherwise.
    """

    code: str
    title: str
    remedy: str
    docs: str
    basis: Basis
    look: Callable[[Facts], Outcome]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says of one workload. ``remedy`` and ``basis`` are empty and None where there is nothing to do or to know."""

    code: str
    title: str
    verdict: Verdict
    evidence: str
    number: float | None
    basis: Basis | None
    remedy: str
    docs: str


def check(
    code: str, *, remedy: str, docs: str, basis: Basis = Basis.VERIFIED
) -> Callable[[Callable[[Facts], Outcome]], Check]:
    """Makes a check of the function that answers it, whose docstring says what should be so. The registry finds it by being one."""

    def made(look: Callable[[Facts], Outcome]) -> Check:
        return Check(code, (look.__doc__ or code).removesuffix("."), remedy, docs, basis, look)

    return made


def finding(one: Check, facts: Facts) -> Finding:
    """What a check says. A fact that nobody told makes it "cannot tell"."""
    try:
        outcome = one.look(facts)
    except Untold as untold:
        return Finding(one.code, one.title, Verdict.UNKNOWN, str(untold), None, None, "", one.docs)
    remedy = "" if outcome.verdict is Verdict.PASSES else outcome.remedy or one.remedy
    basis = outcome.basis or one.basis
    return Finding(one.code, one.title, outcome.verdict, outcome.evidence, outcome.number, basis, remedy, one.docs)
