"""What a gate counted: how many requests asked for each class, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClassCounted:
    """One class. Every attempt is admitted or refused; ``_retries`` are those among them whose clients said that they try again.

    ``would_refuse`` are attempts that were admitted because the gate only observes.
    """

    name: str
    admitted: int = 0
    admitted_retries: int = 0
    refused: int = 0
    refused_retries: int = 0
    would_refuse: int = 0

    @property
    def attempts(self) -> int:
        """All that asked."""
        return self.admitted + self.refused

    @property
    def refused_first(self) -> int:
        """Demand that no engine saw: what is tried again is not new."""
        return self.refused - self.refused_retries

    @property
    def offered(self) -> int:
        """New demand: first attempts, admitted or not."""
        return self.attempts - self.admitted_retries - self.refused_retries

    def since(self, before: ClassCounted) -> ClassCounted:
        """What was counted after ``before``."""
        return ClassCounted(
            self.name,
            self.admitted - before.admitted,
            self.admitted_retries - before.admitted_retries,
            self.refused - before.refused,
            self.refused_retries - before.refused_retries,
            self.would_refuse - before.would_refuse,
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """One workload, in the order of its classes. ``wanted`` is how many requests wait now for a first replica, refused until then."""

    classes: tuple[ClassCounted, ...] = ()
    wanted: int = 0

    def since(self, before: Counted) -> Counted:
        """What was counted after ``before``; ``wanted`` is that of now."""
        earlier = {one.name: one for one in before.classes}
        classes = tuple(one.since(earlier.get(one.name, ClassCounted(one.name))) for one in self.classes)
        return Counted(classes, self.wanted)
