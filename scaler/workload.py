"""From what a person wrote (trigger metadata, or the same keys in a file) to a ``WorkloadSpec``. Keys are spelled here and nowhere else.

All faults are found at once; each names the key and what is allowed and never repeats the value, which may be a secret by mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from scaler.core.capacity import AUTO, DEFAULT_HEADROOM_RATIO, Match, Profile
from scaler.core.classes import BUILT_IN
from scaler.core.model import GateMode, Objective, RequestClass, ShedStatus, WorkloadKey
from scaler.core.pressure import PressureSpec, RedRule
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import IDLE_S, StabilizeSpec
from scaler.core.step import DEFAULT_TICK_S, WorkloadSpec
from scaler.core.target import DEFAULT_MAX_REPLICAS, DEFAULT_MIN_REPLICAS, ScalingSpec
from scaler.engines import ENGINES
from scaler.errors import ConfigError

CONNECTION_KEYS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl"})
"""KEDA's own keys, which it forwards with the rest."""
AUTHENTICATION_KEYS = frozenset({"caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"})
"""Keys that KEDA reads from a TriggerAuthentication only; in trigger metadata it ignores them, and connects in plain text."""
DEFAULT_CLASS = "default"
DIRECT = "pods"
"""The source that asks every replica itself; others are Prometheuses that the operator named."""
LOW_HEADROOM_RATIO = 0.1

LONGEST_S, SHORTEST_S, MOST_REPLICAS, MOST_CONCURRENCY, LEARNT = 1e7, 1e-3, 100_000, 1e6, 0.0
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", re.ASCII)


def _plain_number(value: object) -> object:
    """A number as everybody writes it. Python would also take ``1_000``, spaces and other scripts' digits; KEDA and the HPA do not."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise PydanticCustomError("number", "a plain number is needed, such as 2 or 0.5")
    return value


Plain = BeforeValidator(_plain_number)
Seconds = Annotated[float, Plain, Field(ge=0, le=LONGEST_S)]
Positive = Annotated[float, Plain, Field(ge=SHORTEST_S, le=LONGEST_S)]
Count = Annotated[int, Plain, Field(ge=0, le=MOST_REPLICAS)]
_AUTO = WrapValidator(lambda value, number: LEARNT if value == "auto" else number(value))
Concurrency = Annotated[float, Plain, Field(ge=0.1, le=MOST_CONCURRENCY), _AUTO]


class TriggerMetadata(BaseModel):
    """The keys of a trigger, as KEDA's users write them. Values arrive as strings."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True)

    ttft_slo_seconds: Positive | None = None
    tpot_slo_seconds: Positive | None = None
    slo_percentile: Annotated[float, Plain, Field(ge=50, le=99.9)] = 95.0
    profile: str | None = None
    safe_concurrency: Concurrency | None = None
    headroom: Annotated[float, Plain, Field(ge=0, le=0.9)] = DEFAULT_HEADROOM_RATIO
    engine: str = "vllm"
    source: str = DIRECT
    scrape: str = "default"
    port: Annotated[int, Plain, Field(ge=1, le=65535)] | None = None
    model_name: str | None = None
    request_classes: str | None = None
    min_replicas: Count | None = None
    max_replicas: Annotated[int, Plain, Field(ge=1, le=MOST_REPLICAS)] | None = None
    warm_replicas: Count = 0
    replica_ready_seconds: Positive | None = None
    upscale_delay_seconds: Seconds = 0.0
    downscale_delay_seconds: Seconds | None = None
    idle_seconds: Seconds = IDLE_S
    max_queued_requests: Seconds | None = None
    red_rule: RedRule = RedRule.PROJECTED
    shed_status: ShedStatus = ShedStatus.AUTO
    gate: GateMode = GateMode.OBSERVE
    demand_source: str | None = None


KEYS: Mapping[str, str] = {to_camel(name): name for name in TriggerMetadata.model_fields}


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the operator has named for all workloads.

    ``sources`` are Prometheuses with their interval in seconds, which is the tick of the workloads that they are read for.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    classes: Mapping[str, RequestClass] = field(default_factory=lambda: BUILT_IN)
    sources: Mapping[str, float] = field(default_factory=dict)
    scrapes: frozenset[str] = frozenset({"default"})
    demands: frozenset[str] = frozenset()
    tick_s: float = DEFAULT_TICK_S


