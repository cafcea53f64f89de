"""All checks. A new one is one function in the module of its subject; it is found by being a ``Check``."""

from __future__ import annotations

from scaler.checks import hpa, objectives, overload, platform, pods, signals, starts, trigger
from scaler.checks.facts import Facts
from scaler.checks.verdicts import Check, Finding, Verdict, finding

_SUBJECTS = (objectives, signals, starts, overload, trigger, hpa, platform, pods)
CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (one for subject in _SUBJECTS for one in vars(subject).values() if isinstance(one, Check)),
        key=lambda one: one.code,
    )
)
_WORST_FIRST = tuple(Verdict)


def examine(facts: Facts) -> tuple[Finding, ...]:
    """What every check says of one workload, the worst first, then by code."""
    found = [finding(one, facts) for one in CHECKS]
    return tuple(sorted(found, key=lambda one: (_WORST_FIRST.index(one.verdict), one.code)))


def table() -> str:
    """The checks as a Markdown table."""
    rows = (
        f"| {one.code} | {one.title} | {one.basis} | {one.remedy.replace('|', chr(92) + '|')} | [{_page(one.docs)}]({_link(one.docs)}) |"
        for one in CHECKS
    )
    return "\n".join(("| code | what should be so | known as | remedy | more |", "|---|---|---|---|---|", *rows, ""))


def _page(docs: str) -> str:
    return docs.removeprefix("docs/")


def _link(docs: str) -> str:
    """From the folder docs/."""
    return _page(docs) if docs.startswith("docs/") else f"../{docs}"
