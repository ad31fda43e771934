"""Periods of calendars: midnights that the clocks show never or twice, and days of 23 and 25 hours."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from streamgauge.config.periods import Periods, find_day_start, find_local_date
from streamgauge.config.rules import DAY, HOUR, MINUTE

ZONES = ("Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC")


def at(text: str) -> int:
    """Return the microseconds of a UTC time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**6


def calendar(unit: str, zone: str, start: str, end: str | None = None, tick: int = HOUR) -> Periods:
    return Periods(at(start), tick, None, unit, zone, None if end is None else at(end))


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("Europe/Berlin", date(2026, 3, 29), "2026-03-28T23:00"),
        ("Europe/Berlin", date(2026, 3, 30), "2026-03-29T22:00"),
        ("America/Havana", date(2024, 3, 10), "2024-03-10T05:00"),  # clocks go from 0:00 to 1:00
        ("America/Havana", date(2024, 11, 3), "2024-11-03T04:00"),  # 0:00 to 1:00 is shown twice
        ("America/St_Johns", date(2006, 10, 29), "2006-10-29T03:30"),  # clocks go from 0:01 back to 23:01
        ("Africa/Cairo", date(2024, 11, 1), "2024-10-31T22:00"),  # clocks go from 24:00 back to 23:00
        ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30"),  # clocks go from 23:30 to 0:30
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00"),  # a day that was skipped
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00"),
    ],
)
def test_days_begin_at_the_last_instant_of_their_midnight(zone: str, day: date, start: str) -> None:
    assert find_day_start(zone, day) == at(start)
    assert find_local_date(zone, at(start)) >= day


@pytest.mark.parametrize("zone", ZONES)
def test_every_tick_is_in_the_day_of_its_first_instant(zone: str) -> None:
    days = calendar("day", zone, "2018-01-01T00:00", "2019-01-01T00:00", 15 * MINUTE)
    counted = Counter(days.find_last_tick(tick) for tick in range(1, 365 * 96, 7))
    ends = list(days.list_last_ticks(1, 365 * 96))
    dates = [find_local_date(zone, days.start + (tick - 1) * days.tick) for tick in ends]
    assert dates == [dates[0] + timedelta(days=i) for i in range(len(dates))]
    assert set(counted) <= {*ends, days.find_last_tick(ends[-1] + 1)}
    for tick in range(1, 365 * 96, 101):
        first, last = days.find_first_tick(tick), days.find_last_tick(tick)
        assert first <= tick <= last
        before, own = (find_local_date(zone, days.start + (each - 1) * days.tick) for each in (first - 1, first))
        assert before < own


def test_days_have_23_24_or_25_hours() -> None:
    days = calendar("day", "Europe/Berlin", "2025-12-31T23:00", "2026-12-31T23:00")
    ends = [0, *days.list_last_ticks(1, 365 * 24)]
    lengths = Counter(last - first for first, last in pairwise(ends))
    assert lengths == {24: 363, 23: 1, 25: 1}
    assert (days.survey.longest, days.survey.shortest, days.survey.common_tick) == (25, 23, HOUR)


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    weeks = calendar("week", "Europe/Berlin", "2026-01-01T00:00")
    months = calendar("month", "Europe/Berlin", "2026-01-01T00:00")
    assert weeks.find_last_tick(1) * HOUR + weeks.start == at("2026-01-04T23:00")
    assert [months.start + last * HOUR for last in months.list_last_ticks(1, 24 * 65)] == [
        *(at("2026-01-31T23:00"), at("2026-02-28T23:00"))
    ]
    assert (months.survey.longest, months.survey.shortest) == (31 * 24 + 1, 28 * 24)


def test_cut_periods_are_those_that_lack_ticks() -> None:
    days = calendar("day", "Europe/Berlin", "2025-12-31T12:00", "2026-01-03T00:00")
    assert days.find_first_tick(1) == -12
    assert days.is_cut(1, 11)
    assert not days.is_cut(12, 35)
    assert days.is_cut(12, 30)
    assert days.survey.longest == 24


@pytest.mark.parametrize(
    ("zone", "tick", "common"),
    [
        ("Europe/Berlin", DAY, HOUR),
        ("Europe/Berlin", 6 * HOUR, HOUR),
        ("Asia/Kathmandu", HOUR, 15 * MINUTE),
        ("Australia/Lord_Howe", HOUR, 30 * MINUTE),
        ("UTC", DAY, DAY),
    ],
)
def test_survey_finds_the_longest_tick_that_fits(zone: str, tick: int, common: int) -> None:
    survey = calendar("day", zone, "2026-01-01T00:00", tick=tick).survey
    assert survey.common_tick == common
    assert (survey.misfit is None) == (common == tick)


def test_no_more_periods_are_touched_than_are_counted() -> None:
    for length in (1, 2, 3, 5):
        periods = Periods(0, HOUR, length)
        for ticks in range(1, 12):
            most = max(len({periods.find_last_tick(t) for t in range(a, a + ticks)}) for a in range(1, 12))
            assert most == periods.max_count(ticks)
