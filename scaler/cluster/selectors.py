"""Label selectors: parse what a scale subresource says, match labels, and join several into one that the API server can apply."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

IN, NOT_IN, EXISTS, ABSENT = "in", "notin", "exists", "!"
LONGEST_TEXT = 4096
"""Characters of a selector, asked or told: it is part of a URL, and what lies between may refuse a line above 8 KiB."""
_PART = re.compile(r"(?:\([^()]*\)|[^,])*")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!<>(),]+)\s*(==|=|!=)\s*([^\s=!<>(),]*)")
_NAME = re.compile(r"(!?)\s*([^\s=!<>(),]+)")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
"""What the API server takes. One selector that it refuses would keep all that are asked for with it from being answered."""


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


class Index:
    """Finds which of many selectors fit, without trying each: a selector is filed under the label that it shares with the fewest."""

    def __init__(self, selectors: Collection[Selector]) -> None:
        """The selectors do not change any more."""
        self._by_label: defaultdict[tuple[str, str], list[Selector]] = defaultdict(list)
        self._unfiled: list[Selector] = []
        required = {selector: [one for one in selector.requirements if one.operator == IN] for selector in selectors}
        shared_by = Counter(requirement for needed in required.values() for requirement in needed)
        for selector, needed in required.items():
            if not needed:
                self._unfiled.append(selector)
                continue
            rarest = min(needed, key=lambda one: (shared_by[one], str(one)))
            for value in rarest.values:
                self._by_label[rarest.key, value].append(selector)

    def fitting(self, labels: Mapping[str, str]) -> frozenset[Selector]:
        """The selectors that these labels satisfy."""
        filed = (selector for label in labels.items() for selector in self._by_label.get(label, ()))
        return frozenset(selector for selector in (*filed, *self._unfiled) if selector.matches(labels))


def selector_of(text: str) -> Selector:
    """What a selector's text says. Raises ValueError for an empty one, which would match everybody's pods, and for another language."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"not understood as a label selector: of {len(text)} characters")
    return Selector(frozenset(_requirement(part.strip()) for part in _parts(text)))


def joined(selectors: Collection[Selector]) -> str:
    """One selector that lets through all that any of these does, as narrow as the API server's language allows; empty: everything.

    Selectors that differ in the values of one label only become one with the union of the values, while that is short enough to be
    asked. Others have nothing in common that could be asked for: who reads the answer must then drop what matches none of them.
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
    whole = str(Selector(shared | {Requirement(differing[0].key, IN, values)}))
    return whole if len(whole) <= LONGEST_TEXT else str(Selector(shared))


def _parts(text: str) -> Iterator[str]:
    """Split at the commas outside of parentheses, in time proportional to the text: whoever scales may have written it."""
    end = -1
    while end < len(text) and (found := _PART.match(text, end + 1)):
        end = found.end()
        yield found[0]


def _requirement(part: str) -> Requirement:
    read = _read(part)
    if not (_KEY.fullmatch(read.key) and all(map(_VALUE.fullmatch, read.values))):
        raise ValueError(f"not understood as a label selector: {part!r}")
    return read


def _read(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        key, operator, values = found.groups()
        return Requirement(key, operator, frozenset(value.strip() for value in values.split(",")))
    if found := _EQUAL.fullmatch(part):
        key, operator, value = found.groups()
        return Requirement(key, NOT_IN if operator == "!=" else IN, frozenset({value}))
    if found := _NAME.fullmatch(part):
        return Requirement(found[2], ABSENT if found[1] else EXISTS)
    raise ValueError(f"not understood as a label selector: {part!r}")
