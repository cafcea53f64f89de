"""What leading entails: the label by which KEDA's Service finds the pod that answers it, and whatever else the holder takes over.

Every pod computes; the label alone says whom KEDA asks. The holder labels itself first and unlabels others second, so the Service is
never without a pod. Whoever stops leading keeps its label until the next holder takes it: while the API server is away nobody could
move it anyway, and an answer from the last holder is better than none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from scaler.cluster.api import Api, ApiError, Json, NotFound
from scaler.cluster.lease import Elector, Member
from scaler.cluster.waiting import happened, passed

OURS = "app.kubernetes.io/name=slo-scaler"
ACTIVE = "slo-scaler/active"


class Unready(ApiError):
    """KEDA must not be led to this pod yet. The text names the one that it is led to meanwhile."""


class ActiveLabel:
    """The label ``slo-scaler/active`` on the pods of one namespace."""

    def __init__(self, api: Api, member: Member) -> None:
        """``member`` is the pod that this process runs in."""
        self._api, self._me = api, member.pod
        self._pods = f"/api/v1/namespaces/{member.namespace}/pods"

    async def claim(self) -> None:
        """Make this pod the only one with the label. Raises ApiError.

        A pod that is not Ready leaves the label with one that is, and raises Unready: no Service leads to it yet.
        """
        pods = await self._list(OURS)
        labelled = {_name(pod) for pod in pods if _is_active(pod)}
        serving = sorted(_name(pod) for pod in pods if _is_active(pod) and _is_ready(pod))
        if serving and any(_name(pod) == self._me and not _is_ready(pod) for pod in pods):
            raise Unready(f"{self._me} is not Ready yet, and {serving[0]} is")
        if self._me not in labelled:
            await self._label(self._me, "true")
        for other in sorted(labelled - {self._me}):
            with suppress(NotFound):
                await self._label(other, None)

    async def handed_over(self) -> bool:
        """Whether another pod has taken the label, or there is no other that could. Raises ApiError."""
        pods = await self._list(OURS)
        mine = [pod for pod in pods if _name(pod) == self._me and _is_active(pod)]
        return not mine or not any(_name(pod) != self._me and _can_serve(pod) for pod in pods)

    async def _list(self, selector: str) -> tuple[Json, ...]:
        # One page holds hundreds of pods, and this is a handful.
        return (await self._api.page(self._pods, selector=selector)).items

    async def _label(self, pod: str, value: str | None) -> None:
        await self._api.patch(f"{self._pods}/{pod}", {"metadata": {"labels": {ACTIVE: value}}})


@dataclass(frozen=True, slots=True)
class Duties:
    """What a process does when it begins to lead, and whom it tells.

    ``adopt`` is tried again until it has ended without an ApiError once a term. ``told`` hears whether this process leads, and what is
    wrong (empty: nothing), each time one of the two changes; it must not block.
    """

    adopt: Callable[[], Awaitable[object]]
    told: Callable[[bool, str], None]


class Leadership:
    """Takes part in the election and does what leading entails while ``run`` runs."""

    def __init__(self, elector: Elector, label: ActiveLabel, duties: Duties) -> None:
        """Nothing is done before ``run``."""
        self._elector, self._label, self._duties, self._timings = elector, label, duties, elector.timings
        self._adopted_term, self._fault, self._last_told = 0, "", (False, False)

    def leads(self) -> bool:
        """Whether this process may act as the one that leads, now."""
        return self._elector.leads()

    @property
    def why(self) -> str:
        """What is wrong, and what that means; empty when nothing is."""
        if self._elector.why:
            means = "KEDA goes on asking the pod that it asked last, and every pod goes on computing"
            return f"nobody can be elected: {self._elector.why}; {means}"
        return self._fault

    async def run(self) -> None:
        """Until cancelled. To start it before the process answers KEDA would attract calls that fail."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._elector.run())
            tasks.create_task(self._serve())

    async def stop(self) -> None:
        """Let another pod take over, and return once every node leads callers there. Answer KEDA and gateways until then.

        Also a pod that does not lead is found by new connections for a while after it began to stop.
        """
        with suppress(TimeoutError, ApiError):
            async with asyncio.timeout(self._timings.hand_over_s):
                await self._elector.release()
                while not await self._label.handed_over():
                    await passed(self._timings.retry_s / 4)
        await passed(self._timings.settle_s)

    async def _serve(self) -> None:
        while True:
            self._elector.changed.clear()
            self._fault = await self._act() if self.leads() else ""
            self._tell()
            await happened(self._elector.changed, self._timings.retry_s if self._fault else self._timings.recheck_s)

    async def _act(self) -> str:
        """Take over, then claim the label, each whether the other works or not. What is wrong.

        In this order, or KEDA would be led to a number that does not know yet what it was told last.
        """
        term, not_adopted, unlabelled = self._elector.term(), "", ""
        if term != self._adopted_term:
            not_adopted = await self._tried(self._duties.adopt, "cannot take over what was stored")
            if not not_adopted:
                self._adopted_term = term
        if self.leads():
            unlabelled = await self._tried(self._label.claim, f"cannot look after the label {ACTIVE}")
        return unlabelled or not_adopted

    async def _tried(self, work: Callable[[], Awaitable[object]], failing: str) -> str:
        """Bounded like a renewal: what begins while this process leads is over before another can."""
        try:
            async with asyncio.timeout(self._timings.renew_s):
                await work()
        except ApiError as error:
            return f"{failing}: {error}"
        except TimeoutError:
            return f"{failing}: the API server did not answer within {self._timings.renew_s:g} s"
        return ""

    def _tell(self) -> None:
        news = self.leads(), bool(self.why)
        if news != self._last_told:
            self._last_told = news
            self._duties.told(self.leads(), self.why)


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _is_active(pod: Json) -> bool:
    return (pod["metadata"].get("labels") or {}).get(ACTIVE) == "true"


def _can_serve(pod: Json) -> bool:
    return _is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
