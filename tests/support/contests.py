"""A small contest on a rush of chat, and all that becomes of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from scaler.sim.contest import Contender, Contest, Gating, arrivals, played, static
from scaler.sim.laws import LAWS
from scaler.sim.limits import limits
from scaler.sim.outcome import Replay, Row, Side, Subject
from scaler.sim.saturation import Saturation
from scaler.sim.traffic import Lengths, Rated, Stream, surge
from tests.support.replays import BUSY

BEARS = Saturation(8.6, 36.0, ceiling_per_s=10.8, ceiling_concurrency=90.0, unloaded_ttft_s=0.08)
"""As ``saturation`` finds it for these requests."""
TRAFFIC = Rated((Stream("chat", surge(4.0, 26.0, 30.0, 90.0), Lengths(1155, 100)),), 120.0)
CONTEST = Contest(BUSY, TRAFFIC)
OURS = Contender("ours", LAWS["ours"], Gating.IN_PATH)


@cache
def small_replay(traffic: str = "rush <of> chat", seeds: int = 2) -> Replay:
    """Ours with a gate, one rival, and two that know it all."""
    who = (
        (OURS, Side.OURS),
        (Contender("gke-waiting", LAWS["gke-waiting"]), Side.RIVAL),
        (Contender("clairvoyant", LAWS["clairvoyant"]), Side.REFERENCE),
        (replace(static(3), name="best static 3"), Side.REFERENCE),
    )
    rows = tuple(
        Row(one.name, side, tuple(played(CONTEST, one, seed, drawn=seed == 1) for seed in range(1, seeds + 1)))
        for one, side in who
    )
    coming = arrivals(CONTEST, 1)
    subject = Subject(traffic, "llama", "30", TRAFFIC.duration_s, len(coming), ("a note",))
    return Replay(subject, BUSY, BEARS, limits(BUSY, BEARS, coming, TRAFFIC.duration_s), rows, rows[2])
