"""Event times: every value becomes a tick or is dropped, and none raises."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.config.settings import Stream
from streamgauge.plan.measure import Measure
from streamgauge.records.blocks import Block
from streamgauge.sql.query import GroupColumn
from tests.support.declared import ALL, START, TICKS, counted, engine, stream, sums

WILD: list[Any] = [
    "infinity", "-infinity", "epoch", "now", "today", "", " ", "294247-01-10T04:00:54.775807Z",
    "294276-12-31", "290309-12-22 (BC) 00:00:00", "-290308-12-21", "5877642-06-25 (BC)", "0000-00-00",
    "2026-13-45", "24:00:00", "2026-01-05T99:99:99Z", "2026-01-05T00:00:00+99:99",
    "2026-01-05 00:00:00 Mars/Olympus", "nan", "-nan", "inf", "1e300", "-1e300", "1e400", "9" * 400,
    "-" + "9" * 400, "0x10", "1e-400", "1_0", "--1", "1e", ".", "²", 2**63, -(2**63), 2**63 - 1, 2**64,
    2**127, -(2**127), 10**40, 1e300, -1e300, 0, -1, 0.1, None, True, [], {},
]  # fmt: skip
FORMATS = {
    "epoch s": Fraction(1, 10**6),
    "epoch ms": Fraction(1, 1000),
    "epoch us": Fraction(1),
    "epoch ns": Fraction(1000),
}


def ticks(of: Stream, times: Iterable[Any]) -> dict[int, int]:
    data = b"".join(json.dumps({"ts": time}).encode() + b"\n" for time in times)
    with engine(of, [ALL]) as running:
        one = running.scan_block(Block(data, 0), 1, of.ticks or 0, False)
    assert sum(one.counts.values()) - one.counts["records"] + int(one.tallies[0].sums.sum()) == one.counts["records"]
    return {key[0]: row[0] for key, row in sums([one]).items()}


@pytest.mark.parametrize("time_format", ["iso", *FORMATS])
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_wild_times_raise_nothing_and_harm_no_other(time_format: Any, timezone: str) -> None:
    of = stream(time_format=time_format, timezone=timezone)
    good = "2026-01-05T03:00:00Z" if time_format == "iso" else int((START + 3 * 3_600_000_000) * FORMATS[time_format])
    for wild in (WILD, WILD * 100):
        assert ticks(of, [*wild, good]) == {4: 1}


letters = st.text("0123456789-+:.TZ eEBC()infaP/", max_size=40)


@settings(max_examples=30)
@given(st.lists(letters, max_size=40), st.sampled_from(["iso", *FORMATS]))
def test_random_times_raise_nothing(times: list[str], time_format: Any) -> None:
    ticks(stream(time_format=time_format, timezone="Europe/Berlin"), times)


@pytest.mark.parametrize("time_format", FORMATS)
def test_numbers_are_exact_to_the_microsecond(time_format: Any) -> None:
    scale = FORMATS[time_format]
    of = stream(time_format=time_format, tick=1, start=START + 1, end=START + 4)
    moments = [START, START + 1, START + 2, START + 3, START + 4]
    texts = [decimal(Fraction(moment) * scale) for moment in moments]
    assert ticks(of, texts) == {1: 1, 2: 1, 3: 1}


def decimal(value: Fraction) -> str:
    whole, rest = divmod(value, 1)
    return f"{whole}.{int(rest * 10**6):06d}" if rest else str(whole)


def test_fractions_of_a_unit_are_rounded_down() -> None:
    of = stream(time_format="epoch us", tick=1, start=START, end=START + 2)
    assert ticks(of, [f"{START}.9", f"{START - 1}.999999999"]) == {1: 1}


def test_times_before_1970_have_ticks_too() -> None:
    early = -10 * 3_600_000_000
    for time_format, scale in FORMATS.items():
        of = stream(time_format=time_format, start=early, end=early + TICKS * 3_600_000_000)
        moments = [early - 1, early, early + 3_600_000_000 - 1, -1, 0, 3_600_000_000]
        texts = [("-" if m < 0 else "") + decimal(abs(Fraction(m)) * scale) for m in moments]
        assert ticks(of, texts) == {1: 2, 10: 1, 11: 1, 12: 1}


def test_naive_times_are_in_the_time_zone_of_the_stream() -> None:
    of = stream(timezone="America/New_York")
    assert ticks(of, ["2026-01-04T19:00:00", "2026-01-05T00:00:00Z", "2026-01-05 01:00:00+01"]) == {1: 3}


def hours_shown(timezone: str) -> Measure:
    hour = GroupColumn("hour", tuple(range(24)), 'CAST(hour("ts") AS INTEGER)')
    return Measure(None, (hour,), columns=frozenset({"ts"}))


@pytest.mark.parametrize("timezone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_date_parts_are_those_of_the_time_zone(timezone: str) -> None:
    of = stream(timezone=timezone)
    moment = datetime(2026, 1, 5, 7, 45, tzinfo=UTC)
    with engine(of, [hours_shown(timezone)]) as running:
        one = running.scan_block(Block(b'{"ts":"2026-01-05T07:45:00Z"}\n{"ts":"infinity"}\n', 0), 1, TICKS, False)
    assert [key[1] for key in sums([one])] == [moment.astimezone(ZoneInfo(timezone)).hour]


def test_stream_without_end_accepts_times_up_to_the_limit() -> None:
    of = stream(end=None)
    data = b'{"ts":"2026-01-05T07:45:00Z"}\n{"ts":"2099-01-01T00:00:00Z"}\n{"ts":"10000-01-01T00:00:00Z"}\n'
    with engine(of, [ALL]) as running:
        one = running.scan_block(Block(data, 0), 1, 10, False)
    assert sums([one]) == {(8, 0, 0): (1,)}
    assert (counted([one])["early"], counted([one])["outside"]) == (1, 1)


def test_ticks_of_odd_length_are_exact(tmp_path: Path) -> None:
    of = replace(stream(), tick=7_000_003, end=START + 100 * 7_000_003)
    moments = [START + k * 7_000_003 + d for k in (0, 1, 50, 99) for d in (0, 7_000_002)]
    texts = [datetime.fromtimestamp(0, UTC).isoformat()] + [
        datetime.fromtimestamp(moment // 10**6, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{moment % 10**6:06d}Z"
        for moment in moments
    ]
    assert ticks(of, texts) == {1: 2, 2: 2, 51: 2, 100: 2}
