"""From ScaledObjects to workloads that run: what the cluster names is parsed, started, edited and stopped here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler.core.decision import Pending
from scaler.core.shadow import ShadowRole
from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.cluster.scaled_objects import NamedWorkload
    from scaler.control.supervisor import Supervisor
    from scaler.core.model import WorkloadKey
    from scaler.core.step import WorkloadSpec
    from scaler.workload import Bounds

WAITS = "its trigger has keys ending in FromEnv: waits for KEDA, which alone knows their values"

UNWRITTEN = (
    "annotation slo-scaler/shadow: no trigger names this scaler, so write here what its metadata would be, "
    'such as {safeConcurrency: "100", ttftSloSeconds: "2"}'
)


@dataclass(slots=True)
class Directory:
    """Implements ``cluster.discovery.Workloads``. What the configuration file specifies stays as it is there.

    ``parse`` raises ConfigError. ``reparsed`` is called when metadata that was parsed before may mean something else now. ``listed``: the
    file says where the replicas of a workload are. ``unseen`` says why nobody here knows a workload; None without a cluster, where only
    KEDA's word counts.
    """

    supervisor: Supervisor
    parse: Callable[[WorkloadKey, Mapping[str, str]], WorkloadSpec]
    reparsed: Callable[[], None] = lambda: None
    configured: frozenset[WorkloadKey] = frozenset()
    listed: Callable[[WorkloadKey], bool] = lambda _: False
    unseen: Callable[[WorkloadKey], str] | None = None
    _named: dict[WorkloadKey, NamedWorkload] = field(default_factory=dict, init=False)
    _pinned: set[WorkloadKey] = field(default_factory=set, init=False)

    def bounds(self, key: WorkloadKey) -> Bounds | None:
        """The replica counts that the workload's ScaledObject allows, None when there is none that is known."""
        named = self._named.get(key)
        return None if named is None else named.bounds

    def overrides(self, key: WorkloadKey) -> Mapping[str, str]:
        """Trigger metadata that annotations of the workload's ScaledObject replace."""
        named = self._named.get(key)
        return {} if named is None or not named.gate else {"gate": named.gate}

    def role(self, key: WorkloadKey) -> ShadowRole | None:
        """What the triggers of the workload's ScaledObject make a shadow of it; None when there is none that is known."""
        named = self._named.get(key)
        return None if named is None else ShadowRole.ALONE if named.alone else ShadowRole.BESIDE

    def annotated(self, key: WorkloadKey) -> bool:
        """Whether an annotation makes the workload a shadow."""
        named = self._named.get(key)
        return named is not None and named.shadow

    def uid(self, key: WorkloadKey) -> str | None:
        """That of the workload's ScaledObject, None when there is none that is known."""
        named = self._named.get(key)
        return None if named is None else named.uid

    def vouch(self, key: WorkloadKey) -> str:
        """Why a call may not introduce the workload, empty when it may.

        In a cluster it exists if a ScaledObject does that names us, or if the operator's file says where its replicas are: what a call
        says of itself is no proof.
        """
        if self.unseen is None or key in self._named or self.listed(key):
            return ""
        return self.unseen(key)

    def named(self, workload: NamedWorkload) -> None:
        """A ScaledObject names us, or says something else than before."""
        self._named[workload.key] = workload
        self.reparsed()
        self._follow(workload)

    def gone(self, key: WorkloadKey) -> None:
        """It was deleted, or names us no longer."""
        self._named.pop(key, None)
        self._pinned.discard(key)
        self.reparsed()
        if key not in self.configured:
            self.supervisor.forget(key)
            self.supervisor.board.drop(key)  # it may be there and not run
        for waiting in [one for one in self._named.values() if one.key.namespace == key.namespace]:
            if waiting.key not in self.supervisor:  # perhaps for want of the room that there is now
                self._follow(waiting)

    def follow_all(self, configured: frozenset[WorkloadKey]) -> None:
        """The configuration has changed: what its names stand for, and which workloads it specifies itself."""
        self.configured = configured
        for workload in tuple(self._named.values()):
            self._follow(workload)

    def _follow(self, workload: NamedWorkload) -> None:
        """Run it as its ScaledObject says. One that runs already goes on with its last good spec while the new one is faulty."""
        if workload.key in self.configured:
            return
        if workload.shadow and not workload.metadata:
            self._wait(workload.key, UNWRITTEN)
            return
        if not workload.complete:
            self._wait(workload.key, WAITS)
            return
        try:
            spec = self.parse(workload.key, workload.metadata)
        except ConfigError as error:
            self._wait(workload.key, "; ".join(error.faults))
            return
        if workload.key not in self.supervisor and (full := self.supervisor.full(workload.key.namespace)):
            self._wait(workload.key, full)
            return
        self.supervisor.ensure(spec, pinned=True)
        self._pinned.add(workload.key)

    def _wait(self, key: WorkloadKey, why: str) -> None:
        if key in self.supervisor and why != WAITS:
            self.supervisor.warn(
                key, f"its ScaledObject was edited and cannot be used: {why}; the last good trigger stands"
            )
        if key in self._pinned:  # KEDA's own call is answered with the fault, or brings what is missing
            self._pinned.discard(key)
            self.supervisor.release(key)
        elif key not in self.supervisor:
            self.supervisor.board.publish(Pending(key, why))
