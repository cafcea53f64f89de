"""The pods of one namespace that some selectors choose: one list and one watch for all of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scaler.cluster.api import Api, Json
from scaler.cluster.fields import strings
from scaler.cluster.pods import Pod, pod_of
from scaler.cluster.reflector import Pace, Reflector
from scaler.cluster.selectors import Index, Selector, joined


@dataclass(frozen=True, slots=True)
class Kept:
    """A pod, and which of the selectors that were looked for it fits."""

    pod: Pod
    fits: frozenset[Selector]


class PodWatch:
    """Owned by its namespace. Pods that fit no selector are dropped at arrival."""

    def __init__(
        self, api: Api, pace: Pace, namespace: str, selectors: frozenset[Selector], told: asyncio.Event
    ) -> None:
        """``told`` is set after each change."""
        self.selectors = selectors
        self._told = told
        self._groups: Mapping[Selector, list[Pod]] | None = None
        self.reflector: Reflector[Kept] = Reflector(
            api,
            f"/api/v1/namespaces/{namespace}/pods",
            _keeping(selectors),
            pace,
            selector=joined(selectors),
            changed=self._change,
        )

    def pods(self, selector: Selector) -> tuple[Pod, ...]:
        """The pods that fit one of the selectors. Sorted out once after each change, for all workloads."""
        if self._groups is None:
            groups: defaultdict[Selector, list[Pod]] = defaultdict(list)
            for kept in self.reflector.items.values():
                for fitting in kept.fits:
                    groups[fitting].append(kept.pod)
            self._groups = groups
        return tuple(self._groups.get(selector, ()))

    def _change(self) -> None:
        self._groups = None
        self._told.set()


class PodWatches:
    """The watch that answers, and the one that will once it has listed: so a selector that joins never empties the others' fleets."""

    def __init__(self, make: Callable[[frozenset[Selector]], PodWatch]) -> None:
        """No pods are looked for yet."""
        self._make = make
        self._now: tuple[PodWatch, asyncio.Task[None]] | None = None
        self._next: tuple[PodWatch, asyncio.Task[None]] | None = None

    def covering(self, selector: Selector) -> PodWatch | None:
        """The watch that knows the pods of a selector; None while there is none."""
        return self._now[0] if self._now is not None and selector in self._now[0].selectors else None

    @property
    def why(self) -> str:
        """What keeps the newest list from being read; empty while nothing is known to."""
        newest = self._next or self._now
        return "" if newest is None else newest[0].reflector.why

    def switch(self) -> None:
        """Let the next watch answer, if it has listed."""
        if self._next is not None and self._next[0].reflector.listed:
            _stop(self._now)
            self._now, self._next = self._next, None

    def cover(self, wanted: frozenset[Selector], group: asyncio.TaskGroup) -> None:
        """See to it that all of these are looked for, by one watch. What is looked for in vain costs little, and goes with the next.

        A list that is under way is not begun anew for what joins meanwhile, or with something new each second none would end.
        """
        if self._next is not None or not wanted or (self._now is not None and wanted <= self._now[0].selectors):
            return
        watch = self._make(wanted)
        self._next = watch, group.create_task(watch.reflector.run(), name="pods")


def _stop(watched: tuple[PodWatch, asyncio.Task[None]] | None) -> None:
    if watched is not None:
        watched[1].cancel()


def _keeping(selectors: frozenset[Selector]) -> Callable[[Json], Kept | None]:
    index = Index(selectors)

    def keep(item: Json) -> Kept | None:
        fits = index.fitting(strings(item, "metadata", "labels"))
        return Kept(pod_of(item), fits) if fits else None

    return keep
