"""Ray Serve's request-based autoscaling."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from scaler.core.target import whole
from scaler.sim.actuators import Direct
from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class RayServe:
    """Ongoing requests, queued ones included, over ``target_ongoing`` a replica.

    Source: ray/serve/config.py, ``AutoscalingConfig``: target_ongoing_requests 2, look_back_period_s 30, upscale_delay_s 30,
    downscale_delay_s 600, metrics averaged over the look-back; ray/serve/autoscaling_policy.py: a change is made when the wish for one
    in that direction has lasted for the delay; a wish in the other direction starts it anew. Its controller looks every 0.1 s, here
    every ``every_s``. The safe concurrency is the natural target.
    """

    target_ongoing: float = 2.0
    look_back_s: float = 30.0
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    every_s: float = 1.0

    @property
    def follows(self) -> Follows:
        """Its controller starts replicas itself."""
        return Direct(self.every_s, phase_s=self.every_s)

    def start(self, stage: Stage) -> RayController:
        """No request has been seen."""
        return RayController(self, stage)


class RayController:
    """What Ray Serve's controller remembers. Mutable, one owner."""

    def __init__(self, law: RayServe, stage: Stage) -> None:
        """It asks for what there is."""
        self._law = law
        self._fleet = stage.fleet
        self._ongoing: deque[tuple[float, int]] = deque()
        self._wished_since: tuple[int, float] = (0, 0.0)

    def value(self, now: float) -> float | None:
        """The count of replicas after this look."""
        wanted, current = whole(self._mean_ongoing(now) / self._law.target_ongoing), self._fleet.existing
        sign = (wanted > current) - (wanted < current)
        if sign != self._wished_since[0]:
            self._wished_since = (sign, now)
        delay_s = self._law.upscale_delay_s if sign > 0 else self._law.downscale_delay_s
        if sign == 0 or now - self._wished_since[1] < delay_s:
            return float(current)
        self._wished_since = (0, now)
        return float(wanted)

    def active(self, now: float) -> bool:  # noqa: ARG002 - nobody asks: it scales itself
        """It has bounds of its own."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""

    def _mean_ongoing(self, now: float) -> float:
        """Over the look-back, as its handles and replicas report them."""
        seen = self._ongoing
        seen.append((now, sum(self._fleet.in_engines(now))))
        while seen[0][0] <= now - self._law.look_back_s:
            seen.popleft()
        return sum(ongoing for _, ongoing in seen) / len(seen)
