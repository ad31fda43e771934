"""Log lines that any client can cause, folded: many of one kind become a few.

    server: Invalid HTTP request received.
    server: Invalid HTTP request received. (10 times today)
    server: Invalid HTTP request received. (100 times today)

A line is written for the 1st, 10th, 100th, ... occurrence of a kind in a day (UTC). The first line of a later
day says how many there were on the last one. So a client that sends malformed requests without end gets about
ten lines a day, and the other lines of the log survive. Lines that differ in digits only are one kind.

**Privacy.** Texts are those of libraries and classes of exceptions, without data. A count says how often
clients sent what is no request, or what failed; it says nothing of events that were accepted.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

from streamgauge.server.errors import Log

MAX_KINDS = 50  # beyond them all are one kind
OTHER = "server: other messages"
DIGITS = re.compile(r"\d+")


def utc_today() -> date:
    """Return the date by the system's clock."""
    return datetime.now(UTC).date()


class FoldedLog:
    """A log in front of another one, with a budget of lines for each kind and day.

    >>> lines: list[str] = []
    >>> folded = FoldedLog(lines.append, today=lambda: date(2026, 1, 5))
    >>> for _ in range(1234):
    ...     folded.line("server: Invalid HTTP request received.")
    >>> lines[-1], len(lines)
    ('server: Invalid HTTP request received. (1000 times today)', 4)
    """

    def __init__(self, log: Log, today: Callable[[], date] = utc_today) -> None:
        self.log, self._today = log, today
        self._counts: dict[str, tuple[date, int]] = {}  # of each kind: the last day, occurrences on it

    def line(self, text: str) -> None:
        """Count a line, and write it if its count is a power of ten."""
        kind, today = DIGITS.sub("#", text), self._today()
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind = text = OTHER
        day, count = self._counts.get(kind, (today, 0))
        self._counts[kind] = (today, count + 1 if day == today else 1)
        if day != today:
            self.log(f"{text} ({count} times on {day})" if count > 1 else text)
        elif count == 0:
            self.log(text)
        elif is_power_of_ten(count + 1):
            self.log(f"{text} ({count + 1} times today)")


def is_power_of_ten(count: int) -> bool:
    """
    >>> [count for count in range(1, 1001) if is_power_of_ten(count)]
    [1, 10, 100, 1000]
    """
    return str(count).rstrip("0") == "1"
