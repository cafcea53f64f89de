"""The sections of the configuration file as they are written, each with the value it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from scaler.api.certificates import ServerTls
from scaler.backpressure.asked import Trust
from scaler.core.capacity import Match, Profile
from scaler.core.model import GateMode, Objective, RequestClass
from scaler.settings import access
from scaler.settings.access import NAMESPACE, AccessSection
from scaler.settings.section import Section
from scaler.sources.prometheus_api import PrometheusSettings
from scaler.sources.scrape import ScrapeSettings
from scaler.sources.targets import NamedTargets
from scaler.workload import KEYS, LONGEST_S, MOST_CONCURRENCY, SHORTEST_S

ADDRESS = r"^[^\s/]+:\d{1,5}$"
URL = r"^https?://\S+$"
LABEL = r"^[A-Za-z_][A-Za-z0-9_]*$"
NAME = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
WORKLOAD = r"^[^/\s]+/[^/\s]+$"
HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
PAGE = r"^/\S*$"
WORD = r"[A-Za-z0-9]"
VERSION = r"^v?[0-9]"
SHAPES = {
    **access.SHAPES,
    ADDRESS: "write it as host:port, e.g. 10.0.0.7:8000, without http://",
    URL: "write it as http://host:port or https://host:port",
    LABEL: "a label name has letters, digits and _ only",
    NAME: "a name has letters, digits and -, _ or . between them",
    WORKLOAD: "write it as namespace/name",
    HEADER: "write the name of a header, e.g. x-tenant",
    PAGE: "a path begins with /",
    WORD: "it has letters or digits",
    VERSION: 'a version begins with a number, e.g. "0.32"',
}
"""What each pattern asks for, in words."""
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})
"""Headers that are never remembered, as a tenant is."""

Positive = Annotated[float, Field(ge=SHORTEST_S, le=LONGEST_S)]
Concurrency = Annotated[float, Field(ge=0.1, le=MOST_CONCURRENCY)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Address = Annotated[str, Field(pattern=ADDRESS, description="host:port")]
Label = Annotated[str, Field(pattern=LABEL)]
Url = Annotated[str, Field(pattern=URL)]
Name = Annotated[str, Field(pattern=NAME)]
Gpu = Annotated[str, Field(pattern=WORD, max_length=63)]
MOST_GPUS = 1024


class LabelsSection(Section):
    """The labels that carry a pod's namespace and name."""

    namespace: Label = "namespace"
    pod: Label = "pod"


class PrometheusSection(Section):
    """A Prometheus, Thanos or Mimir."""

    url: Url
    interval_s: Annotated[float, Field(ge=1, le=300)] = 15.0
    labels: LabelsSection = LabelsSection()
    bearer_token_file: str | None = None
    ca_file: str | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)

    def value(self) -> PrometheusSettings:
        return PrometheusSettings(
            url=self.url.rstrip("/"),
            interval_s=self.interval_s,
            namespace_label=self.labels.namespace,
            pod_label=self.labels.pod,
            bearer_token_file=self.bearer_token_file,
            ca_file=self.ca_file,
            headers=tuple(sorted(self.headers.items())),
        )


class TlsSection(Section):
    """TLS on the ports for KEDA and for gateways; with a client CA, callers must show a certificate of it."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None

    def value(self) -> ServerTls:
        return ServerTls(self.cert_file, self.key_file, self.client_ca_file)


class ServerSection(Section):
    """Our own ports."""

    tls: TlsSection | None = None


class ClusterSection(Section):
    """What is looked at in Kubernetes."""

    namespaces: tuple[Annotated[str, Field(pattern=NAMESPACE)], ...] = Field(
        default=(),
        description="The namespaces whose ScaledObjects are followed; none named: all, which needs a ClusterRole",
    )


class ScrapeSection(Section):
    """How the engines' metrics pages are asked for."""

    scheme: Literal["auto", "http", "https"] = "auto"
    port: Annotated[int, Field(ge=1, le=65535)] | Literal["auto"] = "auto"
    path: Annotated[str, Field(pattern=PAGE)] = "/metrics"
    ca_file: str | None = None
    insecure: bool = False
    bearer_token_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None
    server_name: str | None = None

    def faults(self) -> list[str]:
        """What is wrong with the keys together."""
        if self.client_key_file is not None and self.client_cert_file is None:
            return ["client_key_file: of no use without client_cert_file"]
        return []

    def value(self, name: str) -> ScrapeSettings:
        return ScrapeSettings(**self.model_dump(), name=name)


class MixSection(Section):
    """Median tokens of the load test."""

    in_p50: Positive
    out_p50: Positive | None = None


