"""The engine of several processes gives the sums of the embedded one, also when workers die."""

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.engines import DuckEngine, EngineError
from streamgauge.engines.duckdb.connection import EngineMemoryError
from streamgauge.engines.duckdb.engine import open_embedded
from streamgauge.engines.processes.engine import PROCESSES, ProcessEngine
from streamgauge.engines.processes.pool import Worker, WorkerPool
from streamgauge.engines.processes.tasks import redact_failure
from streamgauge.interfaces import EngineRequest, StopRequestedError
from streamgauge.plan.measure import Measure, Pass
from streamgauge.privacy import Tick, Unit, User
from streamgauge.sources.errors import SourceError
from streamgauge.sources.file import FileRange
from streamgauge.testing.contracts import add_passes, check_engine, check_engine_changes, check_engine_ranges
from tests.support.declared import ALL, BY_REGION, HEADER, REGIONS, SECRET, TICKS, counted, csv_line, json_line, stream
from tests.support.pipelines import one_a_second, pipeline, published, run, tables, write

NOTES = Measure(None, (), columns=frozenset({"note"}), key='"note"')
USERS = User(max_events_per_tick=2, max_ticks=3)
RECORDS: list[dict[str, Any]] = [
    {"hours": i * 7 % 30, "region": REGIONS[i % 4], "temperature": i % 50, "who": f"u{i * i % 23}"}
    | {"note": f"n{i // 30 % 3}"}
    for i in range(600)
]
LINES = [json_line(record).encode() for record in RECORDS] + [b"no record", b"{}", b'{"ts": "1999-01-01"}']


def request(unit: Unit | None = None, measures: Sequence[Measure] = (BY_REGION, ALL), **changes: Any) -> EngineRequest:
    return EngineRequest(stream(unit=unit), {}, measures, SECRET, "200MB", True, changes)


def embedded(
    unit: Unit | None = None, measures: Sequence[Measure] = (BY_REGION, ALL), kind: type[DuckEngine] = DuckEngine
) -> DuckEngine:
    made = request(unit, measures)
    settings: dict[str, Any] = {"memory": made.memory, "count_columns": True}
    return kind(made.stream, {}, measures, secret=SECRET, threads=1, **settings)


def cut(folder: Path, seed: int) -> list[Any]:
    """Write the lines to files, cut and ordered at random, a part of them not clean."""
    chance = random.Random(seed)
    lines = chance.sample(LINES, len(LINES))
    ends = sorted(chance.sample(range(len(lines)), 7))
    ranges = []
    for number, (begin, end) in enumerate(zip([0, *ends], [*ends, len(lines)], strict=True)):
        path = folder / f"{seed} {number}"
        path.write_bytes(b"".join(line + b"\n" for line in lines[begin:end]))
        ranges.append(FileRange(path, chance.random() < 0.7, None, "jsonl"))
    return chance.sample(ranges, len(ranges))


class MortalWorker(Worker):
    """A worker that dies in its first two tasks: before the answer, and after it."""

    deaths = 0

    def answer(self, task: Any) -> Any:
        self.deaths += 1
        if self.deaths == 1:
            self._kill()
        answer = super().answer(task)
        if self.deaths == 2:
            self._kill()
            raise EOFError
        return answer

    def _kill(self) -> None:
        process = self.process or self._start()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


class MortalPool(WorkerPool):
    WORKER = MortalWorker


class MortalEngine(ProcessEngine):
    POOL = MortalPool


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", [USERS, None, User(2, 2, per=6, renewal=3), Tick(3)], ids=str)
def test_random_cuts_and_killed_workers_change_no_sum(tmp_path: Path, unit: Unit | None) -> None:
    found: list[tuple[Any, Any, Any]] = []
    for seed, kind in enumerate((ProcessEngine, MortalEngine)):
        with embedded(unit) as whole, kind(request(unit), 2) as tested:
            ranges = cut(tmp_path, seed)
            passes = [list(each.scan_ranges(ranges, 1, TICKS)) for each in (whole, tested)]
        found += [(add_passes(each), counted(each), each[0].absences) for each in passes]
    assert found == [found[0]] * 4
    assert found[0][1]["records"] == len(LINES)


