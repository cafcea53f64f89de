"""What the configuration file may hold, and what it means. Unknown keys are faults; every fault is reported by its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scaler.api.certificates import ServerTls
from scaler.backpressure.asked import Trust
from scaler.core.classes import BUILT_IN
from scaler.core.model import WorkloadKey
from scaler.core.shadow import as_shadow
from scaler.core.step import DEFAULT_TICK_S, WorkloadSpec
from scaler.errors import ConfigError
from scaler.settings.access import Access
from scaler.settings.sections import SHAPES, FileSections
from scaler.sources.prometheus_api import PrometheusSettings
from scaler.sources.promql import Template
from scaler.sources.scrape import ScrapeSettings
from scaler.sources.targets import NamedTargets
from scaler.workload import Catalog, parse_workload


@dataclass(frozen=True, slots=True)
class DemandQueries:
    """Who counts what is refused or held before it reaches an engine: PromQL of the operator's, asked of a named Prometheus."""

    prometheus: str
    refused: str | None = None
    queued: str | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration file, parsed: what the operator names for all workloads, and the workloads named there.

    ``shadows`` are those that are looked at only. ``namespaces`` are those that are followed in a cluster, none for all. ``trust`` is who
    is believed about who asks; its owners are those of ``key_map``, a file of its own. ``prices`` are per GPU-hour, by the name of the GPU.
    """

    catalog: Catalog
    targets: Mapping[WorkloadKey, NamedTargets] = field(default_factory=dict)
    workloads: tuple[WorkloadSpec, ...] = ()
    shadows: frozenset[WorkloadKey] = frozenset()
    scrapes: Mapping[str, ScrapeSettings] = field(default_factory=lambda: {"default": ScrapeSettings()})
    prometheus: Mapping[str, PrometheusSettings] = field(default_factory=dict)
    demands: Mapping[str, DemandQueries] = field(default_factory=dict)
    tls: ServerTls | None = None
    access: Access = Access()
    namespaces: tuple[str, ...] = ()
    trust: Trust = Trust()
    key_map: Path | None = None
    prices: Mapping[str, float] = field(default_factory=dict)


VALUE_ERRORS = (ValueError, KeyError, AttributeError)
"""What PyYAML raises for 2026-13-45, 0x_ or ``!!bool x``; the text of these errors has the value in it."""


class StandsTwice(yaml.constructor.ConstructorError):
    """A key that stands twice in one mapping."""


class NoDuplicates(yaml.SafeLoader):
    """YAML in which a key that stands twice is a fault: the last one would win silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - YAML's signature
        """A mapping whose keys are all different."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise StandsTwice(None, None, f"the key {key.value} stands twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **FileSections.model_json_schema()}


def parse_configuration(text: str, tick_s: float = DEFAULT_TICK_S) -> Configuration:
    """The configuration that a YAML text describes. Raises ConfigError with every fault."""
    file = _validated(text)
    faults = [*_section_faults(file), *_demand_faults(file)]
    catalog = Catalog(
        profiles={name: entry.value(name) for name, entry in file.profiles.items()},
        classes={**BUILT_IN, **{name: entry.value(name) for name, entry in file.classes.items()}},
        sources={name: entry.interval_s for name, entry in file.prometheus.items()},
        scrapes=frozenset({"default", *file.scrape}),
        demands=frozenset(file.demand),
        tick_s=tick_s,
    )
    workloads = _workloads(file, catalog, faults)
    if faults:
        raise ConfigError(*faults)
    tls = file.server.tls
    return Configuration(
        catalog=catalog,
        targets={_key(name): entry.value() for name, entry in file.workloads.items() if entry.targets or entry.dns},
        workloads=workloads,
        shadows=frozenset(_key(name) for name, entry in file.workloads.items() if entry.shadow),
        scrapes={"default": ScrapeSettings()} | {name: entry.value(name) for name, entry in file.scrape.items()},
        prometheus={name: entry.value() for name, entry in file.prometheus.items()},
        demands={name: DemandQueries(**entry.model_dump()) for name, entry in file.demand.items()},
        tls=None if tls is None else tls.value(),
        access=file.access.value(),
        namespaces=tuple(sorted(set(file.cluster.namespaces))),
        trust=file.tenants.value(),
        key_map=file.tenants.key_map(),
        prices=file.prices,
    )


def _validated(text: str) -> FileSections:
    try:
        loaded = yaml.load(text, Loader=NoDuplicates)  # noqa: S506 - a safe loader, that also refuses duplicate keys
    except VALUE_ERRORS:
        raise ConfigError("a value that YAML takes for a date or a number is none; put it in quotes") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}{in_line(error)}") from None
    try:
        return FileSections.model_validate({} if loaded is None else loaded)
    except ValidationError as error:
        found = error.errors(include_input=False)
        raise ConfigError(*(_fault(fault) for fault in found)) from None


def _workloads(file: FileSections, catalog: Catalog, faults: list[str]) -> tuple[WorkloadSpec, ...]:
    """The specs of the workloads that bring their own metadata; the others wait for KEDA to bring it."""
    specs = []
    for name, entry in file.workloads.items():
        if not entry.metadata:
            continue
        try:
            spec = parse_workload(_key(name), entry.metadata, catalog)
            specs.append(as_shadow(spec) if entry.shadow else spec)
        except ConfigError as error:
            faults += [f"workloads.{name}.metadata.{fault}" for fault in error.faults]
    return tuple(specs)


def _section_faults(file: FileSections) -> list[str]:
    tls = file.server.tls
    asks = tls is not None and tls.client_ca_file is not None
    found = [f"access.{fault}" for fault in file.access.faults(asks_for_certificates=asks)]
    found += [f"tenants.{fault}" for fault in file.tenants.faults()]
    found += [f"classes.{name}.{fault}" for name, entry in file.classes.items() for fault in entry.faults()]
    found += [f"workloads.{name}.{fault}" for name, entry in file.workloads.items() for fault in entry.faults()]
    return found + [f"scrape.{name}.{fault}" for name, entry in file.scrape.items() for fault in entry.faults()]


def _demand_faults(file: FileSections) -> list[str]:
    faults = []
    for name, entry in file.demand.items():
        if entry.prometheus not in file.prometheus:
            known = ", ".join(sorted(file.prometheus)) or "none"
            faults.append(f"demand.{name}.prometheus: no such Prometheus is configured; there are {known}")
        if entry.refused is None and entry.queued is None:
            faults.append(f"demand.{name}: give refused, queued or both")
        faults += [
            f"demand.{name}.{key}: {fault}" for key, query in entry.queries() for fault in _template_faults(query)
        ]
    return faults


def _template_faults(query: str) -> tuple[str, ...]:
    try:
        Template(query)
    except ConfigError as error:
        return error.faults
    return ()


def _key(name: str) -> WorkloadKey:
    namespace, _, workload = name.partition("/")
    return WorkloadKey(namespace, workload)


def _fault(fault: ErrorDetails) -> str:
    """A fault by its place; where the reason is a shape, the shape is told in words."""
    location = tuple(part for part in fault["loc"] if part != "[key]")
    place = ".".join(str(part) for part in location) or "file"
    if fault["type"] == "extra_forbidden":
        known = _known_at(location)
        near = difflib.get_close_matches(str(location[-1]), known, n=1)
        return f"{place}: unknown key" + (f", did you mean {near[0]}?" if near else f"; known are {', '.join(known)}")
    if fault["type"] == "string_pattern_mismatch":
        return f"{place}: {SHAPES.get(fault['ctx']['pattern'], fault['msg'])}"
    if fault["type"] == "model_type":
        return f"{place}: a mapping is needed here"
    return f"{place}: {fault['msg']}"


def _known_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys that are known in the section where an unknown one stands."""
    section: type[BaseModel] = FileSections
    for part in location[:-1]:
        field = section.model_fields.get(str(part))
        inner = None if field is None else next(iter(_sections_in(field.annotation)), None)
        section = section if inner is None else inner
    return sorted(section.model_fields)


def _sections_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)


def in_line(error: Exception) -> str:
    """Where in a text YAML found something wrong, if it says so."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" in line {mark.line + 1}"
