"""Without a cluster: the replicas of a workload are the pods of its namespace that serve its model, as Prometheus sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.control.ports import Clock, Snapshot, Target
from scaler.core.model import ReplicaSet, WorkloadKey
from scaler.engines.row import Engine
from scaler.sources.prometheus import Polled, PrometheusSource


@dataclass(frozen=True, slots=True)
class Sought:
    """By what a workload's replicas are recognised in its namespace."""

    engine: Engine
    model_name: str | None


class PrometheusReplicas:
    """The ``Replicas`` port over the polls of one source, whose ``run`` must be running. ``snapshot`` answers from memory.

    ``sought`` tells what a workload looks for, None when it is not this Prometheus that knows its replicas.

    A pod that stays away from the answers leaves when its last sample is stale: until then it is a ready replica that
    is missing, because a scrape that failed once looks the same. When all pods vanish at once, the fleet is not taken
    for empty: a Prometheus that lost its targets looks like that, and a fleet that is gone needs no scaler. The last
    list then stands, and its age shows. Starting replicas are not known here.
    """

    def __init__(self, source: PrometheusSource, sought: Callable[[WorkloadKey], Sought | None], clock: Clock) -> None:
        """Nothing has been seen yet."""
        self._source = source
        self._sought = sought
        self._clock = clock
        self._last: dict[WorkloadKey, Snapshot] = {}

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas of the newest poll, None when none were ever seen. Asks that the next polls look for them."""
        sought = self._sought(key)
        if sought is None or sought.model_name is None:
            self._last.pop(key, None)
            return None
        self._source.wish(sought.engine, key.namespace)
        polled = self._source.polled(sought.engine, key.namespace)
        pods = () if polled is None else self._pods(polled, sought.model_name)
        if polled is not None and polled.answered_at is not None and pods:
            targets = tuple(Target(pod, "") for pod in pods)
            self._last[key] = Snapshot(ReplicaSet(pods, (), len(pods), polled.answered_at), targets)
        return self._last.get(key)

    def why(self, key: WorkloadKey) -> str:
        """Why there is no snapshot, in one phrase; empty when there is one or the workload is not sought here."""
        sought = self._sought(key)
        if sought is None or key in self._last:
            return ""
        if sought.model_name is None:
            return "nothing tells which replicas there are: set modelName, or name targets"
        polled = self._source.polled(sought.engine, key.namespace)
        if polled is None:
            return "Prometheus has not answered yet"
        nobody = f"Prometheus sees no pod in {key.namespace} that serves the model in modelName"
        return polled.why or (polled.partial and f"partial answer: {polled.partial}") or nobody

    def _pods(self, polled: Polled, model_name: str) -> tuple[str, ...]:
        """While Prometheus does not answer, or not whole, nobody leaves."""
        stale_s = 0.0 if polled.why or polled.partial else self._source.settings.stale_s
        oldest = self._clock() - stale_s if stale_s else float("-inf")
        return tuple(
            sorted(pod for pod, page in polled.kept.items() if model_name in page.models and page.observed_at >= oldest)
        )
