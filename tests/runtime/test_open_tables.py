"""Open ticks as tables and rows: they are restored whole, predicted, and of constant size on disk."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamgauge.plan.measure import Cell, GridValue, Measure, Tally
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc.releases import parse_adhoc_release
from streamgauge.runtime.live import open_ticks
from streamgauge.runtime.live.open_ticks import OpenSums, OpenTicks, open_bytes, saved_open_bytes
from streamgauge.runtime.plan.limits import memory_bytes
from streamgauge.runtime.ticks import closed_tick, newest_tick
from streamgauge.runtime.ticks import max_open_ticks as open_at_most
from streamgauge.sql.query import GroupColumn
from tests.support.pipelines import pipeline, tables

TICKS = 4
GROUPS = (GroupColumn("g", ("a", "b", "c"), "0"),)
MEASURES: Mapping[str, Measure] = {
    "sums/0": Measure(None, GROUPS, (GridValue("x", 0, 9, Fraction(1), 2),)),
    "cells/0": Measure(None, GROUPS, cell=Cell("x", 7, Fraction(0), Fraction(1))),
    "codes/0": Measure(None, GROUPS, cell=Cell("u", 1001)),
    "wide/0": Measure(None, GROUPS, cell=Cell("x", 10**7, Fraction(0), Fraction(1))),
    "words/0": Measure(None, (), key="w"),
}


def tally(measure: Measure, events: int, last: int = TICKS) -> Tally:
    """Return a tally of events that differ as far as possible."""
    at = np.arange(events)
    if measure.key is not None:
        return Tally(at % last + 1, at, at * 0, np.ones((1, events), np.int64), tuple(f"w{i}" for i in range(events)))
    cells = 1 if measure.cell is None else measure.cell.count
    sums = np.stack([at * 0 + 1, *([at + 1] * (measure.rows - 1))])
    return Tally(at % last + 1, at % measure.width, at * 7 % cells, sums)


def waiting(events: int, ticks: int = TICKS, names: Any = MEASURES, **settings: Any) -> OpenTicks:
    made = OpenTicks({name: MEASURES[name] for name in names}, ticks, **settings)
    for _ in range(2):
        made.add([tally(MEASURES[name], events) for name in names])
    return made


def added(name: str, found: Tally) -> dict[Any, Any]:
    """Return the sums by tick, place and cell, or key; codes are only present or absent."""
    sums: dict[Any, Any] = {}
    where = found.keys or found.groups.tolist()
    for row, key in enumerate(zip(found.ticks.tolist(), where, found.cells.tolist(), strict=True)):
        sums[key] = sums.get(key, 0) + found.sums[:, row]
    return {key: 1 if name.startswith("codes") else row.tolist() for key, row in sums.items()}


@pytest.mark.parametrize("before", [0, TICKS])
@pytest.mark.parametrize("after", [0, TICKS])
def test_open_ticks_saved_as_tables_or_rows_are_restored(before: int, after: int) -> None:
    """Without a known number of open ticks there are only rows."""
    again, known = OpenTicks(MEASURES, after), waiting(50)
    again.restore(waiting(50, before).save(TICKS))
    for last in (1, TICKS):
        for name, one, two in zip(MEASURES, again.close(last), known.close(last), strict=True):
            assert added(name, one) == added(name, two)
            assert len(one.ticks)


def sizes(*events: int, ticks: int = TICKS, **settings: int) -> set[int]:
    names = [name for name in MEASURES if name != "words/0"]
    return {len(waiting(count, names=names, **settings).save(ticks)) for count in events}


def test_saved_size_does_not_depend_on_number_of_events() -> None:
    assert len(sizes(0, 1, 500, 20_000)) == 1
    assert len(sizes(0, 1, 500, ticks=50)) == 1  # after a downtime


def test_twin_without_padding_reveals_number_of_events() -> None:
    assert len(sizes(0, 1, 500, min_rows_bytes=1)) > 1


def test_many_wide_measures_share_one_padding() -> None:
    wide = {f"wide/{i}": MEASURES["wide/0"] for i in range(20)}
    assert open_ticks.MIN_ROWS_BYTES < len(OpenTicks(wide, TICKS).save(TICKS)) < open_ticks.MIN_ROWS_BYTES + 2**14


def test_rows_beyond_padding_grow_by_powers_of_two() -> None:
    small: dict[str, Any] = {"names": ["wide/0"], "min_rows_bytes": 2**10}
    found = [len(waiting(count, **small).save(TICKS)) for count in (40, 64, 65, 100, 128)]
    assert found[0] == found[1] < found[2] == found[3] == found[4]


@pytest.mark.parametrize("name", ["sums/0", "cells/0", "codes/0"])
def test_saved_size_of_table_is_predicted(name: str) -> None:
    measure, saved = MEASURES[name], waiting(500, names=[name]).save(TICKS)
    assert 0 <= len(saved) - saved_open_bytes(measure, TICKS) < 2**10
    assert open_bytes(measure, TICKS) == saved_open_bytes(measure, TICKS)


def test_predicted_size_of_rows_covers_every_cell() -> None:
    measure = MEASURES["wide/0"]
    most = TICKS * measure.width * 10**7
    assert open_bytes(measure, TICKS) == OpenSums.size(measure, TICKS) == 8 * 4 * most
    assert {open_bytes(each, 0) for each in MEASURES.values()} == {0}  # a batch source has none


@pytest.mark.parametrize("lateness", ["0s", "5s", "25s"])
def test_number_of_open_ticks_matches_prediction(tmp_path: Any, lateness: str) -> None:
    stream = pipeline(tmp_path, tables(live=True, allowed_lateness=lateness)).file.stream
    moments = range(stream.start + 10**8, stream.start + 2 * 10**8, 500_000)
    found = {newest_tick(stream, now) - closed_tick(stream, now) for now in moments}
    assert open_at_most(stream) - 1 <= max(found) <= open_at_most(stream)


def test_memory_of_release_includes_its_open_ticks(tmp_path: Any) -> None:
    sql = {"name": "r", "sql": "SELECT MEDIAN(x) FROM v", "epsilon": "1/100", "window": "each"}
    stored = []
    for late in ("5s", "1h"):
        file = pipeline(tmp_path, tables(live=True, allowed_lateness=late)).file
        plan = plan_release(file, parse_adhoc_release(sql, file.stream))
        stored.append(memory_bytes(plan))
    (measure,) = {part.measure for part in plan.parts}
    assert stored[1] - stored[0] == 8 * measure.cell.count * (3600 - 5) // 10 + 8 * measure.cell.count // 2
