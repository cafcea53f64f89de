"""What holds for every test."""

import asyncio

from hypothesis import settings

# The same examples on every run: a change fails for what it does, not by luck. A slow machine is no failure either.
settings.register_profile("steady", derandomize=True, deadline=None)
# For hunting: `make fuzz`, or pytest --hypothesis-profile fuzz on a file.
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile("steady")


def pytest_configure() -> None:
    # Looptime asks for the current event loop around every test, and around a synchronous one that would create a loop
    # which nobody closes; its ResourceWarning then fails some later, innocent test. Having said "none" stops that.
    asyncio.set_event_loop(None)
