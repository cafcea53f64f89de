"""A fleet that stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class Static:
    """So many ``replicas`` from the beginning to the end; None: those that stand there at first."""

    replicas: int | None = None
    follows: Follows | None = None

    def start(self, stage: Stage) -> Standing:
        """Let them stand ready."""
        if self.replicas is not None:
            stage.fleet.stand(self.replicas)
        return Standing(stage.fleet.existing)


class Standing:
    """It always asks for the same."""

    def __init__(self, replicas: int) -> None:
        """So many replicas."""
        self._replicas = replicas

    def value(self, now: float) -> float | None:  # noqa: ARG002 - the protocol's
        """As ever."""
        return float(self._replicas)

    def active(self, now: float) -> bool:  # noqa: ARG002 - the protocol's
        """As ever."""
        return self._replicas > 0

    def nudge(self, now: float) -> None:
        """It does not look."""