@dataclass(frozen=True, slots=True)
class Bounds:
    """The replica counts that the platform allows, where it says so (``minReplicaCount`` and ``maxReplicaCount`` of a ScaledObject)."""

    min_replicas: int
    max_replicas: int


def parse_workload(
    key: WorkloadKey, metadata: Mapping[str, str], catalog: Catalog, bounds: Bounds | None = None
) -> WorkloadSpec:
    """The spec that trigger metadata describes, within the platform's bounds if it tells any. Raises ConfigError with every fault."""
    given, faults = _given(metadata)
    try:
        parsed = TriggerMetadata.model_validate(given)
    except ValidationError as error:
        raise ConfigError(*faults, *_faults_of(error)) from None
    profile = _profile(parsed, catalog, faults)
    classes = _classes(parsed, catalog, faults)
    if parsed.safe_concurrency == LEARNT and GateMode.ENFORCE in {parsed.gate, *(one.gate for one in classes)}:
        faults.append(
            "gate: enforce needs a load test: with safeConcurrency auto it would refuse what nobody has tried"
        )
    within = _within(parsed, bounds)
    faults += [*_contradictions(parsed, within, bounds), *_unnamed(parsed, catalog)]
    if faults or profile is None:
        raise ConfigError(*faults)
    return WorkloadSpec(
        key=key,
        profile=profile,
        classes=classes,
        headroom_ratio=parsed.headroom,
        slo_quantile=parsed.slo_percentile / 100,
        scaling=ScalingSpec(
            min_replicas=within.min_replicas,
            max_replicas=within.max_replicas,
            warm_replicas=parsed.warm_replicas,
        ),
        stabilize=StabilizeSpec(parsed.upscale_delay_seconds, parsed.downscale_delay_seconds, parsed.idle_seconds),
        pressure=PressureSpec(parsed.red_rule, parsed.max_queued_requests),
        latency=ReadyLatency()
        if parsed.replica_ready_seconds is None
        else ReadyLatency(p90_s=parsed.replica_ready_seconds, origin="configuration"),
        gate=parsed.gate,
        shed=parsed.shed_status,
        tick_s=catalog.sources.get(parsed.source, catalog.tick_s),
        engine=parsed.engine,
        source=parsed.source,
        scrape=parsed.scrape,
        model_name=parsed.model_name,
        demand=parsed.demand_source,
        warnings=(*_key_warnings(metadata), *_warnings(parsed, profile, within, bounds)),
    )


