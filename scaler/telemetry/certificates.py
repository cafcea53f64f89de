"""What Prometheus sees of the certificates behind our TLS ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class Certified(Protocol):
    """Knows the certificates in use."""

    @property
    def fault(self) -> str:
        """Why the files as they are now are not in use; empty when they are."""
        ...

    @property
    def expiries(self) -> Mapping[str, float]:
        """When each file in use expires, in seconds since 1970."""
        ...

    @property
    def refusals(self) -> Mapping[str, int]:
        """Failed handshakes by kind."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class OnCertificates(Collector):
    """Expiry, a reload that fails, and refused clients, as they are when Prometheus asks."""

    certified: Certified

    def collect(self) -> Iterator[Metric]:
        """One family after the other."""
        expiry = GaugeMetricFamily(
            "slo_scaler_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires, in seconds since 1970",
            labels=("file",),
        )
        for file, at in self.certified.expiries.items():
            expiry.add_metric((file,), at)
        yield expiry
        yield GaugeMetricFamily(
            "slo_scaler_certificate_reload_failing",
            "1 while the files of the certificate cannot be used and older ones serve",
            value=float(bool(self.certified.fault)),
        )
        refused = CounterMetricFamily(
            "slo_scaler_tls_refused", "Clients that did not get through the TLS handshake", labels=("kind",)
        )
        for kind, count in sorted(self.certified.refusals.items()):
            refused.add_metric((kind,), count)
        yield refused
