"""Instants such as 2026-01-05T00:00:00Z, as whole microseconds since 1970 (UTC).

An instant without an offset, or a date, is meant in the stream's time zone. One that the clocks there show
twice or never, when summer time begins or ends, is refused: it would have to be guessed.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from streamgauge.query.toml_keys import Rule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EXAMPLE = '"2026-01-05T00:00:00Z"'

_RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII | re.IGNORECASE
)
_ZONE = re.compile(r"(?!posix|right|localtime)[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def instant(zone: str) -> Rule[int]:
    """An instant, read in this zone if it has no offset of its own."""

    def parse(value: Any) -> int | None:
        moment = _moment(value)
        return None if moment is None else _since_epoch(moment, ZoneInfo(zone))

    return Rule(f"an instant such as {EXAMPLE} (once on the clocks of {zone})", parse)


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        return _written(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if isinstance(value, datetime) else None


def _written(text: str) -> datetime | None:
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        return None


def _since_epoch(moment: datetime, zone: ZoneInfo) -> int | None:
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=zone, fold=0)
        if moment.utcoffset() != moment.replace(fold=1).utcoffset():
            return None
    return (moment - EPOCH) // MICROSECOND


def written(instant: int) -> str:
    """An instant in RFC 3339.

    >>> written(1767571200000000)
    '2026-01-05T00:00:00Z'
    """
    return (EPOCH + instant * MICROSECOND).isoformat().replace("+00:00", "Z")


def _zone(value: Any) -> str | None:
    if not isinstance(value, str) or not _ZONE.fullmatch(value):
        return None
    try:
        return ZoneInfo(value).key
    except (KeyError, ValueError, OSError):
        return None


ZONE = Rule('a time zone such as "Europe/Berlin"', _zone)
