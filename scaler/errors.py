"""The error tree. Each edge translates these once; nothing else is raised on purpose.

``ConfigError`` becomes exit code 2 and INVALID_ARGUMENT, ``UnknownWorkload`` NOT_FOUND, ``NotReady`` UNAVAILABLE, ``NotAllowed``
PERMISSION_DENIED.
``SourceError`` never leaves the loop: it becomes missing readings, and the pure law decides to hold.
"""

from __future__ import annotations


class ScalerError(Exception):
    """Base of every error that is raised on purpose; never raised itself."""


class ConfigError(ScalerError):
    """The person who wrote a configuration or trigger must change it.

    ``faults`` lists everything that is wrong, one sentence each: the key, what is allowed, never the value.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class UnknownWorkload(ScalerError):
    """No workload of that namespace and name is known."""


class NotReady(ScalerError):
    """There is no trustworthy answer now; asking again later is right, acting on a guess is not."""


class NotAllowed(ScalerError):
    """Who asks is not one of those that may."""


class SourceError(ScalerError):
    """A source could not deliver one replica's page; the message says why in one short phrase."""
