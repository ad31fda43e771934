"""Collectors: impossible reports are dropped, the influence of a report is bounded, and tables are sums."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.localdp import CountMeanSketch, Frequencies, HadamardCountMeanSketch
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import moved
from tests.support.saved_states import read_state

ITEMS = ["a", "b", "c", "d"]
SKETCHES = [HadamardCountMeanSketch(Pure(1), hashes=3, width=4), CountMeanSketch(Pure(1), hashes=3, width=5)]
sketches = pytest.mark.parametrize("claim", SKETCHES, ids=lambda claim: type(claim).__name__)


def every_payload(claim):
    return [bytes(each) for each in product(range(256), repeat=claim.report_size)]


def filled(claim, count=200, seed=1):
    reports = claim.privatise_many([ITEMS[place % 3] for place in range(count)], InsecureNoise(seed))
    collector = claim.build_collector()
    assert collector.add(reports) == count
    return collector, reports


def released():
    view = memoryview(b"abc")
    view.release()
    return view


def same(one, two):
    return one.reports == two.reports and (read_state(one).table == read_state(two).table).all()


@sketches
def test_collector_accepts_exactly_the_payloads_of_honest_devices(claim):
    honest = 24 if claim.report_size == 1 else 3 * 2**5
    payloads = every_payload(claim)
    collector = claim.build_collector()
    assert collector.add(payloads) == honest
    assert (collector.reports, collector.dropped_reports) == (honest, len(payloads) - honest)


@sketches
def test_largest_move_of_an_estimate_is_the_influence(claim):
    good = claim.well_formed(np.array([list(payload) for payload in every_payload(claim)], np.uint8))
    reports = [payload for payload, fine in zip(every_payload(claim), good, strict=True) if fine]
    steps = [np.abs(moved(claim, report, ITEMS)).max() for report in reports]
    assert max(steps) == pytest.approx(claim.influence)


def test_twin_that_accepts_any_code_is_moved_by_forgeries():
    @dataclass(frozen=True)
    class Credulous(HadamardCountMeanSketch):
        def well_formed(self, reports):
            return np.ones(len(reports), bool)

        def tally(self, table, reports, weight):
            super().tally(table, reports % self.codes, weight)

    twin = Credulous(Pure(1), hashes=3, width=4)
    forged = b"\xff"  # no device's: there are 24 codes
    for claim, moves in ((twin, True), (SKETCHES[0], False)):
        collector, _ = filled(claim)
        before = collector.estimate(ITEMS).count
        assert collector.add(forged * 50) == 50 * moves
        assert (np.abs(collector.estimate(ITEMS).count - before).max() > 1) == moves


@sketches
def test_malformed_reports_are_dropped_and_never_raise(claim):
    collector, _ = filled(claim)
    before = read_state(collector).table.copy()
    size = claim.report_size
    hostile = [
        b"\xff" * (size + 1),
        [b"", None, "text", 7, b"\xff" * size, bytearray(b"\xff" * size)],
        np.full((4, size), 255, np.uint8),
        np.zeros((4, size), np.int64),
        np.zeros((4, size + 1), np.uint8),
        np.zeros(size, np.uint8),
        np.uint8(3) * np.ones((), np.uint8),
        np.full((1, size), 255, np.uint8).view(np.matrix),
        np.ma.masked_array(np.full((1, size), 255, np.uint8), mask=True),
        released(),
        None,
        iter([b"\xff" * size]),
    ]
    assert [collector.add(given) for given in hostile] == [0] * len(hostile)
    assert (read_state(collector).table == before).all()
    assert collector.dropped_reports == 2 + 6 + 4 + 4 + 4 + size + 1 + 1 + 1 + 1 + 1 + 1
    assert collector.add(b"") == collector.add([]) == 0


@sketches
def test_reports_as_rows_list_or_bytes_count_alike(claim):
    whole, reports = filled(claim)
    for given in (reports.tobytes(), [row.tobytes() for row in reports], memoryview(reports.tobytes()), reports[::-1]):
        other = claim.build_collector()
        assert other.add(given) == len(reports)
        assert same(whole, other)


@sketches
def test_merged_collectors_equal_one_of_all_reports(claim):
    whole, reports = filled(claim)
    parts = [claim.build_collector() for _ in range(2)]
    for collector, part in zip(parts, np.array_split(reports, [70]), strict=True):
        collector.add(part)
        collector.add(b"\xff" * claim.report_size)
    both = parts[0] + parts[1]
    assert same(both, whole)
    assert both.dropped_reports == 2
    parts[0].merge(parts[1])
    assert same(parts[0], whole)
    with pytest.raises(ValueError, match=r"other must be a collector of .*seed=0.*, got one of .*seed=1"):
        whole.merge(replace(claim, seed=1).build_collector())
    for nothing in (1, None, claim):
        with pytest.raises(ValueError, match=r"other must be a collector of .*seed=0.*, got"):
            whole + nothing


@sketches
def test_removed_reports_leave_no_trace(claim):
    whole, reports = filled(claim)
    part = claim.build_collector()
    part.add(reports[50:])
    assert whole.remove(reports[:50]) == 50
    assert same(whole, part)
    assert whole.remove(b"\xff" * claim.report_size) == 0
    with pytest.raises(ValueError, match="reports must be among the 150 that were added, got 200"):
        whole.remove(reports)
    assert same(whole, part)


@sketches
def test_saved_collector_continues_only_with_its_mechanism(claim):
    whole, reports = filled(claim)
    saved = whole.save()
    loaded = claim.load(saved)
    loaded.add(reports)
    whole.add(reports)
    assert same(loaded, whole)
    for other in (replace(claim, seed=1), replace(claim, loss=Pure(2))):
        with pytest.raises(InvalidSaveError, match="saved must be a run of"):
            other.load(saved)
    with pytest.raises(InvalidSaveError, match="truncated or altered"):
        claim.load(saved[:-1] + bytes([saved[-1] ^ 1]))


@sketches
def test_save_with_impossible_numbers_is_refused(claim):
    for change in (
        {"reports": -1},
        {"reports": 1},
        {"dropped_reports": -1},
        {"table": np.full_like(claim.build_table(), 201)},
        {"table": np.full_like(claim.build_table(), -201)},
    ):
        spoilt, _ = filled(claim)
        for name, value in change.items():
            setattr(spoilt._state, name, value)
        with pytest.raises(InvalidSaveError, match="saved must hold a state of its claim, got another"):
            claim.load(spoilt.save())


@sketches
def test_estimates_without_reports_are_zero(claim):
    found = claim.build_collector().estimate(ITEMS)
    assert not found.count.any()
    assert not found.stddev.any()
    assert not found.share.any()


def test_large_and_small_tables_count_alike(monkeypatch):
    wide, _ = filled(SKETCHES[0])
    monkeypatch.setattr("streamgauge.localdp.oracle.MAX_WIDE_CELLS", 1)
    narrow, _ = filled(SKETCHES[0])
    assert (read_state(wide).table.dtype, read_state(narrow).table.dtype) == (np.int64, np.int32)
    assert same(wide, narrow)


def test_cells_grow_before_reports_overflow_them(monkeypatch):
    monkeypatch.setattr("streamgauge.localdp.oracle.MAX_WIDE_CELLS", 1)
    collector, reports = filled(SKETCHES[0])
    cell = np.unravel_index(int(reports[0, 0]) >> 1, (3, 4))
    sign = 2 * (int(reports[0, 0]) & 1) - 1
    collector._state.reports, collector._state.table[cell] = 2**31 - 1, sign * (2**31 - 1)
    small = collector.mechanism.load(collector.save())
    assert collector.add(reports[:1].tobytes()) == 1
    assert (read_state(collector).table.dtype, read_state(collector).table[cell]) == (np.int64, sign * 2**31)
    loaded = collector.mechanism.load(collector.save())
    assert same(loaded, collector)
    one = SKETCHES[0].build_collector()
    one.add(reports[:1])
    assert same(small + one, collector)
    one.merge(loaded)
    assert read_state(one).table[cell] == sign * (2**31 + 1)


def test_top_is_the_candidates_of_the_largest_estimates():
    claim = HadamardCountMeanSketch(Pure(8), hashes=64, width=64)
    collector = claim.build_collector()
    collector.add(claim.privatise_many(["a"] * 500 + ["b"] * 900 + ["c"] * 50, InsecureNoise(1)))
    assert collector.top(ITEMS, 2).items == ("b", "a")
    assert len(collector.top(ITEMS, 9).count) == 4
    assert collector.top(["b", "a", "b", "b", 7, "7", np.int8(7)], 9).items == ("b", "a", 7)


def test_frequencies_have_shares_and_clipped_intervals():
    found = Frequencies(("a", "b"), np.array([-3.0, 60.0]), np.array([2.0, 30.0]), 100)
    low, high = found.interval(0.95)
    assert found.share.tolist() == [-0.03, 0.6]
    assert low == pytest.approx([0, 1.2], abs=0.01)
    assert high == pytest.approx([0.92, 100], abs=0.01)
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1, got 1"):
        found.interval(1)
    for confidence in ("0.95", None, float("nan")):
        with pytest.raises(ValueError, match=f"confidence must be above 0 and below 1, got {confidence!r}"):
            found.interval(confidence)
    for count in (-1, 2.5, "2"):
        with pytest.raises(ValueError, match=f"count must be a whole number of at least 0, got {count!r}"):
            found.top(count)
