"""The composition root: builds every object, listens, follows the configuration, and stops in the order that KEDA does not mind."""

from scaler.app.serving import Bound, Wiring, running, serve

__all__ = ["Bound", "Wiring", "running", "serve"]
