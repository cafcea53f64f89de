"""One Prometheus over HTTP: PromQL in, samples or one reason out.

The queries go through prometheus-api-client, which blocks, so they run in a few threads of their own; decoding an
answer of a megabyte happens there too. The session is ours: no proxy, credentials or CA from the environment, no
retry (the next poll is the retry), and the bounds of ``prometheus_http``.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from scaler.control.ports import Clock
from scaler.engines.row import Sample
from scaler.errors import ConfigError, SourceError
from scaler.sources.prometheus_http import Adapter, Decoded, fault, reason, refusal, said, short, value_of

T = TypeVar("T")

LANES = 2
"""Queries under way at once. More would not help one Prometheus, and every thread that decodes competes with the event loop."""
GRACE_S = 0.5
STALE_INTERVALS, SHORTEST_STALE_S = 3, 10.0
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where a Prometheus is and how it is asked. Only an operator's configuration says so, never a trigger.

    ``interval_s`` is how often it is asked, best its own scrape interval. The labels carry the namespace and the name
    of a pod (``exported_...`` where Prometheus renamed the target's own). ``timeout_s`` bounds one poll. Token and CA
    are read again when their files change. Raises ConfigError for a label that is none.
    """

    url: str
    interval_s: float = 15.0
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    bearer_token_file: str | None = None
    ca_file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        labels = {"labels.namespace": self.namespace_label, "labels.pod": self.pod_label}
        wrong = [key for key, label in labels.items() if not _LABEL_NAME.fullmatch(label)]
        if wrong:
            raise ConfigError(*(f"{key}: a label name has letters, digits and _ only" for key in wrong))

    @property
    def stale_s(self) -> float:
        """Seconds after which a sample no longer counts."""
        return max(SHORTEST_STALE_S, STALE_INTERVALS * self.interval_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """The samples of an instant query. ``evaluated_at`` in the server's seconds, None of no sample; ``partial`` says what is missing."""

    samples: tuple[Sample, ...]
    evaluated_at: float | None
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants of the server's clock: each ``step_s`` from ``begins_at`` to ``ends_at``, in whole seconds."""

    begins_at: int
    ends_at: int
    step_s: int


@dataclass(frozen=True, slots=True)
class Course:
    """One number over the instants of a grid, by their index; those without a finite number are not there. ``partial`` as above."""

    values: Mapping[int, float] = field(default_factory=dict)
    partial: str = ""


class PrometheusApi:
    """Asks one Prometheus. Queries block and belong into ``off_loop`` where more is done. ``close`` when nobody asks any more."""

    def __init__(self, settings: PrometheusSettings, clock: Clock) -> None:
        """Opens nothing yet. ``clock`` gives monotonic seconds and is called from threads too."""
        self.settings = settings
        self.clock = clock
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="prometheus")
        self._own = threading.local()
        self._lanes: list[_Lane] = []

    async def off_loop(self, work: Callable[[], T], deadline: float) -> T:
        """The result of ``work`` in one of the threads. SourceError from it, or when the deadline has passed.

        A thread that is late (a resolver knows no time limit) is left to itself; its result goes nowhere.
        """
        try:
            async with asyncio.timeout(max(0.0, deadline - self.clock()) + GRACE_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise self.late() from None

    def query(self, promql: str, deadline: float, at: float | None = None) -> Answer:
        """An instant query, at the server's time ``at`` or now. Raises SourceError with one short phrase, and nothing else."""
        return self._asked(partial(_Lane.query, promql=promql, at=at), deadline)

    def query_range(self, promql: str, grid: Grid, deadline: float) -> Course:
        """What a query that gives one number gave at each instant of a grid. Raises SourceError likewise."""
        return self._asked(partial(_Lane.query_range, promql=promql, grid=grid), deadline)

    def _asked(self, ask: Callable[[_Lane, float], T], deadline: float) -> T:
        left_s = deadline - self.clock()
        if left_s <= 0:
            raise self.late()
        try:
            return ask(self._lane(), left_s)
        except requests.exceptions.Timeout:
            raise self.late() from None
        except (requests.exceptions.RequestException, OSError, UnicodeError) as error:
            raise SourceError(reason(error)) from error

    def late(self) -> SourceError:
        """What is said of a Prometheus that does not answer in time."""
        return SourceError(f"timeout after {self.settings.timeout_s:g} s")

    async def close(self) -> None:
        """Let what is under way end, for at most ``timeout_s``, and close the connections."""
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)
        for lane in self._lanes:
            lane.close()

    def _lane(self) -> _Lane:
        """This thread's own session, opened anew when a file of the settings has changed."""
        paths = (self.settings.bearer_token_file, self.settings.ca_file)
        files = tuple(_version(path) for path in paths if path is not None)
        lane: _Lane | None = getattr(self._own, "lane", None)
        if lane is None or lane.files != files:
            if lane is not None:
                self._lanes.remove(lane)
                lane.close()
            lane = self._own.lane = _Lane(self.settings, files, self.clock)
            self._lanes.append(lane)
        return lane