def test_discovered_keys_are_those_of_the_embedded_engine(tmp_path: Path) -> None:
    def by_key(passes: list[Pass]) -> dict[tuple[int, str], int]:
        rows: dict[tuple[int, str], int] = {}
        for tally in passes[0].tallies:
            for tick, place, count in zip(tally.ticks.tolist(), tally.groups.tolist(), tally.sums[0], strict=True):
                rows[tick, tally.keys[place]] = rows.get((tick, tally.keys[place]), 0) + int(count)
        return rows

    with embedded(None, [NOTES]) as whole, ProcessEngine(request(None, [NOTES]), 2) as tested:
        ranges = cut(tmp_path, 1)
        expected, found = (by_key(list(each.scan_ranges(ranges, 1, TICKS))) for each in (whole, tested))
    assert found == expected
    assert len(found) > TICKS


class NarrowEngine(DuckEngine):
    MAX_PASS_NUMBERS = 200


class NarrowProcessEngine(ProcessEngine):
    MAX_PASS_NUMBERS = 200


@pytest.mark.parametrize("unit", [None, USERS], ids=str)
def test_later_passes_count_no_record_again(tmp_path: Path, unit: Unit | None) -> None:
    with embedded(unit, kind=NarrowEngine) as whole, NarrowProcessEngine(request(unit), 2) as tested:
        ranges = cut(tmp_path, 2)
        expected, found = (list(each.scan_ranges(ranges, 1, TICKS)) for each in (whole, tested))
    assert len(found) > 2
    assert [(each.first, each.last) for each in found] == [(each.first, each.last) for each in expected]
    assert (add_passes(found), counted(found)) == (add_passes(expected), counted(expected))


def test_engine_of_processes_meets_the_contract(tmp_path: Path) -> None:
    lines = [line for line in LINES if len(line) % 6][:40]  # poison after others is an empty line, which is no record
    check_engine(lambda: ProcessEngine(request(), 2), embedded, lines, TICKS)
    check_engine_changes(
        lambda measures: ProcessEngine(request(USERS, measures), 2),
        lambda measures: embedded(USERS, measures),
        [ALL],
        [BY_REGION, ALL],
        lines=lines,
        ticks=TICKS,
    )
    check_engine_ranges(lambda: ProcessEngine(request(), 2), embedded, cut(tmp_path, 3), TICKS)


def test_changed_measures_reach_the_workers(tmp_path: Path) -> None:
    ranges = cut(tmp_path, 4)
    with ProcessEngine(request(None, [ALL]), 2) as tested, embedded() as whole:
        list(tested.scan_ranges(ranges, 1, TICKS))
        tested.change_measures([BY_REGION, ALL])
        assert add_passes(tested.scan_ranges(ranges, 1, TICKS)) == add_passes(whole.scan_ranges(ranges, 1, TICKS))


class SlicingEngine(ProcessEngine):
    MIN_TASK_BYTES = 1000


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_slices_of_one_file_have_each_record_once(tmp_path: Path, kind: str) -> None:
    header, line = (HEADER, csv_line) if kind == "csv" else (None, json_line)
    lines = [b",".join(name.encode() for name in HEADER)] * (kind == "csv") + [line(each).encode() for each in RECORDS]
    path = tmp_path / "all"
    path.write_bytes(b"\n".join(lines))
    whole = FileRange(path, True, header, kind)
    for size in (100, 1000, 3000):
        blocks = [block.data for part in whole.split(size) for block in part.blocks()]
        assert b"".join(blocks) == b"".join(line(each).encode() + b"\n" for each in RECORDS)
    declared = replace(request(), stream=stream(kind))
    with SlicingEngine(declared, 2) as tested, open_embedded(declared) as known:
        found, expected = (list(each.scan_ranges([whole], 1, TICKS)) for each in (tested, known))
    assert (add_passes(found), counted(found)) == (add_passes(expected), counted(expected))
    assert counted(found)["records"] == len(RECORDS)


