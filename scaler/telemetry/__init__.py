"""What happened, as JSON log lines and Prometheus metrics."""

from scaler.telemetry.reporter import Reporter

__all__ = ["Reporter"]
