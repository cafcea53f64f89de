"""Where a setting used to be described."""

from scaler.sim.stage import Setting, Source

__all__ = ["Setting", "Source"]
