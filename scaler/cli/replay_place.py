"""``slo-scaler replay``: what is promised, the replicas, and how long they take to start."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scaler.cli.preset_file import preset_named
from scaler.cli.replay_options import PlaceWish, SpecWish
from scaler.core.capacity import Profile
from scaler.core.model import RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.errors import ConfigError
from scaler.settings.file import Configuration, parse_configuration
from scaler.sim.bound import load
from scaler.sim.cluster import Platform
from scaler.sim.limits import busiest_per_s
from scaler.sim.presets import STARTS, Preset
from scaler.sim.saturation import Bench, Saturation, saturation
from scaler.sim.stage import Setting
from scaler.sim.starts import Fixed, Normal, StartTimes
from scaler.sim.starts import Measured as MeasuredStarts
from scaler.sim.traces import Trace
from scaler.sim.traffic import Arrival, Measured

LEAST_MAX, TIMES_BUSIEST = 4, 2
FIRST_S = 60.0
SAMPLES = 2000
APART = 1.25
_SPREAD = re.compile(r"(\d+(?:\.\d+)?)(?:(?:±|\+-|\+/-)(\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Placed:
    """The setting, what one of its replicas bears, and what must be known about both."""

    setting: Setting
    bears: Saturation
    notes: tuple[str, ...]


def configuration(path: Path | None) -> Configuration | None:
    """The configuration file, if one is given. Raises ConfigError."""
    if path is None:
        return None
    try:
        return parse_configuration(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config: {path}: {error.strerror or 'unreadable'}; name the scaler's configuration file"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config: {path}: not text; name the scaler's configuration file, which is YAML") from None
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {fault}" for fault in error.faults)) from None


def promised(wish: SpecWish, configured: Configuration | None) -> WorkloadSpec:
    """What is promised, with a profile only where one is named: a concurrency of 0 stands for that of the simulated replica."""
    base = _configured(wish, configured) if _by_workload(wish, configured) else _plain(wish)
    first, *others = base.classes
    first = replace(first, ttft_s=wish.ttft or first.ttft_s, tpot_s=wish.tpot or first.tpot_s)
    quantile = base.slo_quantile if wish.percentile is None else wish.percentile / 100
    return replace(base, classes=(first, *others), slo_quantile=quantile, profile=_profile(wish, base, configured))


def placed(spec: WorkloadSpec, wish: tuple[SpecWish, PlaceWish], trace: Trace, coming: Sequence[Arrival]) -> Placed:
    """Where it is played. Raises ConfigError."""
    told, place = wish
    preset, take_s = preset_named(place.preset), starts(place.cold_start)
    bears = saturation(Bench(preset, _mix(coming, preset), spec.classes[0], spec.slo_quantile))
    spec = spec if spec.profile.safe_concurrency else replace(spec, profile=bears.profile)
    safe_rate = spec.profile.safe_rate_per_s or bears.safe_rate_per_s
    offered = load((one.at for one in coming), trace.traffic.duration_s)
    spec = replace(spec, scaling=_bounds(told, spec.scaling, busiest_per_s(offered) / safe_rate))
    first_s = min(FIRST_S, trace.traffic.duration_s)
    first = sum(one.at < first_s for one in coming) / first_s / (safe_rate * (1 - spec.headroom_ratio))
    ready = trace.recorded[0].ready if trace.recorded else None
    wanted = place.replicas if place.replicas is not None else ready if ready is not None else math.ceil(first)
    initial = max(spec.scaling.min_replicas, min(spec.scaling.max_replicas, wanted))
    platform = Platform(preset, initial, spec.scaling.max_replicas, take_s)
    return Placed(Setting(spec, platform), bears, tuple(_notes(spec, bears)))


def starts(text: str) -> StartTimes:
    """How long starts take, by what a person wrote. Raises ConfigError."""
    if found := _SPREAD.fullmatch(text.replace(" ", "")):
        mean, spread = float(found[1]), float(found[2] or 0)
        return Normal(mean, spread) if spread else Fixed(mean)
    if text in STARTS:
        return STARTS[text]
    path = Path(text)
    if not path.is_file():
        raise ConfigError(
            "--cold-start: write seconds such as 180 or 180±30, the name of a file with one measured start a line, or one of "
            f"{', '.join(STARTS)}"
        )
    try:
        return MeasuredStarts(tuple(float(word) for word in path.read_text(encoding="utf-8").replace(",", " ").split()))
    except ValueError:
        raise ConfigError(f"--cold-start: {path}: numbers of seconds are needed there, and nothing else") from None


def _by_workload(wish: SpecWish, configured: Configuration | None) -> bool:
    return configured is not None and (wish.workload is not None or bool(configured.workloads))


def _configured(wish: SpecWish, configured: Configuration | None) -> WorkloadSpec:
    there = {str(spec.key): spec for spec in (configured.workloads if configured is not None else ())}
    name = wish.workload if wish.workload is not None or len(there) != 1 else next(iter(there))
    if name in there:
        return there[name]
    raise ConfigError(
        f"--workload: name one that has metadata in the --config: {', '.join(there) or 'there is none; give --ttft and --profile instead'}"
    )


def _plain(wish: SpecWish) -> WorkloadSpec:
    if wish.ttft is None:
        raise ConfigError(
            "--ttft: needed, the objective for the time to the first token in seconds; or a --config with a workload"
        )
    return WorkloadSpec(
        WorkloadKey("replay", "trace"), Profile(0.0), (RequestClass("default"),), scaling=ScalingSpec(max_replicas=0)
    )


def _profile(wish: SpecWish, base: WorkloadSpec, configured: Configuration | None) -> Profile:
    profile = base.profile
    if wish.profile is not None:
        known = {} if configured is None else configured.catalog.profiles
        if wish.profile not in known:
            raise ConfigError(f"--profile: no such profile in the --config; there are {', '.join(known) or 'none'}")
        profile = known[wish.profile]
    if wish.safe_concurrency is not None:
        return Profile(wish.safe_concurrency, wish.safe_rate)
    if wish.safe_rate is not None:
        raise ConfigError("--safe-rate: give --safe-concurrency with it; they are one point of a load test")
    return profile


def _mix(coming: Sequence[Arrival], preset: Preset) -> Measured:
    """The lengths of some of the requests, evenly over the trace."""
    most = preset.limits.kv_tokens
    every = max(1, len(coming) // SAMPLES)
    pairs = tuple((one.prompt_tokens, one.output_tokens) for one in coming[::every])
    fitting = tuple(pair for pair in pairs if sum(pair) <= most)
    if not fitting:
        raise ConfigError(
            "TRACE: no request there that a replica of this kind can hold; choose another --preset"
            if pairs
            else "TRACE: no request in it"
        )
    return Measured(fitting)


def _bounds(wish: SpecWish, scaling: ScalingSpec, busiest: float) -> ScalingSpec:
    most = wish.max_replicas or scaling.max_replicas or max(LEAST_MAX, TIMES_BUSIEST * math.ceil(busiest))
    least = scaling.min_replicas if wish.min_replicas is None else wish.min_replicas
    if least > most:
        raise ConfigError("--min-replicas: more than --max-replicas")
    return replace(scaling, min_replicas=least, max_replicas=most)


def _notes(spec: WorkloadSpec, bears: Saturation) -> list[str]:
    told = spec.profile.safe_rate_per_s
    notes = []
    if told is not None and max(told, bears.safe_rate_per_s) > APART * min(told, bears.safe_rate_per_s):
        notes.append(
            f"the laws are told a safe rate of {told:.3g}/s, and the simulated replica bears {bears.safe_rate_per_s:.3g}/s: "
            "choose the --preset that is nearest to yours, or expect what a wrong load test brings"
        )
    if spec.profile.learnt:
        notes.append("safeConcurrency auto: the gate cannot be enforced, so no gateway listens")
    if len(spec.classes) > 1:
        notes.append(f"all requests are taken as class {spec.classes[0].name}")
    return notes
