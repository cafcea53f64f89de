"""Trigger metadata as it was parsed last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.control.supervisor import Supervisor
    from scaler.core.model import WorkloadKey
    from scaler.core.step import WorkloadSpec

Parse = Callable[["WorkloadKey", Mapping[str, str]], "WorkloadSpec"]
"""Trigger metadata to a spec; raises ConfigError with all faults."""


class Parsed:
    """The last metadata of each workload with its spec: KEDA sends the same map on every call, a dozen times a minute."""

    def __init__(self, parse: Parse, supervisor: Supervisor) -> None:
        """Nothing was parsed yet."""
        self._parse, self._supervisor = parse, supervisor
        self._entries: dict[WorkloadKey, tuple[dict[str, str], WorkloadSpec]] = {}
        self._sweep_above = 64

    def spec(self, key: WorkloadKey, metadata: dict[str, str]) -> WorkloadSpec:
        """The parsed metadata; raises ConfigError, which is not remembered."""
        entry = self._entries.get(key)
        if entry is not None and entry[0] == metadata:
            return entry[1]
        spec = self._parse(key, metadata)
        if len(self._entries) >= self._sweep_above:
            self._sweep()
        self._entries[key] = metadata, spec
        return spec

    def clear(self) -> None:
        """Parse all anew."""
        self._entries.clear()

    def _sweep(self) -> None:
        """Drop what no longer runs; next time when as many have come again, so that it costs nothing on average."""
        self._entries = {key: entry for key, entry in self._entries.items() if key in self._supervisor}
        self._sweep_above = max(64, 2 * len(self._entries))
