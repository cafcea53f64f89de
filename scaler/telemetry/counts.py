"""What is counted and timed as it happens."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

TICK_BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0)
RPC_BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 60.0, 600.0)


class Counts:
    """Every counter and histogram of the process, on one registry."""

    def __init__(self, told: CollectorRegistry) -> None:
        """All are zero."""
        self.unwritten = Counter("slo_scaler_log_lines_lost", "Log lines that were not written", registry=told)
        self.ticks = Histogram(
            "slo_scaler_tick_duration_seconds", "Duration of one tick", registry=told, buckets=TICK_BUCKETS_S
        )
        self.crashes = Counter("slo_scaler_crashes", "Ticks that raised something unexpected", registry=told)
        self.failures = Counter(
            "slo_scaler_handler_failures", "Unexpected errors in handlers", ("method",), registry=told
        )
        self.configuration = Gauge(
            "slo_scaler_configuration_valid", "1 while the newest configuration file is the one in use", registry=told
        )
        self.leading = Gauge(
            "slo_scaler_leading", "1 in the pod that KEDA is led to, 1 without a cluster", registry=told
        )
        self.leading.set(1)
        self.unstored = Counter("slo_scaler_store_outages", "Times that state began not to be kept", registry=told)
        self.libraries = Counter(
            "slo_scaler_library_errors",
            "What libraries complained of, like malformed requests",
            ("library",),
            registry=told,
        )
        self.crowded = Counter(
            "slo_scaler_connections_crowded_out", "Silent connections closed for others", ("port",), registry=told
        )
        self.turned_away = Counter(
            "slo_scaler_callers_turned_away", "Callers without a token for what they asked", ("port",), registry=told
        )
        self.handled = Counter(
            "grpc_server_handled", "RPCs ended", ("grpc_service", "grpc_method", "grpc_code"), registry=told
        )
        self.handling = Histogram(
            "grpc_server_handling_seconds",
            "Duration of RPCs",
            ("grpc_service", "grpc_method"),
            registry=told,
            buckets=RPC_BUCKETS_S,
        )
