"""Durations are whole microseconds with a unit; instants are read once, in a zone that is named."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.config.rules import (
    DAY,
    HOUR,
    MAX_DURATION,
    MILLISECOND,
    MINUTE,
    SECOND,
    WEEK,
    ZONE_RULE,
    build_instant_rule,
    count_ticks,
    format_duration,
    parse_duration,
)
from streamgauge.releases.release import format_utc_time


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("250ms", 250 * MILLISECOND),
        ("1s", SECOND),
        ("5m", 5 * MINUTE),
        ("300s", 5 * MINUTE),
        ("1h", HOUR),
        ("1h30m", 90 * MINUTE),
        ("1d", DAY),
        ("2w", 2 * WEEK),
        ("1w2d3h4m5s6ms", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6 * MILLISECOND),
        ("0s", 0),
        ("007m", 7 * MINUTE),
    ],
)
def test_a_duration_is_a_number_of_microseconds(text: str, length: int) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "5 m",
        "m",
        "5M",
        "-5m",
        "+5m",
        "1.5h",
        "5m5m",
        "30m1h",
        "1y",
        "5m\n",
        "\u0665m",
        "1_000s",
        "1" * 19 + "s",
    ],
)
def test_malformed_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("value", [300, 5.0, True, None, ["5m"], timedelta(minutes=5)])
def test_a_number_has_no_unit_and_is_no_duration(value: object) -> None:
    assert parse_duration(value) is None


def test_a_hundred_years_are_the_longest() -> None:
    assert parse_duration("36600d") == MAX_DURATION
    assert parse_duration("36600d1ms") is None


@given(st.integers(0, MAX_DURATION // MILLISECOND))
def test_formatted_duration_parses_back(count: int) -> None:
    length = count * MILLISECOND
    assert parse_duration(format_duration(length)) == length


@given(st.integers(1, 10**15), st.integers(1, 10**12))
def test_ticks_are_whole_or_none(length: int, tick: int) -> None:
    count = count_ticks(length, tick)
    assert count is None if length % tick else count is not None and count * tick == length


def test_zero_duration_has_no_ticks() -> None:
    assert count_ticks(0, 5) is None


MIDNIGHT = 1767571200 * SECOND


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-05T00:00:00Z",
        "2026-01-05t00:00:00z",
        "2026-01-05 00:00:00.000Z",
        "2026-01-05T01:00:00+01:00",
        "2026-01-05T00:00Z",
        "2026-01-05",
        "2026-01-05T00:00:00",
        date(2026, 1, 5),
        datetime(2026, 1, 5),
        datetime(2026, 1, 5, tzinfo=UTC),
        datetime(2026, 1, 4, 19, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_instant_has_many_formats(value: object) -> None:
    assert build_instant_rule("UTC").parse(value) == MIDNIGHT


@pytest.mark.parametrize(
    "value",
    [
        "",
        "today",
        "2026-13-05",
        "2026-01-05T24:00:01Z",
        "20260105",
        "2026-W02-1",
        "2026-01-05T00:00:00.1234567Z",
        "2026-01-05T00:00:00Z\n",
        1767571200,
        True,
        None,
    ],
)
def test_malformed_instant_is_none(value: object) -> None:
    assert build_instant_rule("UTC").parse(value) is None


def test_an_instant_without_an_offset_is_in_the_zone() -> None:
    assert build_instant_rule("Europe/Berlin").parse("2026-01-05T01:00:00") == MIDNIGHT


@pytest.mark.parametrize("local", ["2026-03-29T02:30:00", "2026-10-25T02:30:00"])
def test_ambiguous_or_missing_local_hour_is_refused(local: str) -> None:
    assert build_instant_rule("Europe/Berlin").parse(local) is None
    assert build_instant_rule("Europe/Berlin").parse(local + "+01:00") is not None
    guessed = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo("Europe/Berlin"))  # the broken twin
    assert guessed.utcoffset() is not None


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_formatted_instant_parses_back(moment: datetime) -> None:
    read = build_instant_rule("UTC").parse(moment)
    assert read is not None
    assert build_instant_rule("UTC").parse(format_utc_time(read)) == read


@pytest.mark.parametrize("zone", ["", "/etc/passwd", "../UTC", "Europe", "europe", "localtime", "posix/UTC", "a\0b", 3])
def test_malformed_zone_is_none(zone: object) -> None:
    assert ZONE_RULE.parse(zone) is None
