"""Label selectors: parse what a scale subresource says, match labels, and join several into one that the API server can apply."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

IN, NOT_IN, EXISTS, ABSENT = "in", "notin", "exists", "!"
_COMMA = re.compile(r",(?![^()]*\))")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!<>(),]+)\s*(==|=|!=)\s*([^\s=!<>(),]*)")
_NAME = re.compile(r"(!?)\s*([^\s=!<>(),]+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. ``operator`` is in, notin, exists or !; ``values`` is empty for the last two."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes does: a label that is absent is in no set, and satisfies ``notin``."""
        value = labels.get(self.key)
        if self.operator == IN:
            return value in self.values
        if self.operator == NOT_IN:
            return value not in self.values
        return (value is not None) == (self.operator == EXISTS)

    def __str__(self) -> str:
        """As the API server reads it."""
        if self.operator in {EXISTS, ABSENT}:
            return ("!" if self.operator == ABSENT else "") + self.key
        values = sorted(self.values)
        if self.operator == IN and len(values) == 1:
            return f"{self.key}={values[0]}"
        return f"{self.key} {self.operator} ({','.join(values)})"


@dataclass(frozen=True, slots=True)
class Selector:
    """All of some requirements."""

    requirements: frozenset[Requirement]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def requiring(self, key: str, value: str) -> Selector:
        """The same, and that a label has a value, unless that label is spoken of already."""
        if any(requirement.key == key for requirement in self.requirements):
            return self
        return Selector(self.requirements | {Requirement(key, IN, frozenset({value}))})

    def __str__(self) -> str:
        """As the API server reads it."""
        return ",".join(sorted(str(requirement) for requirement in self.requirements))


def selector_of(text: str) -> Selector:
    """What a selector's text says. Raises ValueError for an empty one, which would match everybody's pods, and for another language."""
    return Selector(frozenset(_requirement(part.strip()) for part in _COMMA.split(text)))


def joined(selectors: Collection[Selector]) -> str:
    """One selector that lets through all that any of these does, as narrow as the API server's language allows; empty: everything.

    Selectors that differ in the values of one label only become one with the union of the values. Others have nothing in common
    that could be asked for: who reads the answer must then drop what matches none of them.
    """
    if len(selectors) == 1:
        return str(next(iter(selectors)))
    shared = frozenset.intersection(*(selector.requirements for selector in selectors))
    own = [selector.requirements - shared for selector in selectors]
    if any(len(requirements) != 1 for requirements in own):
        return str(Selector(shared))
    differing = [next(iter(requirements)) for requirements in own]
    if len({requirement.key for requirement in differing}) > 1 or any(r.operator != IN for r in differing):
        return str(Selector(shared))
    values = frozenset.union(*(requirement.values for requirement in differing))
    return str(Selector(shared | {Requirement(differing[0].key, IN, values)}))


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        key, operator, values = found.groups()
        return Requirement(key, operator, frozenset(value.strip() for value in values.split(",")))
    if found := _EQUAL.fullmatch(part):
        key, operator, value = found.groups()
        return Requirement(key, NOT_IN if operator == "!=" else IN, frozenset({value}))
    if found := _NAME.fullmatch(part):
        return Requirement(found[2], ABSENT if found[1] else EXISTS)
    raise ValueError(f"not understood as a label selector: {part!r}")
