"""What the demo shows: the replicas, their load test, the objectives, the traffic, and how far times are compressed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from scaler.core.model import GateMode, WorkloadKey
from scaler.sim import Coefficients, EngineLimits
from scaler.sim.clients import SDKS, Sdk

KEY = WorkloadKey("demo", "llm")
MODEL = "demo-llm"

# At 8 sequences a step takes 40 ms and 100 output tokens 4 s: a replica that is about as fast as a 70B model on one node.
# The engine's own cap is the safe concurrency, so that an overload is a queue and breaks TTFT, which is easy to watch.
COEFFICIENTS = Coefficients(a_s=0.020, b_s=0.0025, c_s=2e-5, d_s=0.0)
LIMITS = EngineLimits(max_num_seqs=8, token_budget=2048, kv_tokens=64_000)
SAFE_CONCURRENCY, SAFE_RATE_PER_S, UNLOADED_TTFT_S = 8, 2.0, 0.1
# 75 ms is an edge of vLLM's histogram: a quantile between two edges is a guess, and an objective there is judged by guesses.
TTFT_BUDGET_S, TPOT_BUDGET_S = 2.0, 0.075
# Four seconds of work of the first two replicas. The default, a budget's worth, is 8 requests: at this scale that is noise.
MAX_QUEUED = 16

CALM_PER_S, BURST_PER_S = 2.5, 8.0
MIN_REPLICAS, MAX_REPLICAS = 2, 6
START_S, START_SIGMA, START_P90_S = 12.0, 0.1, 14.0
TICK_S, POLLING_S, SYNC_S, DOWNSCALE_S = 0.5, 4.0, 2.0, 15.0

GPU, GPU_HOUR_PRICE = "example-gpu", 2.5
"""No replica of the demo has one: each counts as one of these, at a price that is an example."""

CONFIGURATION = f"""
prices: {{{GPU}: {GPU_HOUR_PRICE}}}  # an example
profiles:
  demo: {{safe_concurrency: {SAFE_CONCURRENCY}, safe_rate_per_s: {SAFE_RATE_PER_S}, unloaded_ttft_s: {UNLOADED_TTFT_S}}}
"""
"""The configuration file of the demo's scaler; the rest comes with the trigger, as in a cluster."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A duration of the demo and the one in a cluster that it stands for, in seconds."""

    what: str
    demo_s: float
    real_s: float

    @property
    def factor(self) -> float:
        """How many times faster."""
        return self.real_s / self.demo_s


COMPRESSIONS = (
    Compression("replica start", START_S, 180.0),
    Compression("HPA sync", SYNC_S, 15.0),
    Compression("KEDA poll", POLLING_S, 30.0),
    Compression("tick", TICK_S, 2.0),
    Compression("scale-down delay", DOWNSCALE_S, 360.0),
)
"""What is compressed. The scaler's own windows and dwell times (10-30 s) are not, nor are TTFT and TPOT.

Nor is the HPA's limit of 4 replicas or twice as many in 15 s, which this fleet never meets.
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """Traffic from ``start_s`` to ``end_s``, whose rate goes evenly from ``from_per_s`` to ``to_per_s`` requests a second."""

    name: str
    start_s: float
    end_s: float
    from_per_s: float
    to_per_s: float

    def per_s(self, at_s: float) -> float:
        """The rate at one time of the phase."""
        share = (at_s - self.start_s) / (self.end_s - self.start_s)
        return self.from_per_s + share * (self.to_per_s - self.from_per_s)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run. ``seconds`` is how long traffic lasts; ``seed`` decides arrivals, lengths, starts and the gateway's dice.

    ``retries``: clients who are refused come back as their libraries do, which are those of ``scaler.sim.clients`` in turn.
    """

    seconds: float = 90.0
    seed: int = 1
    gate: GateMode = GateMode.ENFORCE
    retries: bool = False

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Calm, a rise into a burst that lasts until its new replicas have arrived, calm."""
        rise_at, burst_at, calm_at = (round(self.seconds * share, 3) for share in (1 / 9, 11 / 45, 11 / 18))
        return (
            Phase("calm", 0.0, rise_at, CALM_PER_S, CALM_PER_S),
            Phase("rise", rise_at, burst_at, CALM_PER_S, BURST_PER_S),
            Phase("burst", burst_at, calm_at, BURST_PER_S, BURST_PER_S),
            Phase("calm again", calm_at, self.seconds, CALM_PER_S, CALM_PER_S),
        )

    @property
    def metadata(self) -> dict[str, str]:
        """The trigger's metadata, as a ScaledObject would carry it."""
        return {
            "profile": "demo",
            "ttftSloSeconds": f"{TTFT_BUDGET_S:g}",
            "tpotSloSeconds": f"{TPOT_BUDGET_S:g}",
            "headroom": "0.1",
            "minReplicas": str(MIN_REPLICAS),
            "maxReplicas": str(MAX_REPLICAS),
            "replicaReadySeconds": f"{START_P90_S:g}",
            "downscaleDelaySeconds": f"{DOWNSCALE_S:g}",
            "maxQueuedRequests": str(MAX_QUEUED),
            "gate": self.gate.value,
        }


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a client: when, in seconds from the start of traffic, and its lengths in tokens. Without ``sdk``: tried once."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    sdk: Sdk | None = None


def arrivals(scenario: Scenario) -> tuple[Arrival, ...]:
    """Poisson arrivals of all phases in order of time. Open loop: nobody waits for an answer before asking again."""
    random = Random(scenario.seed)
    found: list[Arrival] = []
    for phase in scenario.phases:
        at_s, highest = phase.start_s, max(phase.from_per_s, phase.to_per_s)
        while (at_s := at_s + random.expovariate(highest)) < phase.end_s:
            if random.random() * highest < phase.per_s(at_s):  # thinned where the rate is below the highest
                sdk = SDKS[len(found) % len(SDKS)] if scenario.retries else None
                found.append(Arrival(at_s, random.randint(100, 300), random.randint(60, 140), sdk))
    return tuple(found)
