"""A stop request ends every step of reading a batch source, without a result."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from threading import Timer
from typing import Any

import pytest

from streamgauge.engines import EngineMemoryError
from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.interfaces import StopRequestedError
from streamgauge.plan.measure import Measure
from streamgauge.records.blocks import Block
from streamgauge.sources.file import is_clean
from tests.support.declared import ALL, TICKS, Part, engine, engine_with, json_line, part, stream

SLOW, SLOWER = (
    Measure(f'list_sum(list_transform(range({steps}), lambda x: x * "$tick")) > 0', ()) for steps in (80, 500)
)
VISITS = 300_000  # DuckDB looks for signals after some hundred thousand


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.jsonl"
    path.write_text((json_line({"hours": 1.0}) + "\n") * VISITS)
    return path


def answers_that(act: Callable[[], object]) -> type[Answers]:
    """Return answers that call `act` soon after each query begins."""

    class TimedAnswers(Answers):
        def add(self, rows: str, chosen: str = "true") -> None:
            Timer(0.05, act).start()
            super().add(rows, chosen)

    return TimedAnswers


def scanned(path: Path, stop: Flag | None, measure: Measure = SLOWER, **components: Any) -> list[Any]:
    with engine(stream(), [measure], kind=engine_with(**components), threads=1) as duck:
        return list(duck.scan_ranges([part(path)], 1, TICKS, stop))


def test_a_stop_ends_a_query_that_is_running(visits: Path) -> None:
    stop = Flag()
    with pytest.raises(StopRequestedError) as caught:
        scanned(visits, stop, ANSWERS=answers_that(stop.set))
    assert caught.value.__cause__ is None
    assert caught.value.args == ()


def test_twin_without_interrupt_finishes_its_query(visits: Path) -> None:
    """The twin: without the interrupt the query continues to its end."""

    class DeafConnection(DuckConnection):
        def interrupt(self) -> None:
            pass

    stop = Flag()
    kind = engine_with(ANSWERS=answers_that(stop.set), CONNECTION=DeafConnection)
    with engine(stream(), [SLOW], kind=kind, threads=1) as duck, suppress(StopRequestedError):
        assert next(duck.scan_ranges([part(visits)], 1, TICKS, stop)).counts["records"] == VISITS
        return
    raise AssertionError("the query must go on to its end")


def test_stop_ends_the_halving_of_large_scans(visits: Path) -> None:
    tried, stop = [], Flag()

    class FullScan(FileScan):
        def _attempt(self, first: int, last: int) -> None:
            tried.append((first, last))
            if len(tried) == 3:
                stop.set()
            raise EngineMemoryError("too little")

    with pytest.raises(StopRequestedError):
        scanned(visits, stop, ALL, FILE_SCAN=FullScan)
    assert len(tried) == 3
    with pytest.raises(EngineMemoryError):
        scanned(visits, None, ALL, FILE_SCAN=FullScan)
    assert len(tried) > 6


def test_stop_ends_reading_between_blocks(visits: Path) -> None:
    stop, read = Flag(), []
    data = visits.read_bytes()

    def blocks() -> Any:
        for number in range(50):
            read.append(number)
            if number == 3:
                stop.set()
            yield Block(data[:1000].rpartition(b"\n")[0] + b"\n", 0)

    with engine(stream(), [ALL]) as duck, pytest.raises(StopRequestedError):
        list(duck.scan_ranges([Part(visits, False, None, blocks)], 1, TICKS, stop))
    assert len(read) < 10


def test_stop_ends_the_check_of_a_file(visits: Path) -> None:
    stop = Flag()
    assert is_clean(visits, stop)
    stop.set()
    with pytest.raises(StopRequestedError):
        is_clean(visits, stop)


def test_without_a_signal_handler_ctrl_c_interrupts(visits: Path) -> None:
    """Ctrl-C in a notebook is no failure of the engine, after which it would read the file in blocks."""
    interrupting = answers_that(lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            scanned(visits, Flag(), ANSWERS=interrupting)
    finally:
        signal.signal(signal.SIGINT, before)