@dataclass(frozen=True)
class DeadlyRange:
    """A range that kills each process that reads it."""

    path: Path
    is_clean: bool = False
    header: None = None
    size: int = 1

    def split(self, size: int) -> Any:
        return [self]

    def blocks(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class EndlessRange(DeadlyRange):
    """A range that never ends, and writes that it was begun."""

    def blocks(self) -> Any:
        self.path.touch()
        Flag().wait()


def test_task_that_kills_every_worker_ends_the_run(tmp_path: Path) -> None:
    with (
        ProcessEngine(request(), 2) as tested,
        pytest.raises(EngineError, match=r"must finish its task: .*, got 3 that ended"),
    ):
        list(tested.scan_ranges([*cut(tmp_path, 5), DeadlyRange(tmp_path / "x")], 1, TICKS))


def test_stop_ends_all_workers(tmp_path: Path) -> None:
    begun, stop = tmp_path / "begun", Flag()

    class StoppingFlag(Flag):
        def is_set(self) -> bool:
            return begun.exists()

    stop = StoppingFlag()
    with ProcessEngine(request(), 2) as tested, pytest.raises(StopRequestedError):
        list(tested.scan_ranges([*cut(tmp_path, 6), EndlessRange(begun)], 1, TICKS, stop))


class FaultyRange(DeadlyRange):
    """A range that raises an error with data."""

    def blocks(self) -> Any:
        raise ValueError("a record")


def test_failure_in_a_worker_has_no_data(tmp_path: Path) -> None:
    with ProcessEngine(request(), 2) as tested, pytest.raises(EngineError, match="got a failure in a worker process"):
        list(tested.scan_ranges([*cut(tmp_path, 7), FaultyRange(tmp_path)], 1, TICKS))


def test_missing_file_is_named(tmp_path: Path) -> None:
    missing = FileRange(tmp_path / "missing", True, None, "jsonl")
    for unit in (None, USERS):
        with ProcessEngine(request(unit), 2) as tested, pytest.raises(SourceError, match="missing"):
            list(tested.scan_ranges([*cut(tmp_path, 8), missing], 1, TICKS))


class CleverError(EngineMemoryError):
    """An error that cannot be copied."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def test_errors_of_other_packages_lose_their_message() -> None:
    kept, lost = EngineMemoryError("too little"), "the engine must be able to read"
    assert redact_failure(kept) is kept
    assert str(redact_failure(ValueError("a record"))).startswith(lost)
    assert str(redact_failure(CleverError("a", "b"))).startswith(lost)


@pytest.mark.parametrize("processes", [0, True, 1.5, "2", 2000])
def test_number_of_processes_is_checked(processes: Any) -> None:
    assert PROCESSES.check_options is not None
    with pytest.raises(ValueError, match="processes must be a whole number from 1 to 1024, got"):
        PROCESSES.check_options({"processes": processes})
    PROCESSES.check_options({"processes": 3})


def test_engine_opens_with_as_many_processes_as_requested() -> None:
    with PROCESSES.open(request(processes=3)) as engine, PROCESSES.open(request()) as other:
        assert isinstance(engine, ProcessEngine)
        assert isinstance(other, ProcessEngine)
        assert (engine.processes, other.processes) == (3, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    "unit", ["event", {"user": "u", "max_events_per_tick": 2, "max_ticks": 4}], ids=["event", "user"]
)
def test_pipeline_of_processes_publishes_the_same_releases(tmp_path: Path, unit: Any) -> None:
    found = []
    for kind in ("embedded", "processes"):
        folder = tmp_path / kind
        (folder / "days").mkdir(parents=True)
        for day in range(3):
            write(folder, one_a_second()[day::3], f"days/{day}.jsonl")
        options = {"processes": 2} if kind == "processes" else {}
        declared = tables(source="days", format="jsonl", unit=unit) | {"engine": {"kind": kind, "options": options}}
        made = pipeline(folder, declared)
        run(made)
        found.append(published(made))
    assert found[0] == found[1]
    assert sum(map(sum, found[0])) == (100 if unit == "event" else 24)
