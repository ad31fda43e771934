"""Bounds of users in a batch source: events a tick and ticks, by the events of that user alone."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines import DuckEngine
from streamgauge.engines.duckdb import scan_files as ranking
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.plan.measure import count_tally_numbers
from streamgauge.privacy import User
from tests.support.declared import (
    ALL,
    BY_REGION,
    HEADER,
    HOUR,
    REGIONS,
    START,
    TICKS,
    CountingScan,
    counted,
    csv_line,
    engine,
    engine_with,
    expected,
    json_line,
    part,
    stream,
    sums,
    write_parquet,
)

UNIT = User(max_events_per_tick=2, max_ticks=3)
Records = list[dict[str, Any]]

visits = st.lists(
    st.fixed_dictionaries(
        {
            "hours": st.integers(0, 5).map(float),
            "region": st.sampled_from([*REGIONS, "elsewhere"]),
            "temperature": st.sampled_from([36.0, 38.5, 41.0]),
            "who": st.sampled_from(["ann", "bob", "cleo", "", None, "7"]),
        }
    ),
    max_size=60,
)


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json_line(record) + "\n" for record in records))
    return path


def running(kind: type[DuckEngine] = DuckEngine, **changes: Any) -> DuckEngine:
    return engine(stream(unit=UNIT, **changes), [ALL, BY_REGION], kind=kind)


def by_user(records: Records) -> dict[str, Records]:
    return {who: [r for r in records if r["who"] == who] for who in {r["who"] for r in records} if who is not None}


def events_and_ticks(records: Records) -> tuple[int, list[int]]:
    """Return the number of surviving events of one user and their ticks, counted by hand."""
    ticks = sorted({int(record["hours"]) + 1 for record in records})[: UNIT.max_ticks]
    return sum(min(UNIT.max_events_per_tick, sum(int(r["hours"]) + 1 == t for r in records)) for t in ticks), ticks


def added(answers: Sequence[dict[Any, tuple[int, ...]]]) -> dict[Any, tuple[int, ...]]:
    total: dict[Any, tuple[int, ...]] = {}
    for answer in answers:
        for key, row in answer.items():
            total[key] = tuple(map(sum, zip(row, total.get(key, (0,) * len(row)), strict=True)))
    return total


@pytest.mark.slow
@settings(max_examples=15)
@given(records=visits, order=st.randoms(use_true_random=False))
def test_a_source_is_the_sum_of_its_users_each_alone(
    tmp_path_factory: pytest.TempPathFactory, records: Records, order: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "users.jsonl"
    with running() as tested:
        shuffled = order.sample(records, len(records))
        together = list(tested.scan_ranges([part(write(path, shuffled))], 1, TICKS))
        alone = [list(tested.scan_ranges([part(write(path, own))], 1, TICKS)) for own in by_user(records).values()]
    for measure in (0, 1):
        assert sums(together, measure) == added([sums(one, measure) for one in alone])
    for own, found in zip(by_user(records).values(), alone, strict=True):
        count, ticks = events_and_ticks(own)
        assert sorted({key[0] for key in sums(found)}) == ticks
        assert sum(row[0] for row in sums(found).values()) == count
        assert counted(found)["bounded"] == len(own) - count
    assert counted(together)["no user"] == sum(record["who"] is None for record in records)


def visitors(count: int = 400) -> Records:
    return [
        {"hours": i * 7 % 24, "region": REGIONS[i % 4], "temperature": 35 + i % 70 / 10, "who": f"u{i % 11}"}
        for i in range(count)
    ]


@dataclass
class QuarteredScan(FileScan):
    """A scan that begins with four parts of the users."""

    parts: int = 4


class ExpectantScan(FileScan):
    """A scan that expects too many rows for one part of the users."""

    MEMORY_RATIOS: ClassVar[dict[str, float]] = {"jsonl": 200_000}
    attempts: ClassVar[list[int]] = []

    def _attempt(self, first: int, last: int) -> None:
        self.attempts.append(self.parts)
        super()._attempt(first, last)


def test_large_files_begin_with_several_parts_of_users(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", visitors())
    with running() as whole, running(kind=engine_with(FILE_SCAN=ExpectantScan)) as split:
        found = [sums(each.scan_ranges([part(path)], 1, TICKS)) for each in (whole, split)]
    assert found[0] == found[1]
    least = 200_000 * path.stat().st_size / 600e6
    assert all(least <= parts < 2 * least for parts in ExpectantScan.attempts)


def test_parts_files_blocks_and_passes_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", visitors())
    halves = [write(tmp_path / f"{i}.jsonl", visitors()[i::2]) for i in (0, 1)]
    with running() as tested:
        whole = [sums(tested.scan_ranges([part(path)], 1, TICKS), measure) for measure in (0, 1)]
        tally = counted(tested.scan_ranges([part(path)], 1, TICKS))
        for files in ([part(path, clean=False)], [part(halves[0]), part(halves[1], clean=False)]):
            for scan in (FileScan, QuarteredScan):
                with running(kind=engine_with(FILE_SCAN=scan)) as other:
                    found = list(other.scan_ranges(files, 1, TICKS))
                assert [sums(found, measure) for measure in (0, 1)] == whole
                assert counted(found) == tally
        with running(kind=engine_with(MAX_PASS_NUMBERS=5 * (4 + count_tally_numbers(BY_REGION)))) as other:
            found = list(other.scan_ranges([part(path)], 1, TICKS))
        assert len(found) == 5
        assert [sums(found, measure) for measure in (0, 1)] == whole
    assert whole[1] != expected(visitors())


def test_bounds_count_from_the_first_tick_wherever_a_run_resumes(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", visitors())
    with running() as tested:
        whole = sums(tested.scan_ranges([part(path)], 1, TICKS))
        late = sums(tested.scan_ranges([part(path)], 3, TICKS))
    assert late == {key: row for key, row in whole.items() if key[0] >= 3}
    assert late


def test_bounds_come_before_any_filter(tmp_path: Path) -> None:
    warm = replace(ALL, where='"temperature" > 38', columns=frozenset({"temperature"}))
    cool = replace(ALL, where='"temperature" <= 38', columns=frozenset({"temperature"}))
    records = [{"hours": 0, "temperature": value, "who": "ann"} for value in (36, 37, 39, 40, 41)]
    with engine(stream(unit=UNIT), [warm, cool]) as tested:
        found = list(tested.scan_ranges([part(write(tmp_path / "a.jsonl", records))], 1, TICKS))
    assert sum(sums(found, measure).get((1, 0, 0), (0,))[0] for measure in (0, 1)) == UNIT.max_events_per_tick


def test_csv_and_json_know_the_same_users(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join([",".join(HEADER), *map(csv_line, visitors())]))
    with running(format="csv") as tested:
        found = sums(tested.scan_ranges([part(path, header=HEADER)], 1, TICKS))
    with running() as tested:
        assert found == sums(tested.scan_ranges([part(write(tmp_path / "a.jsonl", visitors()))], 1, TICKS))


def test_too_little_memory_for_all_users_changes_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    times = f"make_timestamp({START} + (i * 7 % {TICKS}) * {HOUR}) AS ts"
    values = "'north' AS region, 35 + i % 70 / 10 AS temperature, i % 5003 AS who"
    write_parquet(path, f"SELECT {times}, {values} FROM range(250000) t(i)")
    answers, before, kind = [], CountingScan.reductions, engine_with(FILE_SCAN=CountingScan)
    for memory in ("600MB", "24MB"):
        with engine(stream("parquet", UNIT), [ALL, BY_REGION], kind=kind, memory=memory, threads=2) as tested:
            found = list(tested.scan_ranges([part(path)], 1, TICKS))
            answers.append((sums(found), sums(found, 1), counted(found)))
    assert CountingScan.reductions > before
    assert answers[0] == answers[1]


def test_a_choice_by_the_order_of_the_file_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: without the hash, the first event of the file survives."""
    records = [{"hours": 0, "region": region, "who": "ann"} for region in REGIONS]
    forth, back = write(tmp_path / "forth", records), write(tmp_path / "back", records[::-1])

    def survivors() -> list[dict[Any, tuple[int, ...]]]:
        with engine(stream(unit=User(1, 1)), threads=1) as tested:
            return [sums(tested.scan_ranges([part(path)], 1, TICKS)) for path in (forth, back)]

    one, other = survivors()
    assert one == other
    monkeypatch.setattr(ranking, "ORDER", "0")
    one, other = survivors()
    assert one != other