class MatchSection(Section):
    """Where a profile holds; without either key, everywhere."""

    gpu: Annotated[str, Field(pattern=WORD)] | None = Field(
        default=None, description="Words of the GPU's name on the label of the node, in any order: H100, or A100 80GB"
    )
    engine_version: Annotated[str, Field(pattern=VERSION)] | None = Field(
        default=None, description="How the version in the tag of the engine's image begins: 0.32 is for 0.32.1, too"
    )

    def value(self) -> Match:
        return Match(self.gpu or "", self.engine_version or "")


class ProfileSection(Section):
    """The result of a load test with one model, GPU and token mix."""

    safe_concurrency: Concurrency
    safe_rate_per_s: Positive | None = None
    unloaded_ttft_s: Positive | None = None
    mix: MixSection | None = None
    match: MatchSection | None = None
    confidence: str = ""
    provenance: Mapping[str, Any] = Field(default_factory=dict)

    def value(self, name: str) -> Profile:
        return Profile(
            safe_concurrency=self.safe_concurrency,
            safe_rate_per_s=self.safe_rate_per_s,
            unloaded_ttft_s=self.unloaded_ttft_s,
            input_p50=None if self.mix is None else self.mix.in_p50,
            output_p50=None if self.mix is None else self.mix.out_p50,
            name=name,
            confidence=self.confidence,
            match=Match() if self.match is None else self.match.value(),
        )


class ClassSection(Section):
    """A request class with one promise: a first token in time, or the whole job by a deadline."""

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

    def faults(self) -> list[str]:
        if self.objective is Objective.COMPLETION and self.deadline_s is None:
            return ["deadline_s: required with objective completion, in seconds"]
        if self.objective is Objective.LATENCY and self.ttft_s is None:
            return ["ttft_s: required with objective latency, the budget to the first token in seconds"]
        return []


class TenantsSection(Section):
    """How a request's tenant is known; with neither key it is not, and nobody is believed."""

    header: Annotated[str, Field(pattern=HEADER)] | None = Field(
        default=None,
        description="A header that names the tenant, set or removed by a proxy: whoever can write it is believed",
    )
    key_map_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="YAML or JSON: the SHA-256 of each bearer token, in hex, to {tenant: ..., class: ...}"
    )

    def faults(self) -> list[str]:
        if self.header is not None and self.header.lower() in CREDENTIALS:
            return ["header: it holds a credential, which is never kept; name tenants by key in a key_map_file"]
        return []

    def value(self) -> Trust:
        return Trust(None if self.header is None else self.header.lower())

    def key_map(self) -> Path | None:
        return None if self.key_map_file is None else Path(self.key_map_file)


class DemandSection(Section):
    """PromQL with the placeholders {namespace} and {name}: a cumulative count of refused requests, and how many are held now."""

    prometheus: Name = "default"
    refused: str | None = None
    queued: str | None = None

    def queries(self) -> list[tuple[str, str]]:
        """The queries that are given, by their keys."""
        both = (("refused", self.refused), ("queued", self.queued))
        return [(key, query) for key, query in both if query is not None]


def _as_written(value: object) -> object:
    """A number or a truth value as KEDA's metadata writes it: in YAML the quotes are easily forgotten."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) else value


class WorkloadSection(Section):
    """A workload by namespace/name of its ScaledObject: where its replicas are, and optionally its trigger metadata."""

    targets: tuple[Address, ...] = ()
    dns: Address | None = None
    metadata: Mapping[str, Annotated[str, BeforeValidator(_as_written)]] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"enum": [*sorted(KEYS)]}}
    )
    shadow: bool = Field(default=False, description="It is looked at only; nothing that KEDA is told moves it")
    gpus: Mapping[Gpu, Annotated[int, Field(ge=1, le=MOST_GPUS)]] = Field(
        default_factory=dict,
        description="What each of these replicas runs on, for their cost; in a cluster its pods tell that",
    )

    def faults(self) -> list[str]:
        """What is wrong with the keys together."""
        if len(set(self.targets)) < len(self.targets):
            return ["targets: an address stands twice; each is one replica"]
        return []

    def value(self) -> NamedTargets:
        return NamedTargets(self.targets, self.dns, self.gpus)


class FileSections(Section):
    """The slo-scaler configuration file."""

    prometheus: Mapping[Name, PrometheusSection] = Field(default_factory=dict)
    server: ServerSection = ServerSection()
    access: AccessSection = AccessSection()
    cluster: ClusterSection = ClusterSection()
    scrape: Mapping[Name, ScrapeSection] = Field(default_factory=dict)
    profiles: Mapping[Name, ProfileSection] = Field(default_factory=dict)
    classes: Mapping[Name, ClassSection] = Field(default_factory=dict)
    tenants: TenantsSection = TenantsSection()
    prices: Mapping[Gpu, Positive] = Field(default_factory=dict)
    demand: Mapping[Name, DemandSection] = Field(default_factory=dict)
    workloads: Mapping[Annotated[str, Field(pattern=WORKLOAD)], WorkloadSection] = Field(default_factory=dict)
