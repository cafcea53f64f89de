"""What happened, as JSON log lines and Prometheus metrics.

A line is written when a decision changes, not every tick, and holds all inputs that recompute it (``core.plain.restore`` and
``core.explain.recompute``). In between a short line follows a load that moves, so that a log can be replayed. Gauges are read off the
board when Prometheus asks, so a thousand workloads cost nothing a tick. Metadata values never come near this module.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from prometheus_client import CollectorRegistry

from scaler.core.decision import Decision, Pending
from scaler.core.explain import binding
from scaler.core.floor import standing
from scaler.core.model import Missing, WorkloadKey
from scaler.core.plain import plain
from scaler.core.retry import age_s
from scaler.telemetry.counts import Counts
from scaler.telemetry.gauges import OnBoard
from scaler.telemetry.libraries import LibraryError
from scaler.telemetry.lines import lines_to
from scaler.telemetry.load import Load, due, load_of
from scaler.telemetry.scrapes import OnScrapes
from scaler.telemetry.seldom import Seldom

if TYPE_CHECKING:
    import grpc

    from scaler.control.board import Board
    from scaler.control.ports import Clock

CLOSE_WITHIN_S = 1.0
DEFAULT_SERVICE = "externalscaler.ExternalScaler"
ON_PROFILES = frozenset({"profile_unmatched", "profile_contradicted", "mix_drift"})
"""Findings that say that what is seen is not what was measured."""


class _Levels:
    """What structlog calls with a rendered line, by the name of its level."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


@dataclass(slots=True)
class _Memory:
    """What was last told of one workload, and what was counted."""

    told: object = None
    load: tuple[float, Load] | None = None
    mismatched: frozenset[str] = frozenset()
    seldom: Seldom = field(default_factory=Seldom)
    scrape_failures: int = 0


