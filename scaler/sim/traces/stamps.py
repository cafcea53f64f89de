"""Points in time as traces write them. The simulation has no calendar of the system's, and needs none."""

from __future__ import annotations

import re
from functools import lru_cache

DAY_S, HOUR_S, MINUTE_S = 86400, 3600, 60
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:\.\d+)?)(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII)
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def seconds(text: str) -> float:
    """Seconds since 1970 of ``2023-11-16 18:17:03.9799600`` or ``2026-01-01T00:00:00.000+00:00``; UTC unless said. Raises ValueError."""
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError("no date and time")
    year, month, day, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    if hour > "23" or minute > "59" or second >= "61":
        raise ValueError("no time of day")
    at = _days(year, month, day) * DAY_S + int(hour) * HOUR_S + int(minute) * MINUTE_S + float(second)
    if sign is None:
        return at
    ahead_s = int(zone_hours) * HOUR_S + int(zone_minutes) * MINUTE_S
    return at - ahead_s if sign == "+" else at + ahead_s


@lru_cache(maxsize=64)
def _days(year: str, month: str, day: str) -> int:
    """Days since 1970-01-01, counted in years that begin in March, so that a leap day is the last of its year."""
    y, m, d = int(year), int(month), int(day)
    if not (1 <= m <= len(_DAYS_OF_MONTHS) and 1 <= d <= _DAYS_OF_MONTHS[m - 1]):
        raise ValueError("no day of the calendar")
    y, m = (y - 1, m + 9) if m <= 2 else (y, m - 3)  # noqa: PLR2004 - January and February
    return 365 * y + y // 4 - y // 100 + y // 400 + (153 * m + 2) // 5 + d - 719469
