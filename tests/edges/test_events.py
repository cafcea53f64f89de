"""Events through the real client to the stand-in for the API server: how many, by whom, and what when they are refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from scaler.app.opened import background
from scaler.cluster.client import Client
from scaler.cluster.events import Events, Pace, Speaker
from scaler.control.board import Board
from scaler.core.decision import Finding
from scaler.core.model import Pressure, WorkloadKey
from tests.support.cluster_objects import WALL
from tests.support.decisions import KEY, green
from tests.support.discovery import QUICK
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Place

GREEN = green()
RED = replace(GREEN, state=Pressure.RED)
MISTRAL = WorkloadKey("prod", "mistral")
PACE = Pace(repeat_s=60.0, between_s=0.0, same_s=600.0, refused_s=0.05)


@dataclass
class Story:
    """A board, the Events of it, and what the API server has. Its clocks move when a test says so."""

    api: KubernetesApi
    now: float = 1000.0
    leads: bool = True
    uids: dict[WorkloadKey, str] = field(default_factory=lambda: {KEY: "uid-llama", MISTRAL: "uid-mistral"})
    complaints: list[str] = field(default_factory=list)
    board: Board = field(default_factory=Board)

    def speaker(self, client: Client) -> Speaker:
        return Speaker(
            api=client,
            pod="scaler-0",
            clock=lambda: self.now,
            wall=lambda: WALL + self.now - 1000.0,
            leads=lambda: self.leads,
            uid_of=self.uids.get,
            unannounced=self.complaints.append,
            rng=Random(1),
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        place = Place.of("/api/v1/namespaces/prod/events", self.api.resources)
        return list(self.api.page(place, {})["items"])

    @property
    def told(self) -> list[tuple[str, str, int]]:
        return sorted((item["reason"], item["type"], item["count"]) for item in self.events)


@asynccontextmanager
async def story(pace: Pace = PACE) -> AsyncIterator[Story]:
    async with kubernetes() as api:
        client = Client.at(api.url, Random(1), QUICK)
        told = Story(api)
        try:
            events = Events(told.board, told.speaker(client), pace)
            told.board.follow(events.heard)
            async with background(events.run()):
                yield told
        finally:
            await client.aclose()


async def test_an_event_stands_beside_the_scaled_object():
    async with story() as told:
        told.board.publish(GREEN)
        told.board.publish(replace(GREEN, desired=9))
        await told.api.until(lambda: told.events)

        event = told.events[0]
        assert {name: event[name] for name in ("involvedObject", "reason", "type", "count", "firstTimestamp")} == {
            "involvedObject": {
                "apiVersion": "keda.sh/v1alpha1",
                "kind": "ScaledObject",
                "name": "llama",
                "namespace": "prod",
                "uid": "uid-llama",
            },
            "reason": "Scaled",
            "type": "Normal",
            "count": 1,
            "firstTimestamp": "2026-09-21T14:13:20Z",
        }


async def test_what_flaps_is_one_event_that_counts_and_is_written_once_a_minute():
    async with story() as told:
        told.board.publish(GREEN)
        told.board.publish(RED)
        await told.api.until(lambda: told.told == [("PressureRed", "Warning", 1)])
        for _ in range(20):
            told.board.publish(GREEN)
            told.board.publish(RED)
        await told.api.until(lambda: len(told.events) == 2)
        assert told.told == [("PressureEased", "Normal", 20), ("PressureRed", "Warning", 1)]

        told.now += 61.0
        told.board.publish(GREEN)
        await told.api.until(lambda: told.told == [("PressureEased", "Normal", 21), ("PressureRed", "Warning", 21)])
        assert (told.api.count("create", "events"), told.api.count("patch", "events")) == (2, 2)


async def test_after_ten_minutes_it_is_another_event():
    async with story() as told:
        told.board.publish(GREEN)
        told.board.publish(RED)
        await told.api.until(lambda: told.events)
        told.now += 601.0
        told.board.publish(GREEN)
        told.board.publish(RED)

        await told.api.until(lambda: len(told.events) == 3)
        assert told.told == [
            ("PressureEased", "Normal", 1),
            ("PressureRed", "Warning", 1),
            ("PressureRed", "Warning", 1),
        ]


async def test_one_that_the_cluster_forgot_is_made_anew():
    async with story() as told:
        told.board.publish(GREEN)
        told.board.publish(RED)
        await told.api.until(lambda: told.events)
        told.api.delete(f"/api/v1/namespaces/prod/events/{told.events[0]['metadata']['name']}")
        told.now += 61.0
        told.board.publish(GREEN)
        told.board.publish(RED)

        await told.api.until(lambda: len(told.events) == 2)
        assert told.told == [("PressureEased", "Normal", 1), ("PressureRed", "Warning", 1)]


async def test_a_pod_that_does_not_lead_writes_none_and_begins_where_the_workload_is():
    async with story() as told:
        told.leads = False
        told.board.publish(GREEN)
        told.board.publish(RED)
        told.leads = True
        told.board.publish(replace(RED, findings=(Finding("stuck", "one"),)))

        await told.api.until(lambda: told.events)
        assert told.told == [("ReplicaStuck", "Warning", 1)]


async def test_a_missing_permission_is_said_once_and_nothing_is_lost_when_it_is_granted():
    async with story() as told:
        told.api.forbid("create", "events")
        told.board.publish(GREEN)
        told.board.publish(RED)
        await told.api.until(lambda: told.api.count("create", "events") >= 3)
        assert len(told.complaints) == 1
        assert "may not create events in namespace prod" in told.complaints[0]

        told.api.allow("create", "events")
        await told.api.until(lambda: told.told == [("PressureRed", "Warning", 1)])


async def test_a_workload_without_a_scaled_object_has_no_events():
    async with story() as told:
        del told.uids[KEY]
        told.board.publish(GREEN)
        told.board.publish(RED)
        told.board.publish(replace(RED, key=MISTRAL))

        await told.api.until(lambda: told.events)
        assert [event["involvedObject"]["name"] for event in told.events] == ["mistral"]


async def test_a_workload_that_is_gone_is_not_spoken_of():
    async with story() as told:
        told.api.forbid("create", "events")
        told.board.publish(GREEN)
        told.board.publish(RED)
        await told.api.until(lambda: told.complaints)
        told.board.drop(KEY)
        told.api.allow("create", "events")
        told.board.publish(replace(RED, key=MISTRAL))

        await told.api.until(lambda: told.events)
        assert [event["involvedObject"]["name"] for event in told.events] == ["mistral"]
