"""A block that does not fit into memory is cut until it does, and every event is counted once."""

from typing import Any

import pytest
from declared import ALL, BY_REGION, REGIONS, TICKS, engine, expected, json_line, listed, stream, sums

from streamgauge.engines import line_pieces, live_scan
from streamgauge.engines.answers import Answers
from streamgauge.engines.failures import OutOfMemory
from streamgauge.engines.line_pieces import Lines, pieces
from streamgauge.engines.live_scan import LiveScan
from streamgauge.privacy import User
from streamgauge.query.blocks import Block
from streamgauge.query.measure import Measure

UNIT = User(max_events_per_tick=2, max_ticks=3)
NOTES = Measure(None, (), columns=frozenset({"note"}), key='"note"')
FRAMES = [
    Measure(f'"temperature" > {i}.5', (listed(REGIONS, "region"),), columns=BY_REGION.columns)
    for i in range(16)
]
RECORDS: list[dict[str, Any]] = [
    {
        "hours": i % 6,
        "region": REGIONS[i % 4],
        "temperature": i % 40,
        "who": f"u{i * i % 7}",
        "note": f"n{i % 3}",
    }
    for i in range(16)
]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json_line(record).encode() + b"\n" for record in records)


def told(measures: list[Measure], data: bytes, unit: User | None = None) -> tuple[Any, ...]:
    """All that an engine says of a block, keys by their names."""
    with engine(stream(unit=unit), measures) as running:
        one = running.block(data, 1, TICKS, False)
        bad = running.locate(Block(data, 7))
    keyed: dict[tuple[int, str], int] = {}
    for tally in (tally for tally in one.tallies if tally.keys):
        rows = zip(tally.ticks.tolist(), tally.places.tolist(), tally.sums[0].tolist(), strict=True)
        for tick, place, count in rows:
            keyed[tick, tally.keys[place]] = keyed.get((tick, tally.keys[place]), 0) + count
    placed = [sums([one], at) for at, tally in enumerate(one.tallies) if not tally.keys]
    return placed, keyed, one.counts, bad


def narrow(monkeypatch: pytest.MonkeyPatch, rows: int, frames: int) -> list[int]:
    """A memory for so many rows in so many frames, which fails when rows were admitted and added up."""
    own, tried = Answers.tallies, []

    def tallies(self: Answers, first: int, last: int) -> Any:
        count = self.counts()["records"]
        tried.append(count)
        if count > rows or self.frames > frames:
            raise OutOfMemory("too much")
        return own(self, first, last)

    monkeypatch.setattr(Answers, "tallies", tallies)
    monkeypatch.setattr(live_scan, "FEW", 2**9)
    return tried


@pytest.fixture(params=[(5, 16), (5, 8)])
def limits(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("unit", [None, UNIT])
def test_a_block_that_does_not_fit_is_added_up_all_the_same(
    unit: User | None, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = lines(RECORDS[:8]) + b"no record\n" + lines(RECORDS[8:])
    measures = [BY_REGION, ALL, *FRAMES[:2], *([NOTES] if unit is None else [])]
    whole = told(measures, data, unit)
    tried = narrow(monkeypatch, *limits)
    assert told(measures, data, unit) == whole
    assert len(tried) > 1


def test_a_twin_that_asks_the_bounds_of_users_again_counts_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told([BY_REGION], lines(RECORDS), UNIT)
    own = Lines._cut
    monkeypatch.setattr(Lines, "_cut", lambda self, at: [Lines(each.data) for each in own(self, at)])
    narrow(monkeypatch, 8, 16)
    assert told([BY_REGION], lines(RECORDS), UNIT) != whole


def test_what_fits_in_no_way_is_a_failure_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, 0, 1)
    with engine(stream()) as running, pytest.raises(OutOfMemory, match="one record and one measure"):
        running.block(lines(RECORDS), 1, TICKS, False)


def test_the_least_memory_is_enough_for_as_many_frames_as_a_query_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not: a block of one line failed, and the run with it."""
    tried = []
    own = LiveScan._lighter

    def lighter(self: LiveScan, some: Lines) -> list[Lines]:
        tried.append(len(some.data))
        return own(self, some)

    monkeypatch.setattr(LiveScan, "_lighter", lighter)
    records = RECORDS * 150
    with engine(stream(), [*FRAMES[:15], BY_REGION], memory="50MB") as running:
        found = running.block(lines(records), 1, TICKS, False)
    assert sums([found], 15) == expected(records)
    assert tried


def test_blocks_are_cut_at_the_ends_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lines(RECORDS) + b"x" * 150 + b"\n" + lines(RECORDS[:3])
    parts = list(pieces(data, 100))
    assert b"".join(part.data for part in parts) == data
    assert all(part.data.endswith(b"\n") and data[part.begin :].startswith(part.data) for part in parts)
    assert [part.data for part in pieces(b"")] == [b""]
    monkeypatch.setattr(line_pieces, "MOST", 100)
    halves = Lines(data).halves
    assert [half.data.count(b"\n") > 5 for half in halves] == [True, True]
    assert [len(Lines(one).halves) for one in (b"", b"alone\n", b"a\nb\n", b"\n" + b"long" * 9 + b"\n")] == [
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_doing_what_an_event_takes_adds_nothing(kind: str) -> None:
    with engine(stream(kind, unit=UNIT)) as running:
        before = running.bounds.saved(3)
        running.idle(1, TICKS)
        assert running.bounds.saved(3) == before
        header = ("ts", "region", "temperature", "note", "who") if kind == "csv" else None
        assert sums([running.block(b"", 1, TICKS, False, header)]) == {}
