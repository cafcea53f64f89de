"""One namespace with workloads in it: its pods and its HPAs are listed and watched once, for all of its workloads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from scaler.cluster.following import Cluster, Counts, Following
from scaler.cluster.hpas import Hpa, hpa_of
from scaler.cluster.lives import Times, remember
from scaler.cluster.pod_watch import PodWatch, PodWatches
from scaler.cluster.pods import Pod
from scaler.cluster.reflector import Reflector
from scaler.cluster.scaled_objects import NamedWorkload
from scaler.cluster.selectors import Selector
from scaler.cluster.snapshots import OLD_S, Known, snapshot_of
from scaler.control.ports import Snapshot
from scaler.core.model import Note, WorkloadKey


@dataclass(slots=True)
class _Followed:
    following: Following
    task: asyncio.Task[None] | None = None


class Namespace:
    """Follows the workloads of one namespace. ``snapshot`` answers from memory."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        """Nothing is followed yet."""
        self._name, self._cluster, self._began_at = name, cluster, cluster.clock()
        self._followed: dict[WorkloadKey, _Followed] = {}
        self._changed = asyncio.Event()
        self._watches = PodWatches(self._watch)
        path = f"/apis/autoscaling/v2/namespaces/{name}/horizontalpodautoscalers"
        self._hpas: Reflector[Hpa] = Reflector(cluster.api, path, hpa_of, cluster.pace, changed=self._changed.set)

    @property
    def idle(self) -> bool:
        """Whether no workload is left here."""
        return not self._followed

    def put(self, named: NamedWorkload) -> None:
        """Follow a workload, or take what its ScaledObject says now."""
        if named.key in self._followed:
            self._followed[named.key].following.edit(named)
        else:
            self._followed[named.key] = _Followed(Following(named, self._cluster))
        self._changed.set()

    def drop(self, key: WorkloadKey) -> None:
        """Follow a workload no longer."""
        followed = self._followed.pop(key)
        if followed.task is not None:
            followed.task.cancel()

    def why(self, key: WorkloadKey) -> str:
        """Why there is no snapshot of a workload that is followed; empty when there is one."""
        following = self._followed[key].following
        if following.scale is None:
            return following.why or f"the scale of {following.named.target} has not been read yet"
        if self._watches.covering(following.scale.selector) is not None:
            return ""
        return self._watches.why or "its pods have not been listed yet"

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas of a workload that is followed, None while they are not known."""
        now = self._cluster.clock()
        known = self._look(self._followed[key].following, now)
        return None if known is None else snapshot_of(known, now)

    async def run(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hpas.run(), name=f"HPAs of {self._name}")
            while True:
                self._changed.clear()
                self._settle(group)
                await self._changed.wait()

    def _settle(self, group: asyncio.TaskGroup) -> None:
        """Start what is needed and not there, and take in what the watches brought."""
        for key, followed in self._followed.items():
            if followed.task is None:
                followed.task = group.create_task(followed.following.run(self._changed), name=f"scale of {key}")
        followings = [followed.following for followed in self._followed.values()]
        self._watches.switch()
        if all(one.asked for one in followings):  # those that come together get one list together
            self._watches.cover(frozenset(one.scale.selector for one in followings if one.scale is not None), group)
        now = self._cluster.clock()
        for following in followings:
            if known := self._look(following, now):
                self._follow_up(following, known)

    def _watch(self, selectors: frozenset[Selector]) -> PodWatch:
        return PodWatch(self._cluster.api, self._cluster.pace, self._name, selectors, self._changed)

    def _look(self, following: Following, now: float) -> Known | None:
        """What is known of a workload; its memory then knows it, too."""
        scale = following.scale
        watch = None if scale is None else self._watches.covering(scale.selector)
        if scale is None or watch is None:
            return None
        pods, observed_at = watch.pods(scale.selector), watch.reflector.contact_at
        times = Times(now, observed_at, self._cluster.offset_s)
        following.memory = remember(following.memory, pods, times, self._class_of)
        return Known(
            named=following.named,
            scale=scale,
            pods=pods,
            memory=following.memory,
            observed_at=observed_at,
            hpa=self._hpas.items.get(f"{self._name}/{following.named.hpa_name}"),
            class_of=self._class_of,
            settled=lambda pod: self._cluster.nodes.settled(pod.node),
            stale=watch.reflector.why,
            faults=self._faults(following, watch, now),
            offset_s=self._cluster.offset_s,
            asked_since=following.asked_since,
            hpas_known=self._hpas.listed,
        )

    def _follow_up(self, following: Following, known: Known) -> None:
        """Ask about what the pods and the HPA point to: the scale when a number changed, the nodes where replicas are."""
        hpa = known.hpa
        alive = sum(pod.alive for pod in known.pods)
        following.counted(Counts(alive, *((hpa.desired, hpa.current) if hpa is not None else (0, 0))))
        self._cluster.nodes.want(pod.node for pod in known.pods if pod.alive)

    def _class_of(self, pod: Pod) -> str:
        return self._cluster.nodes.class_of(pod.node) or pod.node_hint

    def _faults(self, following: Following, watch: PodWatch, now: float) -> tuple[Note, ...]:
        """What could not be read, beside the list of pods as a whole."""
        unreadable = (watch.reflector.unreadable, self._hpas.unreadable)
        notes = [Note("unreadable", text) for text in unreadable if text]
        if following.why:
            age = now - following.scale_at
            notes.append(Note("scale_old", f"the count that is asked for was read {age:.0f} s ago: {following.why}"))
        if self._hpas.why and now - max(self._hpas.contact_at, self._began_at) > OLD_S:
            text = f"the state of HPA {following.named.hpa_name} is not known: {self._hpas.why}"
            notes.append(Note("hpa_unknown", text))
        if self._cluster.nodes.fault:
            notes.append(Note("node_class_unknown", f"the kind of node is not known: {self._cluster.nodes.fault}"))
        return tuple(notes)
