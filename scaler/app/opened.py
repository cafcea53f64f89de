"""Things that are open while the configuration names them, by name and by the settings they were opened with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

Settings = TypeVar("Settings")
Thing = TypeVar("Thing")


class Opened(Generic[Settings, Thing]):
    """Follows a mapping of settings: what is new is opened, what is gone or has other settings is closed, the rest is left alone."""

    def __init__(self, opener: Callable[[Settings], AbstractAsyncContextManager[Thing]]) -> None:
        """Nothing is open yet."""
        self._opener = opener
        self._open: dict[str, tuple[Settings, Thing, AsyncExitStack]] = {}

    async def follow(self, wanted: Mapping[str, Settings]) -> dict[str, Thing]:
        """The things by name. Those that are replaced are closed after the new ones are open, so that a reload leaves no gap."""
        kept = {name: entry for name, entry in self._open.items() if wanted.get(name) == entry[0]}
        gone = [entry[2] for name, entry in self._open.items() if name not in kept]
        for name, settings in wanted.items():
            if name not in kept:
                stack = AsyncExitStack()
                kept[name] = (settings, await stack.enter_async_context(self._opener(settings)), stack)
        self._open = kept
        for stack in gone:
            await stack.aclose()
        return {name: thing for name, (_, thing, _) in kept.items()}

    async def close(self) -> None:
        """Close everything."""
        await self.follow({})


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine while the context is open."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def vital(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine while the context is open. Should it end by itself, the context ends too, with its error."""
    body, task = asyncio.current_task(), asyncio.get_running_loop().create_task(work)
    if body is None:
        raise RuntimeError("a context is opened by a task")
    task.add_done_callback(lambda ended: None if ended.cancelled() else body.cancel())
    try:
        yield
    except asyncio.CancelledError:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            body.uncancel()
            raise error from None
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
