"""Durations such as "5m", "1h30m" and "2w", as whole microseconds.

A bare number is refused: nobody can see whether 300 are seconds, milliseconds or ticks. A month and a year
are refused too, for they have no one length. A day is 24 hours.
"""

import re
from typing import Any

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
UNITS = {"w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
LONGEST = 100 * 366 * DAY
EXAMPLE = '"5m"'
NO_UNIT = "a number alone has no unit"

_FORM = re.compile("".join(rf"(?:([0-9]{{1,18}}){unit})?" for unit in UNITS))


def microseconds(text: Any) -> int | None:
    """How long a duration is, or None for what is none; at most a hundred years.

    Units come from the largest down, each at most once.

    >>> microseconds("1h30m") == 90 * MINUTE, microseconds("300s") == microseconds("5m")
    (True, True)
    >>> microseconds("5 minits"), microseconds(300), microseconds("30m1h")
    (None, None, None)
    """
    match = _FORM.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        return None
    parts = zip(match.groups(), UNITS.values(), strict=True)
    total = sum(int(count) * length for count, length in parts if count)
    return total if total <= LONGEST else None


def spelled(length: int) -> str:
    """The shortest spelling of a duration in whole milliseconds.

    >>> spelled(90 * MINUTE), spelled(0), spelled(2 * WEEK + SECOND)
    ('1h30m', '0s', '2w1s')
    """
    text = ""
    for unit, size in UNITS.items():
        count, length = divmod(length, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def ticks_of(length: int, tick: int) -> int | None:
    """How many ticks a duration is, if it is a whole number of them above 0."""
    count, rest = divmod(length, tick)
    return count if count and not rest else None
