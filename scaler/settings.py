"""The only reader of environment and files: process settings, and the configuration file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scaler.core.capacity import Profile
from scaler.core.model import GateMode, Objective, RequestClass, WorkloadKey
from scaler.core.step import DEFAULT_TICK_S, WorkloadSpec
from scaler.errors import ConfigError
from scaler.sources.targets import DEFAULT_PATH, NamedTargets
from scaler.workload import Catalog, parse_workload

ENVIRONMENT_PREFIX = "SLO_SCALER_"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a scaler is reached from other pods
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Address = Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the process listens. Port 0 lets the system choose."""

    host: str = EVERYWHERE
    keda: int = 6000
    gate: int = 8080
    ops: int = 8081


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration file, parsed: what the operator names for all workloads, and the workloads named there."""

    catalog: Catalog
    targets: Mapping[WorkloadKey, NamedTargets]
    workloads: tuple[WorkloadSpec, ...]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Mix(_Section):
    in_p50: Positive
    out_p50: Positive | None = None


class _Profile(_Section):
    safe_concurrency: Positive
    safe_rate_per_s: Positive | None = None
    unloaded_ttft_s: Positive | None = None
    mix: _Mix | None = None
    confidence: str = ""

    def value(self, name: str) -> Profile:
        return Profile(
            safe_concurrency=self.safe_concurrency,
            safe_rate_per_s=self.safe_rate_per_s,
            unloaded_ttft_s=self.unloaded_ttft_s,
            input_p50=None if self.mix is None else self.mix.in_p50,
            name=name,
            confidence=self.confidence,
        )


class _Class(_Section):
    ttft_s: Positive | None = None
    tpot_s: Positive | None = None
    e2e_s: Positive | None = None
    objective: Objective = Objective.LATENCY
    deadline_s: Positive | None = None
    order: int = 0
    floor: Share = 0.0
    max_retries: Annotated[int, Field(ge=0)] | None = None
    gate: GateMode | None = None

    def value(self, name: str) -> RequestClass:
        return RequestClass(
            name=name,
            ttft_s=self.ttft_s,
            tpot_s=self.tpot_s,
            e2e_s=self.e2e_s,
            objective=self.objective,
            deadline_s=self.deadline_s,
            order=self.order,
            floor_ratio=self.floor,
            max_retries=self.max_retries,
            gate=self.gate,
        )


class _Scrape(_Section):
    scheme: Literal["http"] = "http"
    path: Annotated[str, Field(pattern=r"^/\S*$")] = DEFAULT_PATH


class _Workload(_Section):
    targets: tuple[Address, ...] = ()
    dns: Address | None = None
    metadata: Mapping[str, str] = Field(default_factory=dict)


class _File(_Section):
    scrape: Mapping[Literal["default"], _Scrape] = Field(default_factory=dict)
    profiles: Mapping[str, _Profile] = Field(default_factory=dict)
    classes: Mapping[str, _Class] = Field(default_factory=dict)
    workloads: Mapping[Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$")], _Workload] = Field(default_factory=dict)


def read_ports(environment: Mapping[str, str] | None = None) -> Ports:
    """The listening addresses from ``SLO_SCALER_HOST`` and ``SLO_SCALER_{KEDA,GATE,OPS}_PORT``. Raises ConfigError."""
    given = os.environ if environment is None else environment
    numbers: dict[str, int] = {}
    for name in ("keda", "gate", "ops"):
        key = f"{ENVIRONMENT_PREFIX}{name.upper()}_PORT"
        if (text := given.get(key)) is None:
            continue
        if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004 - the largest port
            raise ConfigError(f"{key}: a port is a number from 0 to 65535")
        numbers[name] = int(text)
    host = given.get(f"{ENVIRONMENT_PREFIX}HOST", EVERYWHERE)
    return Ports(host=host, **numbers)


def read_configuration(path: Path | None, tick_s: float = DEFAULT_TICK_S) -> Configuration:
    """The configuration file, or an empty configuration without one. Raises ConfigError with every fault."""
    if path is None:
        return parse_configuration("", tick_s)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_configuration(text, tick_s)


def parse_configuration(text: str, tick_s: float = DEFAULT_TICK_S) -> Configuration:
    """The configuration that a YAML text describes. Raises ConfigError with every fault."""
    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}{_place(error)}") from None
    try:
        file = _File.model_validate({} if loaded is None else loaded)
    except ValidationError as error:
        raise ConfigError(
            *(_fault(fault["loc"], fault["msg"]) for fault in error.errors(include_input=False))
        ) from None
    faults = [fault for name, entry in file.classes.items() for fault in _class_faults(name, entry)]
    catalog = Catalog(
        profiles={name: entry.value(name) for name, entry in file.profiles.items()},
        classes={name: entry.value(name) for name, entry in file.classes.items()},
        tick_s=tick_s,
    )
    workloads = _workloads(file, catalog, faults)
    if faults:
        raise ConfigError(*faults)
    scrape = file.scrape.get("default", _Scrape())
    targets = {
        _key(name): NamedTargets(entry.targets, entry.dns, scrape.path, scrape.scheme)
        for name, entry in file.workloads.items()
        if entry.targets or entry.dns
    }
    return Configuration(catalog, targets, workloads)


def _workloads(file: _File, catalog: Catalog, faults: list[str]) -> tuple[WorkloadSpec, ...]:
    """The specs of the workloads that bring their own metadata; the others wait for KEDA to bring it."""
    specs = []
    for name, entry in file.workloads.items():
        if not entry.metadata:
            continue
        try:
            specs.append(parse_workload(_key(name), entry.metadata, catalog))
        except ConfigError as error:
            faults += [f"workloads.{name}.metadata.{fault}" for fault in error.faults]
    return tuple(specs)


def _class_faults(name: str, entry: _Class) -> list[str]:
    if entry.objective is Objective.COMPLETION and entry.deadline_s is None:
        return [f"classes.{name}.deadline_s: required with objective completion, in seconds"]
    if entry.objective is Objective.LATENCY and entry.ttft_s is None:
        return [f"classes.{name}.ttft_s: required with objective latency, the budget to the first token in seconds"]
    return []


def _key(name: str) -> WorkloadKey:
    namespace, _, workload = name.partition("/")
    return WorkloadKey(namespace, workload)


def _fault(location: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(str(part) for part in location) or 'file'}: {message}"


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" in line {mark.line + 1}"
