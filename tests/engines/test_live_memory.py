"""A block that does not fit into memory is cut until it does, and every event is counted once."""

from typing import Any

import pytest

from streamgauge.engines import DuckEngine, EngineMemoryError
from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.scan_live import LinePiece, LiveScan, split_pieces
from streamgauge.plan.measure import Measure
from streamgauge.privacy import User
from streamgauge.records.blocks import Block
from tests.support.declared import (
    ALL,
    BY_REGION,
    REGIONS,
    TICKS,
    engine,
    engine_with,
    expected,
    json_line,
    listed,
    stream,
    sums,
)

UNIT = User(max_events_per_tick=2, max_ticks=3)
NOTES = Measure(None, (), columns=frozenset({"note"}), key='"note"')
FRAMES = [Measure(f'"temperature" > {i}.5', (listed(REGIONS, "region"),), columns=BY_REGION.columns) for i in range(16)]
RECORDS: list[dict[str, Any]] = [
    {"hours": i % 6, "region": REGIONS[i % 4], "temperature": i % 40, "who": f"u{i * i % 7}", "note": f"n{i % 3}"}
    for i in range(16)
]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json_line(record).encode() + b"\n" for record in records)


def scanned(
    measures: list[Measure], data: bytes, unit: User | None = None, kind: type[DuckEngine] = DuckEngine
) -> tuple[Any, ...]:
    """Return all results of an engine for a block, keys by their names."""
    with engine(stream(unit=unit), measures, kind=kind) as running:
        one = running.scan_block(Block(data, 0), 1, TICKS, False)
        bad = running.locate(Block(data, 7))
    keyed: dict[tuple[int, str], int] = {}
    for tally in (tally for tally in one.tallies if tally.keys):
        rows = zip(tally.ticks.tolist(), tally.groups.tolist(), tally.sums[0].tolist(), strict=True)
        for tick, place, count in rows:
            keyed[tick, tally.keys[place]] = keyed.get((tick, tally.keys[place]), 0) + count
    placed = [sums([one], at) for at, tally in enumerate(one.tallies) if not tally.keys]
    return placed, keyed, one.counts, bad


class SmallPieces(LiveScan):
    MIN_PIECE_BYTES = 2**9


def narrow(rows: int, frames: int, scan: type[LiveScan] = SmallPieces) -> tuple[type[DuckEngine], list[int]]:
    """Return an engine that fails beyond so many rows and frames, after rows were admitted and added up."""
    tried = []

    class NarrowAnswers(Answers):
        def tallies(self, first: int, last: int) -> Any:
            count = self.counts()["records"]
            tried.append(count)
            if count > rows or self.frames > frames:
                raise EngineMemoryError("too much")
            return super().tallies(first, last)

    return engine_with(ANSWERS=NarrowAnswers, LIVE_SCAN=scan), tried


@pytest.fixture(params=[(5, 16), (5, 8)])
def limits(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("unit", [None, UNIT])
def test_block_that_does_not_fit_has_the_same_tallies(unit: User | None, limits: tuple[int, int]) -> None:
    data = lines(RECORDS[:8]) + b"no record\n" + lines(RECORDS[8:])
    measures = [BY_REGION, ALL, *FRAMES[:2], *([NOTES] if unit is None else [])]
    whole = scanned(measures, data, unit)
    kind, tried = narrow(*limits)
    assert scanned(measures, data, unit, kind) == whole
    assert len(tried) > 1


class ForgetfulScan(SmallPieces):
    """A broken twin: halves of a piece lack the lines that the bounds rejected."""

    def reduce_load(self, lines: LinePiece) -> list[LinePiece]:
        return [LinePiece(each.data, each.begin) for each in super().reduce_load(lines)]


def test_twin_that_applies_user_bounds_again_counts_too_few() -> None:
    whole = scanned([BY_REGION], lines(RECORDS), UNIT)
    kind, _ = narrow(8, 16, ForgetfulScan)
    assert scanned([BY_REGION], lines(RECORDS), UNIT, kind) != whole


def test_record_that_never_fits_fails_without_its_text() -> None:
    kind, _ = narrow(0, 1)
    with engine(stream(), kind=kind) as running, pytest.raises(EngineMemoryError, match="one record and one measure"):
        running.scan_block(Block(lines(RECORDS), 0), 1, TICKS, False)


def test_smallest_memory_suffices_for_the_most_frames() -> None:
    """Regression: a block of one line failed and stopped the run."""
    tried = []

    class CountingScan(LiveScan):
        def reduce_load(self, lines: LinePiece) -> list[LinePiece]:
            tried.append(len(lines.data))
            return super().reduce_load(lines)

    records, kind = RECORDS * 150, engine_with(LIVE_SCAN=CountingScan)
    with engine(stream(), [*FRAMES[:15], BY_REGION], kind=kind, memory="50MB") as running:
        found = running.scan_block(Block(lines(records), 0), 1, TICKS, False)
    assert sums([found], 15) == expected(records)
    assert tried


def test_blocks_are_cut_at_the_ends_of_lines() -> None:
    data = lines(RECORDS) + b"x" * 150 + b"\n" + lines(RECORDS[:3])
    parts = list(split_pieces(data, 100))
    assert b"".join(part.data for part in parts) == data
    assert all(part.data.endswith(b"\n") and data[part.begin :].startswith(part.data) for part in parts)
    assert [part.data for part in split_pieces(b"")] == [b""]
    halves = LinePiece(data).halves
    assert [half.data.count(b"\n") > 5 for half in halves] == [True, True]
    assert [len(LinePiece(one).halves) for one in (b"", b"alone\n", b"a\nb\n", b"\n" + b"long" * 9 + b"\n")] == [
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_empty_block_scan_changes_no_bounds_and_no_tally(kind: str) -> None:
    with engine(stream(kind, unit=UNIT)) as running:
        before = running.bounds.save(3)
        running.scan_empty_block(1, TICKS)
        assert running.bounds.save(3) == before
        header = ("ts", "region", "temperature", "note", "who") if kind == "csv" else None
        assert sums([running.scan_block(Block(b"", 0), 1, TICKS, False, header)]) == {}
