"""The same traffic twice at the same time: one fleet behind a gateway that refuses, one behind a gateway that does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from scaler.core.model import GateMode
from scaler.demo.addresses import FREE_PORTS, Addresses
from scaler.demo.closing import Closing
from scaler.demo.columns import Both, Column, closing
from scaler.demo.contrast import contrast
from scaler.demo.run import Stage, staged
from scaler.demo.scenario import Scenario
from scaler.demo.summary import Sample, attains
from scaler.demo.traffic import Ending, Outcome
from scaler.settings import Ports


@dataclass(frozen=True, slots=True)
class Pair:
    """Two demos that are up, and that share nothing."""

    gated: Stage
    ungated: Stage

    @property
    def at(self) -> Addresses:
        """Where the one with the gate answers."""
        return self.gated.at

    @property
    def log(self) -> str:
        """The ends of both scalers' logs."""
        return f"{self.gated.log}\nWithout the gate:\n{self.ungated.log}"

    async def play(self, show: Callable[[Both], None]) -> None:
        """Play both, once. ``show`` is given what is seen. Cancelled, both still keep what was seen until then."""
        watched = _Watched(self, show)
        await self.gated.decided()
        await self.ungated.decided()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.gated.play(watched.see_gated))
            group.create_task(self.ungated.play(watched.see_ungated))

    def closing(self) -> Closing | None:
        """What was seen; None before anything was."""
        if self.gated.record is None or self.ungated.record is None:
            return None
        return closing(contrast(self.gated.record, self.ungated.record))


@dataclass(slots=True)
class _Watched:
    """The last that was seen of each, shown together."""

    pair: Pair
    show: Callable[[Both], None]
    gated: Column | None = field(default=None, init=False)
    ungated: Column | None = field(default=None, init=False)

    def see_gated(self, sample: Sample) -> None:
        self.gated = column(sample, self.pair.gated.outcomes)
        self._show()

    def see_ungated(self, sample: Sample) -> None:
        self.ungated = column(sample, self.pair.ungated.outcomes)
        self._show()

    def _show(self) -> None:
        if self.gated is not None and self.ungated is not None:
            self.show(Both(self.gated, self.ungated))


def column(sample: Sample, outcomes: Sequence[Outcome]) -> Column:
    """One fleet now, and what has become of its requests so far."""
    good = sum(map(attains, outcomes))
    return Column(sample, good, sum(outcome.ending is Ending.COMPLETED for outcome in outcomes) - good)


@asynccontextmanager
async def paired(scenario: Scenario, ports: Ports) -> AsyncIterator[Pair]:
    """Start both, and keep them up while the context lasts; the one with the gate listens on ``ports``. Raises as ``staged`` does."""
    gated = replace(scenario, gate=GateMode.ENFORCE, retries=True)
    ungated = replace(gated, gate=GateMode.OBSERVE)
    async with staged(gated, ports) as first, staged(ungated, FREE_PORTS) as second:
        yield Pair(first, second)
