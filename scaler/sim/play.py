"""A fleet, its clients, a gateway and a law together in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from scaler.core.decision import Decision
from scaler.core.gate import Request as Ticket
from scaler.sim.actuators import Direct
from scaler.sim.agenda import Agenda
from scaler.sim.clients import Refusal, backoff_s, retry_s
from scaler.sim.cluster import Fleet, Life
from scaler.sim.gateways import Gateway
from scaler.sim.laws.ours import Ours
from scaler.sim.stage import Asked, Law, Setting, Stage
from scaler.sim.traffic import Arrival
from scaler.sim.values import Finished, FirstToken, Request

NO_REPLICA, FULL = Refusal(503), Refusal(429)
"""What a gateway says by itself when there is nowhere to send a request, and when the replica for it is full."""


class Attempt(NamedTuple):
    """One attempt of a client; ``tried`` is 0 for the first. ``told_s`` is the wait that was asked of a refused one."""

    at: float
    request_class: str
    tried: int
    admitted: bool
    told_s: float | None = None


@dataclass(slots=True)
class Call:
    """One request of a client over all its attempts; mutable until it is over.

    ``admitted_at`` is when the last attempt entered, and TTFT and TPOT in seconds are of that one. ``gave_up``: its last attempt failed.
    """

    id: int
    arrival: Arrival
    tried: int = 0
    admitted_at: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    finished: bool = False
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Second:
    """What really was in the replicas at one instant, whatever their pages say: ``waiting`` were sent and are in no batch.

    ``existing`` replicas are created and not removed, ``ready`` are those of them that can be sent something.
    """

    at: float
    running: int
    waiting: int
    ready: int
    existing: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """All that happened, each in order of time; ``decisions`` are those of our law, ``replicas`` are all that ever were."""

    calls: list[Call] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    replicas: list[Life] = field(default_factory=list)


class _Patience:
    """Who is given up when: one queue for each time-out, so that only the first of each must be watched. Mutable, one owner."""

    def __init__(self, agenda: Agenda, give_up: Callable[[Call, float], None]) -> None:
        self._agenda = agenda
        self._give_up = give_up
        self._queues: dict[float, deque[tuple[float, Call, int]]] = {}

    def watch(self, call: Call, now: float) -> None:
        """It was admitted now."""
        timeout_s = call.arrival.sdk.timeout_s
        queue = self._queues.get(timeout_s)
        if queue is None:
            queue = self._queues[timeout_s] = deque()
        if not queue:
            self._agenda.at(now + timeout_s, partial(self._look, queue))
        queue.append((now + timeout_s, call, call.tried))

    def _look(self, queue: deque[tuple[float, Call, int]], now: float) -> None:
        while queue:
            due, call, tried = queue[0]
            if not call.finished and call.tried == tried:
                if due > now:
                    self._agenda.at(due, partial(self._look, queue))
                    return
                self._give_up(call, now)
            queue.popleft()


class Play:
    """Mutable, one owner; runs once."""

    def __init__(self, setting: Setting, gateway: Gateway, law: Law | None = None) -> None:
        """Everything stands ready at 0. Without a law it is ours, and the fleet follows it as the setting says."""
        self._law = law or Ours(follows=None if setting.resize_s is None else Direct(setting.resize_s))
        self._agenda = Agenda()
        self._fleet = Fleet(setting.platform, setting.seed)
        self._stage = Stage(setting, self._agenda, self._fleet, gateway)
        self._gateway = gateway
        self._dice = self._stage.dice("clients")
        self._patience = _Patience(self._agenda, self._time_out)
        self._tickets: dict[tuple[int, str, int], Ticket] = {}
        self._run = Run(decisions=self._stage.decisions, asked=self._stage.asked)

    def until(self, end: float, arrivals: Iterable[Arrival]) -> Run:
        """What happens until ``end`` when clients want this, in order of time."""
        coming, agenda = tuple(arrivals), self._agenda
        self._asking = self._law.start(replace(self._stage, arrivals=coming))
        if self._law.follows is not None:
            self._law.follows.start(self._stage, self._asking)
        agenda.every(1.0, 1.0, self._count)
        for arrival in coming:
            if arrival.at > end:
                break
            agenda.run(arrival.at)
            call = Call(len(self._run.calls), arrival)
            self._run.calls.append(call)
            self._attempt(call, arrival.at)
        agenda.run(end)
        self._note(end)
        self._run.replicas.extend(self._fleet.lives())
        return self._run

    def _attempt(self, call: Call, now: float) -> None:
        arrival = call.arrival
        refused = self._gateway.ask(self._ticket(call), now)
        if self._gateway.nudges():
            self._asking.nudge(now)
        if refused is None and not self._fleet.send(
            Request(call.id, now, arrival.prompt_tokens, arrival.output_tokens), now
        ):
            refused = FULL if self._fleet.ready(now) else NO_REPLICA
        if refused is None:
            self._run.attempts.append(Attempt(now, arrival.request_class, call.tried, True))  # noqa: FBT003 - by position: in haste
            call.admitted_at = now
            self._patience.watch(call, now)
            return
        self._run.attempts.append(
            Attempt(now, arrival.request_class, call.tried, admitted=False, told_s=refused.wait_s)
        )
        self._try_again(call, now, retry_s(arrival.sdk, refused, call.tried, self._dice.random()))

    def _ticket(self, call: Call) -> Ticket:
        """What a gate is told. There are few different ones, and a gate may keep them: they are frozen."""
        sdk = call.arrival.sdk
        key = (id(sdk), call.arrival.request_class, call.tried)
        ticket = self._tickets.get(key)
        if ticket is None:
            announced = (None, sdk.timeout_s, call.tried) if sdk.announces else ()
            ticket = self._tickets[key] = Ticket(call.arrival.request_class, *announced)
        return ticket

    def _try_again(self, call: Call, now: float, wait_s: float | None) -> None:
        if wait_s is None:
            call.gave_up = True
            return
        call.tried += 1
        self._agenda.at(now + wait_s, partial(self._attempt, call))

    def _time_out(self, call: Call, now: float) -> None:
        self._note(now)
        if call.finished:
            return
        self._fleet.cancel(call.id, now)
        call.ttft_s = None
        self._try_again(call, now, backoff_s(call.arrival.sdk, call.tried, self._dice.random()))

    def _note(self, now: float) -> None:
        """Take down what the engines did until now."""
        calls = self._run.calls
        for event in self._fleet.advance(now):
            if type(event) is FirstToken:
                calls[int(event.id)].ttft_s = event.ttft_s
            elif type(event) is Finished:
                call = calls[int(event.id)]
                call.tpot_s, call.finished = event.tpot_s, True

    def _count(self, now: float) -> None:
        running, waiting = self._fleet.in_engines(now)
        self._note(now)
        self._run.seconds.append(Second(now, running, waiting, self._fleet.ready(now), self._fleet.existing))
