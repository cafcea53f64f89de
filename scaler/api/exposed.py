"""The page of our own metrics, made in pieces: a thousand workloads take a fifth of a second of it, and others have their turn between.

One family is collected and written at a time, and a long one in slices. One page is made at a time, however many ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from scaler.api.view import Handler

SLICE = 100
"""Samples written in one go: a millisecond or two."""
OPENMETRICS_END = b"# EOF\n"
_TOLD_APART = ("_created", "_gsum", "_gcount")
"""Samples that the text format puts under a heading of their own, after the others of the family: such a family is small, and not cut."""
Encode = Callable[[CollectorRegistry], bytes]


@dataclass(slots=True, eq=False)
class _Slice(Collector):
    """A part of a family, as the encoders want it."""

    metric: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric


def pieces(registry: CollectorRegistry, encode: Encode) -> Iterator[bytes]:
    """The page in the order of its bytes; each piece is a part of one family. Joined, they are what ``encode`` makes of the registry."""
    ending = b""
    for family in registry.collect():
        samples = family.samples
        step = max(1, len(samples)) if any(one.name.endswith(_TOLD_APART) for one in samples) else SLICE
        for start in range(0, max(1, len(samples)), step):
            part = Metric(family.name, family.documentation, family.type, family.unit)
            part.samples = samples[start : start + step]
            text = encode(_alone(part))
            if text.endswith(OPENMETRICS_END):
                text, ending = text.removesuffix(OPENMETRICS_END), OPENMETRICS_END
            yield _without_head(text) if start else text
    yield ending


def _alone(metric: Metric) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Slice(metric))
    return registry


def _without_head(text: bytes) -> bytes:
    """The lines of the samples: the family's comments stand before its first ones."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text


def page(registry: CollectorRegistry) -> Handler:
    """The handler of ``/metrics``."""
    one_at_a_time = asyncio.Lock()

    async def handler(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with one_at_a_time:
            body = bytearray()
            for piece in pieces(registry, encode):
                body += piece
                await asyncio.sleep(0)  # noqa: TID251 - others' turn
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handler
