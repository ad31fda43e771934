"""Days, hours and other calendar units of a stream, as groups and in conditions.

    date_trunc('day', ts)     '2026-03-28', '2026-03-29', '2026-03-30', ...

A stream with an end has a finite number of units, which are public. They follow the clocks of its time zone. A day on
which the clocks change has 23 or 25 hours: an hour that is skipped is no group, one that is repeated is one group.

Promise
    A code is a function of the event's own time, and always below the number of units. If the engine knows other
    rules of a time zone, codes are cut off at the ends.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Stream

FIXED_UNITS = {
    "week": timedelta(days=7),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
MONTH_UNITS = {"year": 12, "quarter": 3, "month": 1}
UNITS = (*MONTH_UNITS, *FIXED_UNITS)
LABEL_PRECISIONS = {"hour": "minutes", "minute": "minutes", "second": "seconds"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_UNITS = 10**6
QUARTER = 900_000_000  # microseconds; clocks change at full quarters of an hour
CHANGE_QUARTERS = 100  # by no more than a day
GAP_ARGUMENT = '"$gap"'  # not a possible name of a column


@dataclass(frozen=True)
class Calendar:
    """Units of a stream from its first to its last microsecond."""

    unit: str
    timezone: str
    start: int  # microseconds since 1970 (UTC)
    end: int | None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All units, without those that the clocks skip."""
        skipped = set(self._skipped)
        return tuple(self._format(unit) for place, unit in enumerate(self._units) if place not in skipped)

    def build_code(self, sql: str) -> str:
        """Return SQL of the number of the label of a time; NULL for NULL."""
        place = f"date_diff('{self.unit}', TIMESTAMP '{self._units[0]}', {sql})"
        if self._skipped:
            gaps = ", ".join(map(str, self._skipped))
            place = f"{place} - len(list_filter([{gaps}], lambda {GAP_ARGUMENT}: {GAP_ARGUMENT} < {place}))"
        return f"CASE WHEN {sql} IS NOT NULL THEN least(greatest({place}, 0), {len(self.labels) - 1}) END"

    @cached_property
    def _units(self) -> tuple[datetime, ...]:
        """Local begin of every unit, as if no clock were changed."""
        if self.end is None:
            raise InvalidReleaseError(f"a stream without an end has no last {self.unit}")
        first, last = (self._truncate(moment) for moment in self._find_span(self.end))
        if self.unit in MONTH_UNITS:
            step, begin = MONTH_UNITS[self.unit], 12 * first.year + first.month - 1
            months = range(begin, 12 * last.year + last.month, step)
            _check_size(len(months), self.unit)
            return tuple(datetime(month // 12, month % 12 + 1, 1) for month in months)
        length = FIXED_UNITS[self.unit]
        count = (last - first) // length + 1
        _check_size(count, self.unit)
        return tuple(first + place * length for place in range(count))

    @cached_property
    def _skipped(self) -> tuple[int, ...]:
        """Places of the units in which the clocks show no moment."""
        if self.unit in MONTH_UNITS or self.timezone == "UTC":
            return ()
        zone, last = ZoneInfo(self.timezone), FIXED_UNITS[self.unit] - timedelta(microseconds=1)

        def is_shown(local: datetime) -> bool:
            moment = local.replace(tzinfo=zone).astimezone(UTC)
            return moment.astimezone(zone).replace(tzinfo=None) == local

        units = enumerate(self._units)
        return tuple(place for place, unit in units if not is_shown(unit) and not is_shown(unit + last))

    def _find_span(self, end: int) -> tuple[datetime, datetime]:
        """Return the first and the last moment that the clocks show, which may be set back near an end."""
        quarters = range(-QUARTER * CHANGE_QUARTERS, QUARTER * (CHANGE_QUARTERS + 1), QUARTER)
        begins = (self.start // QUARTER * QUARTER + more for more in quarters)
        ends = (end // QUARTER * QUARTER + more - 1 for more in quarters)
        inside = [moment for moment in (*begins, *ends) if self.start <= moment < end]
        shown = [self._to_local(moment) for moment in (self.start, *inside, end - 1)]
        return min(shown), max(shown)

    def _to_local(self, moment: int) -> datetime:
        shown = (EPOCH + timedelta(microseconds=moment)).astimezone(ZoneInfo(self.timezone))
        return shown.replace(tzinfo=None, fold=0)

    def _truncate(self, local: datetime) -> datetime:
        if self.unit in MONTH_UNITS:
            step = MONTH_UNITS[self.unit]
            return datetime(local.year, (local.month - 1) // step * step + 1, 1)
        day = datetime(local.year, local.month, local.day)
        if self.unit == "week":
            return day - timedelta(days=day.weekday())
        return day + (local - day) // FIXED_UNITS[self.unit] * FIXED_UNITS[self.unit]

    def _format(self, unit: datetime) -> str:
        precision = LABEL_PRECISIONS.get(self.unit)
        return unit.date().isoformat() if precision is None else unit.isoformat(" ", precision)


def build_calendar(unit: str, stream: Stream) -> Calendar:
    """Return the calendar of a stream by a unit, or reject another unit."""
    unit = unit.lower()
    if unit not in UNITS:
        rule = f"date_trunc needs {', '.join(UNITS[:-1])} or {UNITS[-1]} in quotes, then the time"
        raise InvalidReleaseError(f"{rule}, as in date_trunc('day', {stream.time})")
    return _find_calendar(unit, stream.timezone, stream.start, stream.end)


_find_calendar = lru_cache(maxsize=8)(Calendar)  # its units are listed once, however often a query is read


def _check_size(count: int, unit: str) -> None:
    if count > MAX_UNITS:
        raise InvalidReleaseError(f"GROUP BY {unit} must have 1 to {MAX_UNITS} groups, got {count}: take longer units")
