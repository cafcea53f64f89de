"""A fake of Prometheus' HTTP API: evaluates the few shapes of query that we send, and can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

Series = tuple[dict[str, str], float, float]
"""Labels with ``__name__``, value, and the time of its newest sample."""

NOW = 1_700_000_000.0
_SELECTOR = re.compile(r"\{([^{}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')
_BY = re.compile(r"(?:max|count) by \(([^)]*)\)")


def page_series(page: bytes, pod: str, namespace: str = "prod", at: float = NOW, **labels: str) -> list[Series]:
    """What Prometheus stores of a page, with ``up``."""
    target = {"namespace": namespace, "pod": pod, "instance": f"{pod}:8000", **labels}
    found: list[Series] = [({"__name__": "up", **target}, 1.0, at)]
    for family in text_string_to_metric_families(page.decode()):
        found += [({"__name__": s.name, **s.labels, **target}, s.value, at) for s in family.samples]
    return found


def vector(series: Iterable[tuple[Mapping[str, str], float]], at: float = NOW, **beside: Any) -> dict[str, Any]:
    rows = [{"metric": labels, "value": [at, text(value)]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": rows}, **beside}


def text(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(repr(value), repr(value))


@dataclass
class FakePrometheus:
    """``series`` are its content at ``now``; ``misbehave`` may answer in its place; ``beside`` stands beside every result."""

    series: list[Series] = field(default_factory=list)
    now: float = NOW
    beside: dict[str, Any] = field(default_factory=dict)
    misbehave: Callable[[web.Request], Awaitable[web.StreamResponse | None]] | None = None
    queries: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    hold: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.queries.append(str(form.get("query")))
        self.headers.append(dict(request.headers))
        self.asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.misbehave is not None and (other := await self.misbehave(request)) is not None:
            return other
        at = float(str(form.get("time", self.now)))
        return web.json_response(vector(evaluated(str(form["query"]), self.series), at, **self.beside))

    @property
    def polls(self) -> int:
        """How many times the pods' newest samples were asked for: once a poll and chunk."""
        return sum("timestamp(" in query for query in self.queries)


def evaluated(query: str, series: Iterable[Series]) -> list[tuple[dict[str, str], float]]:
    """The shapes of ``promql``: newest samples, counts, and values; lookback and freshness are whatever ``series`` holds."""
    selectors = [dict(_matchers(inner[1])) for inner in _SELECTOR.finditer(query)]
    labels = _BY.search(query)
    assert labels is not None, query
    by = [label.strip() for label in labels[1].split(",")]
    if "timestamp(" in query:
        ups = selectors[-1]
        found = [(s, at) for s, _, at in series if any(_fits(s, one) for one in selectors[:-2])]
        pods = {tuple(s.get(label, "") for label in by) for s, _ in found}
        found += [
            (s, at)
            for s, value, at in series
            if _fits(s, ups) and value == 1 and tuple(s.get(label, "") for label in by) not in pods
        ]
        return _largest(by, found)
    found = [(s, value) for s, value, _ in series if _fits(s, selectors[0])]
    if query.startswith("count"):
        keys = [tuple((label, s[label]) for label in by if label in s) for s, _ in found]
        return [(dict(key), float(keys.count(key))) for key in dict.fromkeys(keys)]
    return _largest(by, found)


def _matchers(inner: str) -> Iterable[tuple[str, re.Pattern[str]]]:
    for name, operator, value in _MATCHER.findall(inner):
        plain = json.loads(f'"{value}"')
        yield name, re.compile(plain if operator == "=~" else re.escape(plain))


def _fits(labels: Mapping[str, str], selector: Mapping[str, re.Pattern[str]]) -> bool:
    return all(pattern.fullmatch(labels.get(name, "")) for name, pattern in selector.items())


def _largest(by: list[str], found: Iterable[tuple[dict[str, str], float]]) -> list[tuple[dict[str, str], float]]:
    best: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in found:
        key = tuple((label, labels[label]) for label in by if label in labels)
        known = best.get(key)
        best[key] = value if known is None or known != known else max(known, value)  # noqa: PLR0124 - NaN
    return [(dict(key), value) for key, value in best.items()]


@asynccontextmanager
async def faking(fake: FakePrometheus) -> AsyncIterator[FakePrometheus]:
    """The fake on a loopback port, its address in ``url``."""
    app = web.Application()
    app.router.add_route("*", "/api/v1/query", fake.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        fake.url = f"http://{host}:{port}"
        yield fake
    finally:
        if fake.hold is not None:
            fake.hold.set()
        await runner.cleanup()
