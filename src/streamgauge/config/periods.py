"""Periods of a tumbling window: runs of ticks between public boundaries.

    tumbling 24                     every 24 ticks, counted from the stream's first
    tumbling day Europe/Berlin      from one midnight there to the next: 23, 24 or 25 hours
    tumbling week Europe/Berlin     from Monday to Monday
    tumbling month Europe/Berlin    from the first day of a month to that of the next

Boundaries follow from the stream's start, its tick, the zone and the calendar only. A tick belongs to the period that
its first instant is in. The first and the last period of a stream or a release may be cut.

**Midnights.** A day begins at the last instant at which its date begins. So a day without a midnight begins when the
clocks are put forward, and a midnight that the clocks show twice counts once. A day that a zone skips has no period.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from streamgauge.config.rules import DAY, EPOCH, HOUR, MICROSECOND, WEEK

if TYPE_CHECKING:
    from streamgauge.config.settings import Stream

TUMBLING = "tumbling"
CALENDAR_UNITS = {"day": DAY, "week": WEEK, "month": 30 * DAY}  # nominal lengths, for predictions
MAX_OFFSET = 16 * HOUR  # more than any zone is from UTC
SURVEY_YEARS = 28  # after which weekdays and leap years repeat


@dataclass(frozen=True)
class PeriodSurvey:
    """Lengths of all periods of a stream, and the ticks that would fit all boundaries."""

    longest: int  # ticks
    shortest: int  # ticks of a period that is not cut
    common_tick: int  # microseconds: the longest tick that ends at every boundary
    misfit: int | None = None  # the first boundary inside a tick


@dataclass(frozen=True)
class Periods:
    """Periods of a stream, by length or by calendar.

    >>> from streamgauge.config.rules import HOUR
    >>> hourly = Periods(0, HOUR, None, "day", "Europe/Berlin")  # 1970-01-01T01:00 there
    >>> hourly.find_last_tick(1), hourly.find_last_tick(24)
    (23, 47)
    """

    start: int  # of tick 1
    tick: int  # microseconds
    length: int | None = None  # ticks of a period; None for a calendar
    unit: str = ""  # of the calendar: day, week or month
    zone: str = ""
    end: int | None = None  # of the stream

    @classmethod
    def from_window(cls, window: str, stream: "Stream") -> "Periods | None":
        """Return the periods of a tumbling window; None for other windows."""
        kind, _, size = window.partition(" ")
        if kind != TUMBLING:
            return None
        if size.isdecimal():
            return cls(stream.start, stream.tick, int(size), end=stream.end)
        unit, _, zone = size.partition(" ")
        return cls(stream.start, stream.tick, None, unit, zone, stream.end)

    @property
    def nominal_length(self) -> int:
        """Usual length in microseconds; 30 days for a month."""
        return CALENDAR_UNITS[self.unit] if self.length is None else self.length * self.tick

    @property
    def nominal_ticks(self) -> int:
        """Usual ticks of a period."""
        return max(1, self.nominal_length // self.tick)

    def find_last_tick(self, tick: int) -> int:
        """Return the last tick of the period that a tick is in."""
        if self.length is not None:
            return -(-tick // self.length) * self.length
        boundary = find_next_boundary(self.unit, self.zone, self.start + (tick - 1) * self.tick)
        return -(-(boundary - self.start) // self.tick)

    def find_first_tick(self, tick: int) -> int:
        """Return the first tick of the period that a tick is in, before the stream's start too."""
        if self.length is not None:
            return self.find_last_tick(tick) - self.length + 1
        instant = self.start + (tick - 1) * self.tick
        day = find_unit_start(self.unit, find_local_date(self.zone, instant))
        while (boundary := find_day_start(self.zone, day)) > instant:
            day = find_unit_start(self.unit, day - timedelta(days=1))
        return -(-(boundary - self.start) // self.tick) + 1

    def is_cut(self, first: int, last: int) -> bool:
        """Return whether these ticks of one period are not all of it."""
        return self.find_first_tick(first) != first or self.find_last_tick(last) != last

    def list_last_ticks(self, first: int, last: int) -> Iterator[int]:
        """Yield the last tick of each period that ends from `first` to `last`."""
        end = self.find_last_tick(first)
        while end <= last:
            yield end
            end = self.find_last_tick(end + 1)

    def max_count(self, ticks: int) -> int:
        """Return the most periods that so many consecutive ticks touch."""
        return 1 if ticks == 1 else (ticks - 2) // self.survey.shortest + 2

    @property
    def survey(self) -> PeriodSurvey:
        """Lengths of the periods of the stream, or of many years if it has no end."""
        return survey_periods(self)


@lru_cache(maxsize=64)
def survey_periods(periods: Periods) -> PeriodSurvey:
    """Return the lengths of all periods, from the boundaries between them."""
    if periods.length is not None:
        total = periods.length if periods.end is None else (periods.end - periods.start) // periods.tick
        return PeriodSurvey(min(periods.length, total), periods.length, periods.tick)
    boundaries = list(_list_boundaries(periods))
    tick, inside = periods.tick, [each for each in boundaries if periods.end is None or each < periods.end]
    edges = [periods.start, *inside, *([] if periods.end is None else [periods.end])]
    lengths = [-(-(end - begin) // tick) for begin, end in pairwise(edges)]
    whole = [(end - begin) // tick for begin, end in pairwise(boundaries)]
    misfits = [each for each in inside if (each - periods.start) % tick]
    common = gcd(tick, *(each - periods.start for each in inside))
    return PeriodSurvey(max(lengths), max(1, min(whole)), common, min(misfits, default=None))


def _list_boundaries(periods: Periods) -> Iterator[int]:
    """Yield the boundaries after the start: until one after the end, or of many years."""
    until = (
        periods.start + SURVEY_YEARS * 366 * DAY if periods.end is None else periods.end + 3 * periods.nominal_length
    )
    boundary = periods.start
    while boundary < until:
        boundary = find_next_boundary(periods.unit, periods.zone, boundary)
        yield boundary


def find_next_boundary(unit: str, zone: str, instant: int) -> int:
    """Return the first boundary of a calendar after an instant."""
    day = find_unit_start(unit, find_local_date(zone, instant))
    while (boundary := find_day_start(zone, day)) <= instant:
        day = find_next_start(unit, day)
    return boundary


def find_unit_start(unit: str, day: date) -> date:
    """Return the first day of the week or month that a day is in, or the day.

    >>> find_unit_start("week", date(2026, 1, 4)), find_unit_start("month", date(2026, 1, 4))
    (datetime.date(2025, 12, 29), datetime.date(2026, 1, 1))
    """
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day


def find_next_start(unit: str, day: date) -> date:
    """Return the first day of the next unit; `day` is the first of its own."""
    return find_unit_start(unit, day + timedelta(days={"day": 1, "week": 7, "month": 31}[unit]))


def find_local_date(zone: str, instant: int) -> date:
    """Return the date on the clocks of a zone."""
    return (EPOCH + timedelta(microseconds=instant)).astimezone(_load_zone(zone)).date()


@lru_cache(maxsize=2**14)
def find_day_start(zone: str, day: date) -> int:
    """Return the last instant at which a date begins on the clocks of a zone.

    >>> find_day_start("UTC", date(1970, 1, 3)) == 2 * DAY
    True
    """
    midnight = (day - EPOCH.date()).days * DAY  # if the clocks there showed UTC
    low, high = midnight - MAX_OFFSET, midnight + MAX_OFFSET
    before, after = _find_offset(zone, low), _find_offset(zone, high)
    if before == after:
        return midnight - before
    change = low + bisect_left(range(low, high), True, key=lambda at: _find_offset(zone, at) != before)
    begins = [min(change, midnight - before)]
    begins += [midnight - after] if change + after < midnight else []
    return max(begins)


def _find_offset(zone: str, instant: int) -> int:
    """Return the offset from UTC in microseconds."""
    moment: datetime = (EPOCH + timedelta(microseconds=instant)).astimezone(_load_zone(zone))
    return (moment.utcoffset() or timedelta()) // MICROSECOND


@lru_cache(maxsize=64)
def _load_zone(zone: str) -> ZoneInfo:
    return ZoneInfo(zone)
