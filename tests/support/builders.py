"""Hand-made values: a spec, what one tick saw, and the decision that the real law makes of it."""

from dataclasses import replace

from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Pending
from scaler.core.model import Histogram, Missing, Observation, Reading, ReplicaSet, RequestClass, Starting, WorkloadKey
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec

KEY = WorkloadKey("prod", "llama")


def spec(key: WorkloadKey = KEY, safe_concurrency: float = 100.0, **changes) -> WorkloadSpec:
    """A workload with one class. Its rate is not known, so that it is judged by what runs: easy to do in the head."""
    plain = WorkloadSpec(key, Profile(safe_concurrency), (RequestClass("chat", ttft_s=2.0),))
    return replace(plain, **changes)


def reading(replica: str = "llama-0", at: float = 0.0, running: float = 10.0, waiting: float = 0.0) -> Reading:
    return Reading(replica, at, running, waiting, ttft=Histogram((1.0,), (0.0, 0.0), 0.0))


def observation(
    at: float = 0.0,
    *readings: Reading,
    missing: tuple[Missing, ...] = (),
    starting: tuple[Starting, ...] = (),
    current: int | None = None,
) -> Observation:
    """One tick: the ready replicas are those that were read and those that are missing."""
    ready = (*(r.replica for r in readings), *(m.replica for m in missing))
    replicas = ReplicaSet(ready, starting, len(ready) + len(starting) if current is None else current, at)
    return Observation(at, replicas, readings, missing)


def outcome(of: WorkloadSpec, *seen: Observation) -> Decision | Pending:
    """What the law says after the last of these ticks."""
    state, result = State(), None
    for observed in seen or (observation(0.0, reading()),):
        state, result = step(of, state, observed)
    assert result is not None
    return result


def decision(of: WorkloadSpec, *seen: Observation) -> Decision:
    """The same, when the law has decided."""
    result = outcome(of, *seen)
    assert isinstance(result, Decision), result
    return result


def idle(key: WorkloadKey = KEY, at: float = 0.0) -> Decision:
    """Nothing was asked for in a while, and none need be kept: desired is 0."""
    of = spec(key, scaling=ScalingSpec(min_replicas=0), stabilize=StabilizeSpec(downscale_delay_s=1.0, idle_s=1.0))
    return decision(of, *(observation(t, reading(at=t, running=0.0)) for t in (at - 4.0, at - 2.0, at)))


def blind(of: WorkloadSpec, *seen: Observation, missing: tuple[Missing, ...]) -> Decision:
    """The same ticks, and then one that comes too late for their readings and brings no other."""
    late = seen[-1].at + of.stale_s + 1.0
    return decision(of, *seen, observation(late, missing=missing))
