"""A collection of an API server, kept in memory as parsed values: listed in pages, then followed by a watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Generic, TypeVar

from scaler.cluster.api import ApiError, Collections, Event, Expired, Forbidden, Json, Page, Silent, Unreachable
from scaler.cluster.refusals import Request, short
from scaler.cluster.waiting import passed
from scaler.control.ports import Clock

T = TypeVar("T")
SILENT_S = 5.0
"""An open watch is silent for a minute when nothing happens. From calls, of which some are always made, a dead server is known sooner."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When to try again, in seconds: after ``first_s``, then each time twice as late up to ``longest_s``.

    After a refusal that a person must lift: ``denied_s``. Each pause is shortened at random by up to a half. A watch that brought nothing
    and ends within ``first_s`` has failed. One that was open for ``proven_s`` before it broke is the first failure of a row: load balancers
    cut connections in which nothing happens.
    """

    clock: Clock
    rng: Random
    first_s: float = 0.5
    longest_s: float = 30.0
    denied_s: float = 30.0
    proven_s: float = 10.0

    def pause_s(self, error: ApiError, failures: int) -> float:
        """How long to wait after so many failures in a row, of which ``error`` is the last."""
        doubled = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 16))
        most = doubled if isinstance(error, Unreachable | Expired) else self.denied_s
        return most * self.rng.uniform(0.5, 1.0)


class Reflector(Generic[T]):
    """What ``keep`` makes of each object of a collection, by ``namespace/name`` (``name`` where there is no namespace).

    ``keep`` is given an object as the API server sends it (in a list without kind and apiVersion), and gives None for one that does not
    matter. One of which it raises is left out and named in ``faults``. ``changed`` is called after each change of ``items`` or ``listed``.
    What was read stands while the API server cannot be asked: ``contact_at`` tells how old it is.
    """

    def __init__(  # noqa: PLR0913 - what, of which, how, and whom to tell
        self,
        api: Collections,
        path: str,
        keep: Callable[[Json], T | None],
        pace: Pace,
        *,
        selector: str = "",
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is asked yet."""
        self._api, self._path, self._selector = api, path, selector
        self._keep, self._changed, self._pace = keep, changed, pace
        self._items: dict[str, T] = {}
        self._faults: dict[str, str] = {}
        self._version = ""
        self._listed = False
        self._live_since: float | None = None
        self._heard_at = -inf
        self._trouble: ApiError | None = None
        self._trouble_at = 0.0
        self._failures = 0

    @property
    def items(self) -> Mapping[str, T]:
        """The values now. A new list replaces the mapping, a watch changes it: copy what must last."""
        return self._items

    @property
    def faults(self) -> Mapping[str, str]:
        """The objects that ``keep`` could not read, by the same names, and why."""
        return self._faults

    @property
    def unreadable(self) -> str:
        """How many objects could not be read, and the first of them with why; empty while there is none."""
        if not self._faults:
            return ""
        name, why = min(self._faults.items())
        return f"{len(self._faults)} of {self._path} cannot be read, {name} among them: {why}"

    @property
    def listed(self) -> bool:
        """Whether one whole list has been read."""
        return self._listed

    @property
    def contact_at(self) -> float:
        """When ``items`` was last known to be true: now while the watch is open and calls are answered, never before the first list."""
        if self._live_since is None:
            return self._heard_at
        return max(self._heard_at, self._pace.clock() - self._api.unanswered_s)

    @property
    def why(self) -> str:
        """What is wrong, since when, and what to do; empty while nothing is."""
        if self._trouble is None and (silent_s := self._api.unanswered_s) > SILENT_S:
            return f"the API server answers nothing (for {silent_s:.0f} s)"
        if self._trouble is None:
            return "" if self._listed else "not read yet"
        since = self._heard_at if self._listed else self._trouble_at
        return f"{self._trouble} (for {self._pace.clock() - since:.0f} s)"

    async def run(self) -> None:
        """List, watch, and begin anew, for ever."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
            except ApiError as error:
                self._fail(error)
                await passed(self._pace.pause_s(error, self._failures))

    async def _list(self) -> None:
        """All pages, of which the first says the version. They are dropped as they come; what was known stands until the last is read."""
        items: dict[str, T] = {}
        faults: dict[str, str] = {}
        asked_at, token = self._pace.clock(), ""
        first: Page | None = None
        while first is None or token:
            page = await self._api.page(self._path, selector=self._selector, token=token)
            for item in page.items:
                self._sort(item, items, faults)
            first, token = first or page, page.next_token
        self._items, self._faults, self._version = items, faults, first.resource_version
        self._listed, self._heard_at = True, asked_at
        self._changed()

    async def _follow(self) -> None:
        """One watch. One that is over as soon as it is accepted, and told nothing, proves nothing."""
        began_with = self._version
        async for event in self._api.watch(self._path, self._version, selector=self._selector):
            if self._live_since is None:
                self._live_since, self._trouble = self._pace.clock(), None
            self._take(event)
        if self._version == began_with and not self._lasted:
            raise Unreachable(f"cannot {Request('watch', self._path)}: it ends at once")
        self._live_since, self._heard_at, self._failures = None, self._pace.clock(), 0

    @property
    def _lasted(self) -> bool:
        return self._lived_s >= self._pace.first_s

    @property
    def _lived_s(self) -> float:
        """For how long the watch has been open; 0 while none is."""
        return 0.0 if self._live_since is None else self._pace.clock() - self._live_since

    def _take(self, event: Event) -> None:
        """One event, unless it is older than what is known: a deleted object must not come back."""
        version = str(_metadata(event.item).get("resourceVersion", ""))
        if not _newer(version, self._version):
            return
        self._version, self._heard_at, self._failures = version, self._pace.clock(), 0
        name = _name(event.item)
        before = self._items.get(name), self._faults.get(name)
        if event.kind == "DELETED":
            self._items.pop(name, None)
            self._faults.pop(name, None)
        elif event.kind in ("ADDED", "MODIFIED"):
            self._sort(event.item, self._items, self._faults)
        if before != (self._items.get(name), self._faults.get(name)):
            self._changed()

    def _sort(self, item: Json, items: dict[str, T], faults: dict[str, str]) -> None:
        """Put an object where it belongs: among the values, the faults, or nowhere."""
        name, value = _name(item), None
        faults.pop(name, None)
        try:
            value = self._keep(item)
        except Exception as error:  # noqa: BLE001 - somebody else's object: one that nobody foresaw must not hide the others
            faults[name] = short(f"{type(error).__name__}: {error}")
        if value is None:
            items.pop(name, None)
        else:
            items[name] = value

    def _fail(self, error: ApiError) -> None:
        now = self._pace.clock()
        if self._lasted and not isinstance(error, Silent):
            self._heard_at = now  # it broke only now: until then, whatever had changed would have been told
        if self._trouble is None:
            self._trouble_at = now
        self._failures = 1 if self._lived_s >= self._pace.proven_s else self._failures + 1
        self._live_since, self._trouble = None, error
        if not isinstance(error, Unreachable | Forbidden):  # perhaps it is the version that is refused
            self._version = ""


def _metadata(item: Json) -> Json:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _name(item: Json) -> str:
    metadata = _metadata(item)
    name = str(metadata.get("name", ""))
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name


def _newer(version: str, known: str) -> bool:
    """Versions of one collection grow; those that are no numbers (an aggregated API's) only differ."""
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version not in ("", known)
