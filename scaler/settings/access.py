"""The section ``access``: who may call and read, and what one namespace may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from scaler.api.access import EVERY, Readers
from scaler.control.supervisor import Limits
from scaler.settings.section import Section
from scaler.sources.shares import Share

NAMESPACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ACCOUNT = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
REACH = r"^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$"
CERTIFICATE_NAME = r"^[!-~]([ -~]{0,252}[!-~])?$"
SHAPES = {
    ACCOUNT: "write a ServiceAccount as namespace/name",
    REACH: f'write the name of a namespace, or "{EVERY}" for every one',
    NAMESPACE: "a namespace has at most 63 lower-case letters, digits and -",
    CERTIFICATE_NAME: "a name in a certificate has at most 254 printable ASCII characters",
}
LIMITS, SHARE = Limits(), Share()


@dataclass(frozen=True, slots=True)
class Access:
    """The section as values; what they mean is said at ``AccessSection``. The readers' tokens are those of ``token_file``."""

    keda_names: frozenset[str] = frozenset()
    readers: Readers = Readers()
    token_file: Path | None = None
    limits: Limits = LIMITS
    share: Share = SHARE


class PerNamespaceSection(Section):
    """What one namespace may take. The workloads of this file do not count."""

    workloads: Annotated[int, Field(ge=1, le=5000)] = Field(
        default=LIMITS.in_namespace, description="Workloads that run"
    )
    replicas: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=SHARE.replicas, description="Replicas that are read directly; those beyond count as missing"
    )


class AccessSection(Section):
    """Who may call and read, and what one namespace may take."""

    keda_names: tuple[Annotated[str, Field(pattern=CERTIFICATE_NAME)], ...] = Field(
        default=(),
        description="Port 6000: a client's certificate must bear one of these, as common name or subject alternative name; none named: any "
        "certificate of server.tls.client_ca_file",
    )
    token_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Port 8080: YAML or JSON, the SHA-256 of each token, in hex, to the namespaces whose state may be read with it",
    )
    review_tokens: bool = Field(
        default=False,
        description="Port 8080, in a cluster: ServiceAccounts' tokens for the audience slo-scaler. An account reads its own namespace",
    )
    service_accounts: Mapping[
        Annotated[str, Field(pattern=ACCOUNT)], tuple[Annotated[str, Field(pattern=REACH)], ...]
    ] = Field(
        default_factory=dict,
        description='With review_tokens: what an account, as namespace/name, reads beside its own namespace; "*" is every one',
    )
    pages: Literal["loopback", "open"] = Field(
        default="loopback",
        description="Port 8081, all but probes and metrics: for loopback (kubectl port-forward) and tokens for every namespace, or open",
    )
    per_namespace: PerNamespaceSection = PerNamespaceSection()

    def faults(self, *, asks_for_certificates: bool) -> list[str]:
        """What is wrong with the keys together."""
        if self.keda_names and not asks_for_certificates:
            return ["keda_names: nobody shows a certificate without server.tls.client_ca_file; set it"]
        if self.service_accounts and not self.review_tokens:
            return ["service_accounts: of no use without review_tokens: true"]
        return []

    def value(self) -> Access:
        return Access(
            keda_names=frozenset(self.keda_names),
            readers=Readers(
                tokens=None if self.token_file is None else {},
                accounts=self._accounts() if self.review_tokens else None,
                pages=self.pages,
            ),
            token_file=None if self.token_file is None else Path(self.token_file),
            limits=Limits(in_namespace=self.per_namespace.workloads),
            share=Share(replicas=self.per_namespace.replicas),
        )

    def _accounts(self) -> dict[str, frozenset[str]]:
        return {account: frozenset(namespaces) for account, namespaces in self.service_accounts.items()}
