"""Times: their parts, and literals beside them. A time is a local timestamp in the stream's time zone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from streamgauge.query.query import Refused
from streamgauge.query.settings import Stream
from streamgauge.query.sql.expressions import Expression, expect, quoted
from streamgauge.query.sql.grids import WHOLE
from streamgauge.query.sql.intervals import Interval

PARTS = {
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "day": (1, 31),
    "month": (1, 12),
    "quarter": (1, 4),
    "dow": (0, 6),
    "isodow": (1, 7),
    "week": (1, 53),
    "doy": (1, 366),
}
OTHER_NAMES = {
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "dayofmonth": "day",
    "weekofyear": "week",
}


def part(name: str, time: Expression, stream: Stream) -> Expression:
    """A part of a time, a whole number; parts of infinite times are NULL."""
    name = OTHER_NAMES.get(name.lower(), name.lower())
    operand = expect("time", time, f"the date part {name}")
    if name != "year" and name not in PARTS:
        raise Refused(f"the date part {name} is not in the dialect: use year, {', '.join(PARTS)}")
    years = Interval() if stream.time not in operand.needs else _years(stream)
    span = years if name == "year" else Interval(*map(float, PARTS[name]))
    sql = f"CAST(date_part('{name}', {operand.sql}) AS DOUBLE)"
    return Expression("number", sql, operand.nullable, operand.needs, span=span, grid=WHOLE)


def _years(stream: Stream) -> Interval:
    """The years of a stream that begins and ends; without an end, years are unbounded."""
    if stream.end is None:
        return Interval()
    zone = ZoneInfo(stream.timezone)
    first, last = (_at(moment).astimezone(zone).year for moment in (stream.start, stream.end - 1))
    return Interval(float(first), float(last))


def _at(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def moment(operand: Expression) -> Expression:
    """A text literal as the time it tells; anything else as it is."""
    if not isinstance(operand.constant, str):
        return operand
    try:
        told = datetime.fromisoformat(operand.constant)
    except ValueError:
        raise Refused(f"a time must be like '2026-01-05 00:00:00', got {operand.constant!r}") from None
    if told.tzinfo is not None:
        raise Refused("a time in SQL must be without an offset: it is in the time zone of the stream")
    sql = f"CAST({quoted(told.isoformat(sep=' '))} AS TIMESTAMP)"
    return replace(operand, kind="time", sql=sql, labels=None, constant=None)