def _given(metadata: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The keys that are ours, under their plain names, and a fault for every key that is nobody's."""
    given: dict[str, str] = {}
    faults: list[str] = []
    for written, value in metadata.items():
        plain = written.removesuffix("FromEnv")
        if plain in CONNECTION_KEYS or plain in AUTHENTICATION_KEYS:
            continue
        if plain not in KEYS:
            near = difflib.get_close_matches(plain, KEYS, n=1)
            faults.append(
                f"{written}: unknown key" + (f", did you mean {near[0]}?" if near else f"; known are {', '.join(KEYS)}")
            )
        elif plain in given:
            faults.append(f"{plain}: given twice, as itself and as {plain}FromEnv; keep one")
        else:
            given[plain] = value
    return given, faults


def _faults_of(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors(include_input=False)
    ]


def _profile(parsed: TriggerMetadata, catalog: Catalog, faults: list[str]) -> Profile | None:
    """The profile that was named first, with those named after it for the replicas that it does not match."""
    if (parsed.profile is None) == (parsed.safe_concurrency is None):
        faults.append(
            "profile, safeConcurrency: give exactly one: the name of a load-test profile, or the safe concurrency it found"
        )
        return None
    if parsed.safe_concurrency is not None:
        return AUTO if parsed.safe_concurrency == LEARNT else Profile(parsed.safe_concurrency)
    names = _listed(parsed.profile)
    found = [catalog.profiles[name] for name in names if name in catalog.profiles]
    if len(found) < len(names) or not names:
        faults.append(f"profile: no such profile is configured; there are {_names(catalog.profiles)}")
        return None
    if len(set(names)) < len(names):
        faults.append("profile: a profile is named twice")
    return replace(found[0], alternatives=tuple(found[1:]))


def _listed(written: str | None) -> list[str]:
    """The names in a text that lists them with commas."""
    return [name.strip() for name in (written or "").split(",") if name.strip()]


def _classes(parsed: TriggerMetadata, catalog: Catalog, faults: list[str]) -> tuple[RequestClass, ...]:
    """The classes in the order they were named; the first takes the trigger's own objectives."""
    names = _listed(parsed.request_classes)
    if unknown := [name for name in names if name not in catalog.classes]:
        faults.append(f"requestClasses: {len(unknown)} not configured; there are {_names(catalog.classes)}")
    if len(set(names)) < len(names):
        faults.append("requestClasses: a class is named twice")
    found = [catalog.classes[name] for name in names if name in catalog.classes]
    first = found[0] if found else RequestClass(DEFAULT_CLASS)
    first = replace(
        first, ttft_s=parsed.ttft_slo_seconds or first.ttft_s, tpot_s=parsed.tpot_slo_seconds or first.tpot_s
    )
    if first.objective is Objective.LATENCY and first.ttft_s is None and not unknown:
        faults.append("ttftSloSeconds: required, the budget for the time to the first token in seconds")
    return (first, *found[1:])


def _within(parsed: TriggerMetadata, bounds: Bounds | None) -> Bounds:
    """The bounds that both allow: a trigger may narrow what its ScaledObject allows, and never widen it."""
    if bounds is None:
        least = DEFAULT_MIN_REPLICAS if parsed.min_replicas is None else parsed.min_replicas
        return Bounds(least, parsed.max_replicas or DEFAULT_MAX_REPLICAS)
    return Bounds(
        max(bounds.min_replicas, parsed.min_replicas or 0),
        min(bounds.max_replicas, parsed.max_replicas or bounds.max_replicas),
    )


def _contradictions(parsed: TriggerMetadata, within: Bounds, bounds: Bounds | None) -> list[str]:
    faults = []
    if parsed.engine not in ENGINES:
        faults.append(f"engine: not known; there are {_names(ENGINES)}")
    if within.max_replicas < max(1, within.min_replicas, parsed.warm_replicas):
        faults.append(f"maxReplicas: below minReplicas or warmReplicas{_unwritten_max(parsed, bounds)}")
    return faults


def _unwritten_max(parsed: TriggerMetadata, bounds: Bounds | None) -> str:
    """Where a maximum comes from that the trigger does not write."""
    if parsed.max_replicas is not None:
        return ""
    if bounds is not None:
        return f" (the ScaledObject's maxReplicaCount is {bounds.max_replicas})"
    return f" ({DEFAULT_MAX_REPLICAS} is assumed, as it is not given)"


def _unnamed(parsed: TriggerMetadata, catalog: Catalog) -> list[str]:
    """Names that nobody configured. What they would stand for is never taken from metadata: it would let a user point us anywhere."""
    allowed = {
        "source": (parsed.source, {DIRECT, *catalog.sources}),
        "scrape": (parsed.scrape, catalog.scrapes),
        "demandSource": (parsed.demand_source, catalog.demands),
    }
    return [
        f"{key}: not configured; there are {_names(known)}"
        for key, (name, known) in allowed.items()
        if name is not None and name not in known
    ]


def _key_warnings(metadata: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: KEDA ignores this key in trigger metadata and may connect in plain text; put it in a TriggerAuthentication"
        for name in sorted(metadata)
        if name.removesuffix("FromEnv") in AUTHENTICATION_KEYS
    ]


def _warnings(parsed: TriggerMetadata, profile: Profile, within: Bounds, bounds: Bounds | None) -> list[str]:
    found = []
    if any(one.match == Match() for one in (profile, *profile.alternatives)[:-1]):
        found.append("profile: one without match is for every replica, so those named after it never count")
    if parsed.max_replicas is None and bounds is None:
        found.append(f"maxReplicas: not given, {DEFAULT_MAX_REPLICAS} is assumed")
    if parsed.headroom < LOW_HEADROOM_RATIO:
        found.append("headroom: below 0.1 the HPA's tolerance alone can take a replica above its safe concurrency")
    if within.min_replicas == 0 and parsed.demand_source is None:
        found.append(
            "minReplicas: 0, and without demandSource nothing tells of requests that arrive at zero replicas; it cannot wake the workload"
        )
    if parsed.port is not None and bounds is None:
        found.append("port: has no effect, the replicas' addresses are configured with theirs")
    if parsed.model_name is not None and parsed.source == DIRECT:
        found.append("modelName: has no effect, each replica is read directly")
    return found


def _names(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"
