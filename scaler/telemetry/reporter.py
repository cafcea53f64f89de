"""What happened, as JSON log lines and Prometheus metrics.

A line is written when a decision changes, not every tick, and holds all inputs that recompute it (``core.plain.restore`` and
``core.explain.recompute``). Gauges are read off the board when Prometheus asks, so a thousand workloads cost nothing a tick. Metadata
values never come near this module.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from scaler.core.decision import Decision, Pending
from scaler.core.explain import binding
from scaler.core.model import Missing, WorkloadKey
from scaler.core.plain import plain
from scaler.core.retry import age_s
from scaler.telemetry.gauges import WORKLOAD, OnBoard

if TYPE_CHECKING:
    import grpc

    from scaler.control.board import Board
    from scaler.control.ports import Clock

REPEAT_S = 60.0
"""How often a failure that goes on is told again."""
REMEMBERED_KINDS = 256
TICK_BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0)
RPC_BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 60.0, 600.0)
DEFAULT_SERVICE = "externalscaler.ExternalScaler"


class _Seldom:
    """Lets the first of a kind through, then one a minute, with the number of those that were held back."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[float, int]] = {}
        self._enough = REMEMBERED_KINDS

    def held_back(self, kind: Hashable, now: float) -> int | None:
        """How many of that kind were held back before this one; None when this one is, too."""
        told_at, held = self._last.get(kind, (None, 0))
        if told_at is not None and now - told_at < REPEAT_S:
            self._last[kind] = told_at, held + 1
            return None
        if len(self._last) >= self._enough:
            self._last = {k: last for k, last in self._last.items() if now - last[0] < REPEAT_S}
            self._enough = max(
                REMEMBERED_KINDS, 2 * len(self._last)
            )  # so that cleaning is rare even when all are fresh
        self._last[kind] = now, 0
        return held


@dataclass(slots=True)
class _Memory:
    """What was last told of one workload, and what was counted."""

    told: object = None
    seldom: _Seldom = field(default_factory=_Seldom)
    scrape_failures: int = 0


class Reporter:
    """Implements ``control.ports.Telemetry`` and is told of RPCs. ``registry`` is what ``/metrics`` shows."""

    def __init__(self, board: Board, clock: Clock, wall: Callable[[], float], stream: TextIO) -> None:
        """``wall`` gives seconds since 1970 and stamps the lines that go to ``stream``."""
        self.registry = CollectorRegistry()
        self._clock, self._wall = clock, wall
        self._memories: dict[WorkloadKey, _Memory] = {}
        self._seldom = _Seldom()
        self._log: Any = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, self._stamped, _rendered],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        told = self.registry
        self._ticks = Histogram(
            "slo_scaler_tick_duration_seconds", "Duration of one tick", registry=told, buckets=TICK_BUCKETS_S
        )
        self._crashes = Counter("slo_scaler_crashes", "Ticks that raised something unexpected", registry=told)
        self._failures = Counter(
            "slo_scaler_handler_failures", "Unexpected errors in handlers", ("method",), registry=told
        )
        self._configuration = Gauge(
            "slo_scaler_configuration_valid", "1 while the newest configuration file is the one in use", registry=told
        )
        self._unwritten = Counter("slo_scaler_log_lines_lost", "Log lines that could not be written", registry=told)
        self._handled = Counter(
            "grpc_server_handled", "RPCs ended", ("grpc_service", "grpc_method", "grpc_code"), registry=told
        )
        self._handling = Histogram(
            "grpc_server_handling_seconds",
            "Duration of RPCs",
            ("grpc_service", "grpc_method"),
            registry=told,
            buckets=RPC_BUCKETS_S,
        )
        told.register(OnBoard(board, clock))
        told.register(_Counted(self._memories))

    def listening(self, **ports: int) -> None:
        """The process answers on these ports."""
        self._write("info", "listening", None, **ports)

    def configured(self, faults: tuple[str, ...], warnings: tuple[str, ...] = ()) -> None:
        """A new version of the configuration file was taken, or refused for these faults."""
        self._configuration.set(0 if faults else 1)
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
        self._ticks.observe(took_s)
        memory = self._memory(outcome.key)
        if isinstance(outcome, Pending):
            self._pending(memory, outcome)
            return
        told = _told(outcome)
        if told != memory.told:
            memory.told = told
            self._write("info", "decision", outcome.key, **_decision_line(outcome, self._clock()))
        self._failing(memory, outcome)

    def looked(self, key: WorkloadKey, missing: Sequence[Missing]) -> None:
        """Count the replicas that one pass over the engines got nothing from."""
        if missing:
            self._memory(key).scrape_failures += len(missing)

    def crashed(self, key: WorkloadKey, error: Exception) -> None:
        """Count the crash, and show its traceback once a minute at most."""
        memory = self._memory(key)
        self._crashes.inc()
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
        self._handled.labels(service, name, code if isinstance(code, str) else code.name).inc()
        self._handling.labels(service, name).observe(took_s)

    def failed(self, method: str, error: Exception) -> None:
        """A handler raised something unexpected; ``method`` is the RPC's or the route's name, never what a stranger sent."""
        self._failures.labels(method).inc()
        held = self._seldom.held_back((method, _place(error)), self._clock())
        if held is not None:
            self._write("error", "handler_failed", None, method=method, suppressed=held, traceback=_traceback(error))

    def _memory(self, key: WorkloadKey) -> _Memory:
        return self._memories.setdefault(key, _Memory())

    def _pending(self, memory: _Memory, pending: Pending) -> None:
        if memory.told == pending.why:
            return
        memory.told = pending.why
        held = memory.seldom.held_back(("pending", pending.why), self._clock())
        if held is not None:
            self._write("info", "pending", pending.key, why=pending.why, suppressed=held)

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
        """A log that cannot be written (a closed pipe, a full disk) must not stop scaling."""
        named = {} if key is None else asdict(key)
        try:
            getattr(self._log, level)(event, **named, **fields)
        except (OSError, ValueError):
            self._unwritten.inc()

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
        "inputs": decision.recommendation.inputs,
        "shape": decision.shaped.inputs,
        "classes": decision.classes,
        "findings": decision.findings,
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


@dataclass(frozen=True, slots=True, eq=False)
class _Counted(Collector):
    """What was counted for each workload that is not forgotten."""

    memories: dict[WorkloadKey, _Memory]

    def collect(self) -> Iterator[Metric]:
        """One series a workload."""
        failures = CounterMetricFamily(
            "slo_scaler_scrape_failures", "Passes over a ready replica that brought no reading", labels=WORKLOAD
        )
        for key in sorted(self.memories):
            failures.add_metric((key.namespace, key.name), self.memories[key].scrape_failures)
        yield failures