def test_users_with_long_names_are_counted_separately(tmp_path: Path) -> None:
    """A hash stands for a long name, and it is the name of no other user."""
    long = "ann" * 40
    names = [long, long + "!", hashlib.sha256(long.encode()).hexdigest(), "sha256", "z" * 64, "z" * 65]
    records = [{"hours": 0, "who": who} for who in names for _ in range(5)]
    with engine(stream(unit=UNIT), [ALL]) as tested:
        found = sums(tested.scan_ranges([part(write(tmp_path / "a.jsonl", records))], 1, TICKS))
    assert found == {(1, 0, 0): (len(names) * UNIT.max_events_per_tick,)}


def test_records_that_were_dropped_are_no_events_of_their_users(tmp_path: Path) -> None:
    """Records before the start or without a user do not use up the bounds of a user."""
    outside = [{"hours": -5.0 - i, "who": "ann"} for i in range(9)]
    no_user = [{"hours": 0, "who": None}] * 9
    own = [{"hours": i, "who": "ann"} for i in range(UNIT.max_ticks)]
    with engine(stream(unit=UNIT), [ALL]) as tested:
        found = list(tested.scan_ranges([part(write(tmp_path / "a.jsonl", [*outside, *no_user, *own]))], 1, TICKS))
    assert sums(found) == {(tick, 0, 0): (1,) for tick in range(1, UNIT.max_ticks + 1)}
    assert counted(found) == {**counted(found), "outside": 9, "no user": 9, "bounded": 0}
