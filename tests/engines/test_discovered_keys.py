"""Discovered keys: a record adds one to its own text, for every text."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.engines import EngineMemoryError
from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.plan.measure import Measure, Tally
from streamgauge.records.blocks import Block
from tests.support.declared import ALL, BY_REGION, HEADER, TICKS, at, engine, engine_with, part, stream

NOTES = Measure(None, (), columns=frozenset({"note"}), key='"note"')
WARM = Measure('"temperature" > 38', (), columns=frozenset({"note", "temperature"}), key='"note"')
HOSTILE = [
    "",
    " ",
    "a",
    "A",
    "a\u0301",
    "á",
    "\x00",
    "a\x00b",
    "'; DROP TABLE",
    '"',
    "x" * 3000,
    "\U0001f600",
    "1",
    "null",
]
Keyed = dict[tuple[int, str], int]


def counts(tally: Tally) -> Keyed:
    """Return counts by tick and key. A key may occur more than once."""
    found: Counter[tuple[int, str]] = Counter()
    for tick, place, n in zip(tally.ticks.tolist(), tally.groups.tolist(), tally.sums[0].tolist(), strict=True):
        found[tick, tally.keys[place]] += n
    return dict(found)


def added(passes: Any, measure: int = 0) -> Keyed:
    found: Counter[tuple[int, str]] = Counter()
    for one in passes:
        found.update(counts(one.tallies[measure]))
    return dict(found)


def expected(records: list[dict[str, Any]]) -> Keyed:
    found: Counter[tuple[int, str]] = Counter()
    for record in records:
        if isinstance(record.get("note"), str) and 0 <= record["hours"] < TICKS:
            found[int(record["hours"]) + 1, record["note"][:1024]] += 1
    return dict(found)


def line(record: dict[str, Any]) -> str:
    return json.dumps({"ts": at(record["hours"]), **{k: v for k, v in record.items() if k != "hours"}})


def many() -> list[dict[str, Any]]:
    notes = [*HOSTILE, None]
    return [{"hours": i % 30, "note": notes[i % len(notes)], "temperature": 36 + i % 5} for i in range(900)]


@pytest.mark.parametrize("clean", [True, False])
def test_keys_are_counted_as_plain_python_does_with_other_measures(tmp_path: Path, clean: bool) -> None:
    records = many()
    (tmp_path / "v").write_text("".join(f"{line(record)}\n" for record in records))
    files = [part(tmp_path / "v", clean=clean)]
    with engine(stream(), [BY_REGION, NOTES, ALL, WARM]) as running:
        passes = list(running.scan_ranges(files, 1, TICKS))
    assert added(passes, 1) == expected(records)
    assert added(passes, 3) == expected([record for record in records if record["temperature"] > 38])
    assert sum(int(one.tallies[2].sums.sum()) for one in passes) == sum(r["hours"] < TICKS for r in records)


def test_records_are_counted_where_all_groups_are_discovered(tmp_path: Path) -> None:
    records = many()
    (tmp_path / "v").write_text("".join(f"{line(record)}\n" for record in records) + "no record\n")
    with engine(stream(), [NOTES]) as running:
        (one,) = running.scan_ranges([part(tmp_path / "v")], 1, TICKS)
    assert one.counts["records"] == 901
    assert one.counts["outside"] == sum(record["hours"] >= TICKS for record in records)
    assert one.counts["not readable"] == 1


def test_blocks_and_csv_have_the_same_keys() -> None:
    records = [r for r in many() if r["note"] not in (None, "", " ", "\x00", "a\x00b")]
    data = "".join(f"{line(record)}\n" for record in records).encode()
    with engine(stream(), [NOTES]) as running:
        assert added([running.scan_block(Block(data, 0), 1, TICKS, False)]) == expected(records)
        assert added([running.scan_block(Block(b"", 0), 1, TICKS, False)]) == {}
    with io.StringIO() as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerows([at(r["hours"]), "north", 37, r["note"], "me"] for r in records)
        data = text.getvalue().encode()
    with engine(stream("csv"), [NOTES]) as running:
        assert added([running.scan_block(Block(data, 0), 1, TICKS, False, HEADER)]) == expected(records)


def test_compaction_and_halved_scans_lose_no_count(tmp_path: Path) -> None:
    class EagerAnswers(Answers):
        MIN_COMPACTION_ROWS = 4

    class NarrowScan(FileScan):
        def scan_ticks(self, first: int, last: int) -> None:
            if last - first > 4:
                raise EngineMemoryError("too many")
            super().scan_ticks(first, last)

    records = many()
    (tmp_path / "v").write_text("".join(f"{line(record)}\n" for record in records))
    with engine(stream(), [NOTES], kind=engine_with(ANSWERS=EagerAnswers, FILE_SCAN=NarrowScan)) as running:
        passes = list(running.scan_ranges([part(tmp_path / "v", clean=False)], 1, TICKS))
    assert added(passes) == expected(records)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.one_of(TEXTS, st.none(), st.integers(), st.booleans()), max_size=12), TEXTS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_one_record_moves_one_key_by_one_and_no_other(running: Any, notes: list[Any], more: str) -> None:
    def told(some: list[Any]) -> Keyed:
        data = "".join(f"{line({'hours': 1, 'note': note})}\n" for note in some)
        return added([running.scan_block(Block(data.encode(), 0), 1, TICKS, False)])

    before, after = told(notes), told([*notes, more])
    assert Counter(after) - Counter(before) == Counter({(2, more): 1})
    assert not Counter(before) - Counter(after)


@pytest.fixture(scope="module")
def running() -> Any:
    with engine(stream(), [NOTES]) as made:
        yield made


def test_a_tally_shows_no_key() -> None:
    with engine(stream(), [NOTES]) as made:
        data = f"{line({'hours': 1, 'note': 'very private'})}\n".encode()
        (tally,) = made.scan_block(Block(data, 0), 1, TICKS, False).tallies
    assert tally.keys == ("very private",)
    assert "private" not in repr(tally)
