"""Replicas in virtual time, pure: one alone (``Replica``), or a fleet with clients, a gateway and a law (``play.Play``).

Time is an argument, chance is a seed, and the core that reads them is the real one. How to see what becomes of a trace::

    setting = Setting(spec, Platform(preset, replicas=4, max_replicas=32, starts=Lognormal(180.0, 260.0)), seed=1)
    law = tuned(LAWS["kserve-running"], {"target": 100.0})
    run = Play(setting, Open(), law).until(3600.0, arrivals)

* ``stage.Setting``: ``spec`` is a whole ``core.step.WorkloadSpec``. Every law gets its bounds (``spec.scaling``), its objectives and
  its safe rate from there; ours is all of it, the gate included (``spec.gate``).
* ``cluster.Platform``: the replicas (``presets.PRESETS``), how long they take to start (``presets.STARTS``, ``starts.Lognormal``,
  ``Normal``, ``Measured``, ``Mixture``, ``NEVER``), whether they are slow at first (``Warming``), the router (``routing.LeastLoaded``,
  ``RoundRobin``, ``Sticky``), and a ``limit`` of requests under way for each.
* ``laws.LAWS``: a frozen value for each law, by name, with its documented parameters; ``laws.parameters`` lists and ``laws.tuned``
  changes its numbers; ``dataclasses.replace`` changes the rest, such as how the fleet follows (``actuators.Keda``: behavior,
  tolerance with both generations, metric type, polling; ``actuators.Direct``).
* ``gateways``: ``Open()`` lets all in; the others act on our law's decisions. A gateway belongs to one run.
* ``play.Run``: ``calls`` (a request over all its attempts), ``attempts``, ``seconds`` (what was in the replicas, ready and existing),
  ``decisions`` (ours only), ``asked`` (what the law asked for at each sync, and what there then was), and ``replicas``: each ``Life``
  from creation to the end of draining, so that GPU time is the sum of ``life.seconds(end) * preset.gpus``.
"""

from scaler.sim.meters import PROMPT_EDGES_TOKENS, QUEUE_EDGES_S, TPOT_EDGES_S, TTFT_EDGES_S, Accumulator
from scaler.sim.presets import PRESETS, Preset
from scaler.sim.replica import Replica
from scaler.sim.values import (
    Coefficients,
    Counters,
    EngineLimits,
    Event,
    Finished,
    FirstToken,
    Preempted,
    Request,
    RequestId,
)

__all__ = [
    "PRESETS",
    "PROMPT_EDGES_TOKENS",
    "QUEUE_EDGES_S",
    "TPOT_EDGES_S",
    "TTFT_EDGES_S",
    "Accumulator",
    "Coefficients",
    "Counters",
    "EngineLimits",
    "Event",
    "Finished",
    "FirstToken",
    "Preempted",
    "Preset",
    "Replica",
    "Request",
    "RequestId",
]
