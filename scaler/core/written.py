"""Numbers that strangers wrote, as text."""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]{1,5})?|inf|infinity)|nan", re.ASCII | re.IGNORECASE
)
LONGEST = 64


def number(text: str) -> float | None:
    """The number that the text is, perhaps infinite or NaN; None where it is none.

    Python's own ``float`` would also take ``1_000``, digits of other scripts and space around: what one reader takes for a number and
    another does not is how a page means two things.
    """
    return float(text) if len(text) <= LONGEST and _NUMBER.fullmatch(text) else None
