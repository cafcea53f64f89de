"""A chaos run: faults at random while there is traffic, and what was seen of it."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import grpc.aio

from scaler.api.keda_client import ScaledObject
from scaler.demo import scenario as numbers
from scaler.demo.keda import Keda, Rhythm
from scaler.demo.scenario import KEY, Arrival
from scaler.demo.traffic import Traffic
from tests.support.chaos_checks import Log
from tests.support.chaos_faults import chaos
from tests.support.chaos_world import TRIGGER, AuditedClient, world

LONGEST_RECONNECT_MS = 5000
"""gRPC's own pause doubles up to two minutes, in which nothing could be seen."""
CALM_S = 70.0
"""How long nothing fails any more at the end: by then all is well again."""
STEP_S, RATES_PER_S = 20.0, (1.0, 2.5, 5.0, 8.0, 14.0)


def arrivals(rng: random.Random, lasts_s: float) -> tuple[Arrival, ...]:
    """Poisson, at a rate that steps between calm and a burst that is more than the largest fleet can do; calm at the end."""
    found, at_s, highest = [], 0.0, max(RATES_PER_S)
    rates = [rng.choice(RATES_PER_S) for _ in range(int(lasts_s / STEP_S) + 1)]
    while (at_s := at_s + rng.expovariate(highest)) < lasts_s:
        rate = numbers.CALM_PER_S if at_s > lasts_s - CALM_S else rates[int(at_s / STEP_S)]
        if rng.random() * highest < rate:
            found.append(Arrival(at_s, rng.randint(100, 300), rng.randint(60, 140)))
    return tuple(found)


async def play(seed: int, minutes: float, folder: Path) -> Log:
    """One run. What was seen; what the scaler logged is in ``folder``."""
    async with (
        world(seed, folder) as here,
        grpc.aio.insecure_channel(
            here.keda.address, options=[("grpc.max_reconnect_backoff_ms", LONGEST_RECONNECT_MS)]
        ) as channel,
    ):
        clock, lasts_s = asyncio.get_running_loop().time, 60.0 * minutes
        rhythm = Rhythm(numbers.POLLING_S, numbers.SYNC_S, 1, numbers.MAX_REPLICAS)
        keda = Keda(AuditedClient(channel, here.log, here.since), ScaledObject(KEY, TRIGGER["metadata"]), rhythm, clock)
        traffic = Traffic(here.gateway, here.session, clock)
        background = [
            here.poll(), here.watch(), keda.run(here.cluster),
            here.gateway.poll(f"http://{here.gate.address}/v1/state/{KEY}", here.session, clock),
        ]  # fmt: skip
        tasks = [asyncio.create_task(work) for work in background]
        try:
            playing = asyncio.create_task(traffic.play(arrivals(here.rng, lasts_s), clock()))
            await chaos(here, lasts_s - CALM_S, seed)
            await playing
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        here.log.complaints += [repr(error) for error in ended if not isinstance(error, asyncio.CancelledError)]
        here.log.complaints += [
            json.dumps(line)[:400] for pod in here.pods.all for line in pod.lines if line["event"] == "crash"
        ]
        here.log.complaints += [line for pod in here.pods.all for line in pod.complaints]
        for pod in here.pods.all:
            (folder / f"{pod.name}-{pod.process.pid}.log").write_text("\n".join(map(json.dumps, pod.lines)))
        return here.log