class Reporter:
    """Implements ``control.ports.Telemetry`` and is told of RPCs. ``registry`` is what ``/metrics`` shows."""

    def __init__(self, board: Board, clock: Clock, wall: Callable[[], float], stream: TextIO) -> None:
        """``wall`` gives seconds since 1970 and stamps the lines that go to ``stream``, whose reader may stall or go away."""
        self.registry = CollectorRegistry()
        self._clock, self._wall = clock, wall
        self._memories: dict[WorkloadKey, _Memory] = {}
        self._seldom = Seldom()
        self._library_lock, self._library_seldom = threading.Lock(), Seldom()
        self._counts = Counts(self.registry)
        self._lines = lines_to(stream, self._counts.unwritten.inc)
        self._log: Any = structlog.wrap_logger(
            _Levels(self._lines.write),
            processors=[structlog.processors.add_log_level, self._stamped, _rendered],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.registry.register(OnBoard(board, clock))
        self.registry.register(OnScrapes(lambda: [(k, m.scrape_failures) for k, m in self._memories.items()]))

    def listening(self, **ports: int) -> None:
        """The process answers on these ports."""
        self._write("info", "listening", None, **ports)

    def configured(self, faults: tuple[str, ...], warnings: tuple[str, ...] = ()) -> None:
        """A new version of the configuration file was taken, or refused for these faults."""
        self._counts.configuration.set(0 if faults else 1)
        if faults:
            self._write("error", "configuration_refused", None, faults=faults)
        else:
            self._write("info", "configuration", None, warnings=warnings)

    def tls(self, kind: str, sentence: str) -> None:
        """Something about certificates or handshakes happened; told once a minute a kind and sentence at most."""
        held = self._seldom.held_back(("tls", kind, sentence), self._clock())
        if held is not None:
            level = "info" if kind == "certificate_loaded" else "warning"
            self._write(level, "tls", None, kind=kind, message=sentence, suppressed=held)

    def ticked(self, outcome: Decision | Pending, took_s: float) -> None:
        """Count the tick; write a line if it changed something or failed in a new way."""
        self._counts.ticks.observe(took_s)
        memory = self._memory(outcome.key)
        if isinstance(outcome, Pending):
            self._pending(memory, outcome)
            return
        told, now = _told(outcome), self._clock()
        if told != memory.told:
            memory.told, memory.load = told, (now, load_of(outcome))
            self._write("info", "decision", outcome.key, **_decision_line(outcome, now))
        elif not outcome.blind:
            self._follow(memory, outcome, now)
        self._mismatched(memory, outcome)
        self._failing(memory, outcome)

    def looked(self, key: WorkloadKey, missing: Sequence[Missing]) -> None:
        """Count the replicas that one pass over the engines got nothing from."""
        if missing:
            self._memory(key).scrape_failures += len(missing)

    def recalled(self, key: WorkloadKey, note: str) -> None:
        """What was stored for the workload could not be used, or not all of it."""
        self._write("warning", "recalled", key, why=note)

    def led(self, leads: bool, why: str) -> None:  # noqa: FBT001 - a sentence's subject, not a switch
        """Whether this pod is the one that KEDA is led to, and what is wrong with the election."""
        self._counts.leading.set(leads)
        self._write("warning" if why else "info", "leading", None, leads=leads, why=why)

    def unstored(self, sentence: str) -> None:
        """State could not be kept, or read; told once a minute a kind at most."""
        self._counts.unstored.inc()
        held = self._seldom.held_back(("unstored", sentence), self._clock())
        if held is not None:
            self._write("warning", "unstored", None, why=sentence, suppressed=held)

    def unannounced(self, sentence: str) -> None:
        """Kubernetes Events cannot be written; this log has all that they would say."""
        self._write("warning", "unannounced", None, why=sentence)

    def crashed(self, key: WorkloadKey, error: Exception) -> None:
        """Count the crash, and show its traceback once a minute at most."""
        memory = self._memory(key)
        self._counts.crashes.inc()
        held = memory.seldom.held_back(_place(error), self._clock())
        if held is not None:
            self._write("error", "crash", key, suppressed=held, traceback=_traceback(error))

    def forgotten(self, key: WorkloadKey) -> None:
        """Drop what is kept for the workload; its gauges go with its entry on the board."""
        if self._memories.pop(key, None) is not None:
            self._write("info", "forgotten", key)

    def handled(self, method: str, code: str | grpc.StatusCode, took_s: float) -> None:
        """One RPC ended. ``method`` is its name, with ``/service/`` before it unless it is KEDA's."""
        service, name = _method(method)
        self._counts.handled.labels(service, name, code if isinstance(code, str) else code.name).inc()
        self._counts.handling.labels(service, name).observe(took_s)

    def failed(self, method: str, error: Exception) -> None:
        """A handler raised something unexpected; ``method`` is the RPC's or the route's name, never what a stranger sent."""
        self._counts.failures.labels(method).inc()
        held = self._seldom.held_back((method, _place(error)), self._clock())
        if held is not None:
            self._write("error", "handler_failed", None, method=method, suppressed=held, traceback=_traceback(error))

    def library(self, error: LibraryError) -> None:
        """A library complained; told once a minute a kind at most. May be called from any thread."""
        library = error.library.partition(".")[0]
        self._counts.libraries.labels(library).inc()
        kind = (error.library, error.error, error.places[-1:])
        with self._library_lock:
            held = self._library_seldom.held_back(kind, self._clock())
        if held is not None:
            at = {"library": error.library, "error": error.error, "places": error.places}
            self._write(error.level, "library", None, **at, suppressed=held)

    def crowded(self, port: str) -> None:
        """A port holds as many connections as it may, and the one silent longest was closed for another."""
        self._counts.crowded.labels(port).inc()
        held = self._seldom.held_back(("crowded", port), self._clock())
        if held is not None:
            self._write("warning", "crowded", None, port=port, suppressed=held)

    def turned_away(self, port: str, why: str = "no token of theirs is for what they ask") -> None:
        """Callers of a port were turned away, or tokens could not be reviewed; told once a minute, counted every time."""
        self._counts.turned_away.labels(port).inc()
        held = self._seldom.held_back(("turned_away", port, why), self._clock())
        if held is not None:
            self._write("warning", "turned_away", None, port=port, message=why, suppressed=held)

    def close(self, within_s: float = CLOSE_WITHIN_S) -> None:
        """Write what waits for the log's reader, for that many seconds at most; later lines are lost."""
        self._lines.close(within_s)

    def _memory(self, key: WorkloadKey) -> _Memory:
        return self._memories.setdefault(key, _Memory())

    def _pending(self, memory: _Memory, pending: Pending) -> None:
        if memory.told == pending.why:
            return
        memory.told = pending.why
        held = memory.seldom.held_back(("pending", pending.why), self._clock())
        if held is not None:
            self._write("info", "pending", pending.key, why=pending.why, suppressed=held)

    def _follow(self, memory: _Memory, decision: Decision, now: float) -> None:
        """A short line when the load has moved and nothing was decided anew."""
        load = load_of(decision)
        if due(memory.load, load, now):
            memory.load = now, load
            self._write("info", "load", decision.key, desired=decision.desired, load=load)

    def _mismatched(self, memory: _Memory, decision: Decision) -> None:
        """A line when a replica or its load begins to differ from its profile, and when that is over."""
        found = [finding for finding in decision.findings if finding.code in ON_PROFILES]
        codes = frozenset(finding.code for finding in found)
        if codes == memory.mismatched:
            return
        held = memory.seldom.held_back(("profile", codes), self._clock())
        if held is not None:
            memory.mismatched = codes
            self._write("warning" if found else "info", "profile", decision.key, findings=found, suppressed=held)

    def _failing(self, memory: _Memory, decision: Decision) -> None:
        """One line for everything that has just begun to fail, or that has failed for another minute."""
        now = self._clock()
        told, suppressed = [], 0
        for missing in decision.missing:
            held = memory.seldom.held_back(missing, now)
            if held is not None:
                told.append(missing)
                suppressed += held
        went_blind = memory.seldom.held_back("blind", now) if decision.blind else None
        if told or went_blind is not None:
            suppressed = max(suppressed, went_blind or 0)
            self._write("warning", "failing", decision.key, blind=decision.blind, missing=told, suppressed=suppressed)

    def _write(self, level: str, event: str, key: WorkloadKey | None, **fields: object) -> None:
        named = {} if key is None else asdict(key)
        getattr(self._log, level)(event, **named, **fields)

    def _stamped(self, _logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        at = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds")
        return {"at": at, "level": line.pop("level"), "event": line.pop("event"), **line}


def _rendered(_logger: object, _method: str, line: structlog.typing.EventDict) -> str:
    return json.dumps(plain(line), allow_nan=False, ensure_ascii=False)


def _told(decision: Decision) -> object:
    """What must differ for a decision to be worth a line."""
    classes = tuple((verdict.name, verdict.state, verdict.gate) for verdict in decision.classes)
    return decision.desired, decision.state, decision.reason, decision.gate, decision.blind, classes


def _decision_line(decision: Decision, now: float) -> dict[str, object]:
    floor = standing(decision.replicas, now)
    return {
        "sequence": decision.sequence,
        "desired": decision.desired,
        "state": decision.state,
        "reason": decision.reason,
        "runner_up": decision.runner_up,
        "because": binding(decision, now).text,
        "gate": decision.gate,
        "blind": decision.blind,
        "age_s": age_s(decision, now),
        "load": load_of(decision),
        "capacity": decision.estimate.capacity,
        "inputs": decision.recommendation.inputs,
        "shape": decision.shaped.inputs,
        "classes": decision.classes,
        "findings": decision.findings,
        **({} if floor is None else {"floor": floor.replicas, "until": floor.until}),
    }


def _traceback(error: Exception) -> str:
    return "".join(traceback.format_exception(error))


def _place(error: Exception) -> Hashable:
    """The kind of an error: its type and the line that raised it. Its message may differ each time."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__, frames[-1].filename if frames else "", frames[-1].lineno if frames else 0


def _method(method: str) -> tuple[str, str]:
    service, _, name = method.strip("/").rpartition("/")
    return service or DEFAULT_SERVICE, name
