"""The reflector over an API server that plays a script, in virtual time: how often it asks, and what it makes of strange answers."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from scaler.cluster.api import ApiError, Event, Expired, Forbidden, NotFound, Page, Unreachable
from scaler.cluster.reflector import Pace, Reflector
from tests.support.kubernetes_objects import Json
from tests.support.parts import passing

pytestmark = pytest.mark.looptime
HOUR_S = 3600.0


def pod(name: str, version: object, uid: str = "1") -> Json:
    return {"metadata": {"namespace": "prod", "name": name, "uid": uid, "resourceVersion": str(version)}}


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Script:
    """The list, and what comes of each watch: events, then an error or a good end; None is no watch. The last repeats."""

    page_of: Callable[[], Page] = lambda: Page((), "10")
    watches: list[tuple[Iterable[Event] | None, ApiError | None]] = field(default_factory=list)
    takes_s: float = 0.0
    lasts_s: float = 0.0
    lists_at: list[float] = field(default_factory=list)
    watches_at: list[float] = field(default_factory=list)
    unanswered_s: float = 0.0

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        self.lists_at.append(now())
        await passing(self.takes_s)
        return self.page_of()

    async def watch(self, path: str, version: str, *, selector: str = "") -> AsyncIterator[Event]:
        self.watches_at.append(now())
        events, error = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        for event in () if events is None else (Event("BOOKMARK", pod("", version)), *events):
            yield event
        await passing(self.lasts_s)
        if error is not None:
            raise error


async def reflected(script: Script, for_s: float = HOUR_S) -> Reflector[Json]:
    """What is known after some time."""
    reflector = Reflector(script, "/api/v1/pods", lambda item: item, Pace(now, random.Random(7)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(for_s):
            await reflector.run()
    return reflector


def refusing(error: ApiError) -> Callable[[], Page]:
    def page() -> Page:
        raise error

    return page


@pytest.mark.parametrize(
    ("error", "longest_s", "times"),
    [
        (Unreachable("down"), 30.0, range(120, 250)),
        (Forbidden("no"), 30.0, range(120, 245)),
        (NotFound("no such kind"), 30.0, range(120, 245)),
    ],
)
async def test_an_hour_of_refusals_is_some_two_hundred_questions(error, longest_s, times):
    script = Script(refusing(error))
    reflector = await reflected(script)
    gaps = [later - earlier for earlier, later in pairwise(script.lists_at)]
    assert len(script.lists_at) in times
    assert max(gaps) <= longest_s
    assert len(set(gaps)) == len(gaps)
    assert reflector.why == f"{error} (for 3600 s)"


@pytest.mark.parametrize("error", [Unreachable("down"), Expired("too old")], ids=["down", "expired"])
async def test_the_first_tries_after_a_failure_come_soon(error):
    script = Script(refusing(error))
    await reflected(script, 4.0)
    assert 3 <= len(script.lists_at) <= 5


@pytest.mark.parametrize(
    ("error", "lists"),
    [
        pytest.param(Expired("too old"), 2, id="too old"),
        pytest.param(ApiError("HTTP 400: invalid resource version"), 2, id="none of this server's"),
        pytest.param(Unreachable("down"), 1, id="down"),
        pytest.param(Forbidden("no"), 1, id="forbidden"),
    ],
)
async def test_a_version_that_may_be_at_fault_is_given_up_and_any_other_kept(error, lists):
    script = Script(watches=[(None, error), ((), None)], lasts_s=1.0)
    await reflected(script, 60.0)
    assert len(script.lists_at) == lists


async def test_a_list_is_as_old_as_its_first_page():
    script = Script(watches=[(None, Forbidden("no"))], takes_s=20.0)
    assert (await reflected(script, 21.0)).contact_at == 0.0


@pytest.mark.parametrize("error", [None, Unreachable("cut"), Expired("too old")], ids=["ended", "cut", "expired"])
async def test_a_server_that_takes_every_watch_and_drops_it_is_not_overrun(error):
    script = Script(watches=[((), error)])
    await reflected(script)
    assert len(script.watches_at) < 250


@pytest.mark.parametrize(
    ("lasts_s", "times"),
    [
        pytest.param(1.0, range(100, 250), id="a server in trouble is left alone"),
        pytest.param(
            20.0, range(172, 180), id="behind a load balancer that cuts idle connections nothing is missed for long"
        ),
    ],
)
async def test_a_quiet_watch_that_was_open_for_a_while_before_it_is_cut_is_opened_again_soon(lasts_s, times):
    script = Script(watches=[((), Unreachable("cut"))], lasts_s=lasts_s)
    await reflected(script)
    assert len(script.watches_at) in times


@pytest.mark.parametrize("error", [None, Unreachable("cut")], ids=["ended", "cut"])
async def test_a_watch_that_is_dropped_as_soon_as_it_is_taken_proves_nothing(error):
    reflector = await reflected(Script(watches=[((), error)]))
    words = "cut" if error else "cannot watch pods in the whole cluster: it ends at once"
    assert (reflector.contact_at, reflector.why) == (0.0, f"{words} (for 3600 s)")


async def test_an_older_event_brings_back_no_deleted_object():
    script = Script(
        lambda: Page((pod("a", 5), pod("b", 6)), "10"),
        [
            (
                [Event("DELETED", pod("a", 11)), Event("MODIFIED", pod("a", 8)), Event("MODIFIED", pod("b", 12))],
                Unreachable("cut"),
            ),
            ([Event("MODIFIED", pod("a", 9)), Event("DELETED", pod("b", 12))], None),
        ],
    )
    assert dict((await reflected(script)).items) == {"prod/b": pod("b", 12)}


async def test_an_object_that_comes_again_under_its_name_is_there():
    events = [Event("DELETED", pod("a", 11)), Event("ADDED", pod("a", 12, uid="2"))]
    script = Script(lambda: Page((pod("a", 5),), "10"), [(events, None), ((), None)])
    assert dict((await reflected(script)).items) == {"prod/a": pod("a", 12, uid="2")}


async def test_versions_that_are_no_numbers_are_taken_as_they_come():
    events = [Event("ADDED", pod("a", "x-2")), Event("MODIFIED", pod("a", "x-10")), Event("ADDED", pod("b", "x-3"))]
    script = Script(lambda: Page((), "x-1"), [(events, None), ((), None)])
    assert dict((await reflected(script)).items) == {"prod/a": pod("a", "x-10"), "prod/b": pod("b", "x-3")}


async def test_what_is_no_object_changes_nothing():
    strange = [
        Event("ADDED", {}),
        Event("DELETED", {"metadata": None}),
        Event("MODIFIED", {"metadata": [1]}),
        Event("NEW", pod("a", 11)),
    ]
    script = Script(lambda: Page((pod("a", 5),), "10"), [(strange, None), ((), None)])
    assert dict((await reflected(script)).items) == {"prod/a": pod("a", 5)}


@pytest.mark.fault("API server falls silent")
@pytest.mark.parametrize(
    ("unanswered_s", "contact_at", "why"),
    [
        pytest.param(0.0, 30.0, "", id="answers"),
        pytest.param(2.0, 28.0, "", id="is slow"),
        pytest.param(20.0, 10.0, "the API server answers nothing (for 20 s)", id="silent"),
    ],
)
async def test_an_open_watch_is_in_contact_only_as_long_as_calls_are_answered(unanswered_s, contact_at, why):
    script = Script(watches=[((), None)], lasts_s=60.0, unanswered_s=unanswered_s)
    reflector = await reflected(script, 30.0)
    assert (reflector.contact_at, reflector.why) == (contact_at, why)
