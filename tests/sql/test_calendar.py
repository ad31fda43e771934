"""`date_trunc` as a group: the units of a stream, as the clocks of its time zone show them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Stream
from streamgauge.sql import parse
from streamgauge.sql.calendar import UNITS, build_calendar
from tests.support.sql_clinic import LIVE, LOOKUPS, STREAM, query

HOUR = timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = {  # a time zone, and a moment near which its clocks change
    "UTC": "2026-03-29T01:00",
    "Europe/Berlin": "2026-03-29T01:00",
    "Europe/Berlin (autumn)": "2026-10-25T01:00",
    "America/New_York": "2026-03-08T07:00",
    "Australia/Lord_Howe": "2026-10-03T15:30",
    "Pacific/Apia": "2011-12-30T10:00",
    "Asia/Kathmandu": "2026-01-01T00:00",
}
FORMATS = {"hour": "%Y-%m-%d %H:00", "minute": "%Y-%m-%d %H:%M", "second": "%Y-%m-%d %H:%M:%S"}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def stream_around(zone: str, length: timedelta) -> Stream:
    middle = datetime.fromisoformat(ZONES[zone]).replace(tzinfo=UTC)
    start, end = ((middle + sign * length - EPOCH) // timedelta(microseconds=1) for sign in (-1, 1))
    return replace(STREAM, timezone=zone.partition(" ")[0], start=start, end=end)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", UNITS)
def test_every_event_is_in_the_unit_that_clocks_show(database: duckdb.DuckDBPyConnection, unit: str, zone: str) -> None:
    length = {"second": HOUR / 12, "minute": 3 * HOUR}.get(unit, 60 * HOUR if unit == "hour" else 900 * HOUR)
    stream = stream_around(zone, length)
    assert stream.end is not None
    (group,) = parse(f"SELECT COUNT(*) FROM visits GROUP BY date_trunc('{unit}', ts)", stream, {}).groups
    step = (stream.end - stream.start) // 4000
    moments = f"range({stream.start}, {stream.end}, {step}) AS moments (m)"
    shown = f"timezone('{stream.timezone}', make_timestamptz(m))"
    text = f"strftime(date_trunc('{unit}', ts), '{FORMATS.get(unit, '%Y-%m-%d')}')"
    rows = database.execute(
        f"SELECT DISTINCT {group.code}, {text} FROM (SELECT {shown} AS ts FROM {moments})"
    ).fetchall()
    assert {code: group.labels[code] for code, _ in rows} == dict(rows)
    if unit not in FORMATS or "autumn" not in zone:  # clocks that are set back leave units between the ends of an hour
        assert len(rows) == len(group.labels), "each unit is there"
    assert sorted(group.labels) == list(group.labels)


def test_days_of_changed_clocks_are_single_groups() -> None:
    spring, autumn = (
        build_calendar("hour", stream_around(zone, 12 * HOUR)).labels
        for zone in ("Europe/Berlin", "Europe/Berlin (autumn)")
    )
    assert "2026-03-29 02:00" not in spring
    assert len(spring) == 24
    assert autumn.count("2026-10-25 02:00") == 1
    assert len(autumn) == 23


def test_last_unit_is_that_of_the_last_moment() -> None:
    local = ZoneInfo("Europe/Berlin")
    start, end = (
        (datetime(2026, month, 1, tzinfo=local).astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
        for month in (1, 3)
    )
    stream = replace(STREAM, start=start, end=end)
    days = build_calendar("day", stream).labels
    assert (days[0], days[-1], len(days)) == ("2026-01-01", "2026-02-28", 59)
    assert build_calendar("month", stream).labels == ("2026-01-01", "2026-02-01")
    assert build_calendar("day", replace(stream, end=end + 1)).labels[-1] == "2026-03-01"


def test_codes_of_foreign_times_are_cut_off(database: duckdb.DuckDBPyConnection) -> None:
    (group,) = query("SELECT COUNT(*) FROM visits GROUP BY date_trunc('day', ts)").groups
    times = "(VALUES (TIMESTAMP '1900-01-01'), (TIMESTAMP '2900-01-01'), (NULL)) AS times (ts)"
    assert database.execute(f"SELECT {group.code} FROM {times}").fetchall() == [(0,), (len(group.labels) - 1,), (None,)]


@pytest.mark.parametrize(
    "sql",
    [
        *("DATE(ts)", "ts::date", "CAST(ts AS DATE)", "EXTRACT(date FROM ts)", "TIMESTAMP_TRUNC(ts, DAY)"),
        "date_trunc('day', date_trunc('hour', ts))",
    ],
)
def test_other_spellings_of_days_are_the_same_groups(sql: str) -> None:
    (group,) = query(f"SELECT COUNT(*) FROM visits GROUP BY {sql}").groups
    assert group.labels == query("SELECT COUNT(*) FROM visits GROUP BY date_trunc('day', ts)").groups[0].labels


def test_streams_without_an_end_have_no_units() -> None:
    with pytest.raises(InvalidReleaseError, match=r"needs a last week.*stream\.end.*EXTRACT.*tumbling"):
        parse("SELECT COUNT(*) FROM visits GROUP BY date_trunc('week', ts)", LIVE, LOOKUPS)
    parse("SELECT COUNT(*) FROM visits WHERE date_trunc('week', ts) >= '2026-01-05'", LIVE, LOOKUPS)


def test_too_many_units_are_refused_before_they_are_listed() -> None:
    with pytest.raises(InvalidReleaseError, match=r"1000000 groups, got [0-9]{7}: take longer units"):
        query("SELECT COUNT(*) FROM visits GROUP BY date_trunc('second', ts)")