class _Lane:
    """One session, used by one thread."""

    def __init__(self, settings: PrometheusSettings, files: tuple[object, ...], clock: Clock) -> None:
        self.files = files
        self._clock = clock
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = settings.ca_file or True
        self._connect = PrometheusConnect(
            url=settings.url.rstrip("/"), headers=_headers(settings), session=self._session, method="POST"
        )
        self._adapter = Adapter(clock)
        for prefix in ("http://", "https://", self._connect.url):  # the library has mounted one of its own
            self._session.mount(prefix, self._adapter)

    def query(self, left_s: float, promql: str, at: float | None) -> Answer:
        params = {"timeout": f"{left_s:.3f}"} | ({} if at is None else {"time": repr(at)})
        ask = partial(self._connect.custom_query, promql, params=params, timeout=left_s)
        return _answer(self._result(ask, left_s), self._adapter.answer)

    def query_range(self, left_s: float, promql: str, grid: Grid) -> Course:
        begins_at, ends_at = (datetime.fromtimestamp(at, UTC) for at in (grid.begins_at, grid.ends_at))
        params = {"timeout": f"{left_s:.3f}"}
        ask = partial(
            self._connect.custom_query_range, promql, begins_at, ends_at, str(grid.step_s), params, timeout=left_s
        )
        return _course(self._result(ask, left_s), grid, self._adapter.answer)

    def _result(self, ask: Callable[[], Any], left_s: float) -> Any:
        self._adapter.begin(left_s)
        try:
            return ask()
        except PrometheusApiClientException:
            raise SourceError(refusal(self._adapter.answer)) from None
        except (KeyError, TypeError, AttributeError, RecursionError, requests.exceptions.JSONDecodeError):
            raise SourceError(fault(self._adapter.answer)) from None

    def close(self) -> None:
        self._session.close()


def _headers(settings: PrometheusSettings) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **dict(settings.headers)}
    if settings.bearer_token_file is not None:
        with open(settings.bearer_token_file, encoding="utf-8") as file:  # noqa: PTH123 - a path is all there is
            headers["Authorization"] = f"Bearer {file.read().strip()}"
    return headers


def _version(path: str) -> tuple[int, int, int]:
    found = os.stat(path)  # noqa: PTH116 - likewise
    return found.st_mtime_ns, found.st_size, found.st_ino


def _answer(result: Any, response: Decoded) -> Answer:
    """A vector, or a scalar as a vector of one without labels."""
    lacks = _lacks(response.document)
    if response.evaluated_at is not None or not result:
        return Answer(tuple(result), response.evaluated_at, lacks)
    try:  # a scalar, or a vector that is spelled in another order
        rows = (
            [({**row["metric"]}, row["value"]) for row in result] if isinstance(result[0], Mapping) else [({}, result)]
        )
        samples = tuple(Sample(labels, value_of(value)) for labels, (_, value) in rows)
        return Answer(samples, float(rows[0][1][0]), lacks)
    except (KeyError, IndexError, TypeError, ValueError):
        raise SourceError("result is no vector of numbers") from None


def _course(result: Any, grid: Grid, response: Decoded) -> Course:
    """A matrix of at most one series."""
    lacks = _lacks(response.document)
    if not result:
        return Course(partial=lacks)
    if len(result) > 1:
        raise SourceError(f"{len(result)} series instead of one")
    try:
        points = [(float(at), value_of(value)) for at, value in result[0]["values"]]
        values = {round((at - grid.begins_at) / grid.step_s): value for at, value in points if math.isfinite(value)}
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SourceError("result is no matrix of numbers") from None
    return Course(values, lacks)


def _lacks(document: Any) -> str:
    """What an answer says that it lacks. Raises SourceError for one that is no success."""
    if document.get("status") != "success":
        raise SourceError(said(document) or "status is not success")
    warnings = document.get("warnings")
    if not warnings and document.get("isPartial") is True:
        warnings = ["the server says so"]  # as VictoriaMetrics does
    return short("; ".join(map(str, warnings))) if isinstance(warnings, list) else ""
