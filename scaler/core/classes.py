"""The request classes that need no configuration, by name. A configuration's own class of the same name stands in its place."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from scaler.core.model import Objective, RequestClass

CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1, order=0, floor_ratio=0.02)
"""A person reads along."""
AGENT = RequestClass("agent", ttft_s=5.0, e2e_s=60.0, order=1, floor_ratio=0.05, max_retries=2)
"""A program waits for the whole answer, and tries again by itself."""
BACKGROUND = RequestClass("background", objective=Objective.COMPLETION, deadline_s=600.0, order=2)
"""Somebody will look at it within minutes."""
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=86_400.0, order=3)
"""It has a day."""

BUILT_IN: Mapping[str, RequestClass] = MappingProxyType({one.name: one for one in (CHAT, AGENT, BACKGROUND, BATCH)})
