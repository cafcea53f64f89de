"""The engines we can read, by the name a user writes. To add one: a file with its row, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from scaler.engines.row import Engine
from scaler.engines.sglang import SGLANG
from scaler.engines.vllm import VLLM

__all__ = ["ENGINES", "Engine"]

ENGINES: Mapping[str, Engine] = MappingProxyType({row.name: row for row in (VLLM, SGLANG)})
