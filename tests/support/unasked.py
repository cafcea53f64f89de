"""An API server that must not be asked. A fake of one takes over what its test asks of it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from scaler.cluster.api import Event, Json, Page


class Unasked:
    """The ``Api`` protocol, of which each call is a failure of the test."""

    unanswered_s = 0.0
    local = False

    async def get(self, path: str) -> Json:
        raise AssertionError(f"get {path}")

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        raise AssertionError(f"list {path}")

    def watch(self, path: str, resource_version: str, *, selector: str = "") -> AsyncIterator[Event]:
        raise AssertionError(f"watch {path}")

    async def create(self, path: str, body: Json) -> Json:
        raise AssertionError(f"create {path}")

    async def replace(self, path: str, body: Json) -> Json:
        raise AssertionError(f"replace {path}")

    async def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        raise AssertionError(f"patch {path}")
