"""Windows: at every tick the collector of exactly the reports that are in it."""

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.localdp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    HeavyHitters,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
    WindowedCollector,
)
from streamgauge.testing.noise import InsecureNoise
from tests.support.saved_states import read_state

ITEMS = ("a", "b", "c")
CLAIMS = [
    HadamardCountMeanSketch(Pure(1), hashes=30, width=4),
    RandomisedResponse(Pure(1), items=ITEMS),
    UnaryEncoding(Pure(1), items=ITEMS),
    HeavyHitters(Pure(1), alphabet="abc", length=2, step=1, hashes=2, width=4),
]
COUNTS = (40, 0, 25, 3, 60, 17, 8)  # reports of each tick
REACH = {"running": len(COUNTS), "each": 1, 1: 1, 3: 3, 9: 9}

claims = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
windows = pytest.mark.parametrize("window", REACH)


class NeverLeaves(WindowedCollector):
    """A twin that never expires reports."""

    def _expire_reports(self):
        pass


def ticks_of(claim, seed=1):
    noise = InsecureNoise(seed)
    return [claim.privatise_many([ITEMS[place % 3] for place in range(count)], noise) for count in COUNTS]


def is_window_of(windowed, parts):
    """Return whether a window is a collector of these reports."""
    whole = windowed.mechanism.build_collector()
    for each in parts:
        whole.add(each)
    found, expected = windowed.estimate(ITEMS), whole.estimate(ITEMS)
    return windowed.reports == whole.reports and all(
        (getattr(found, name) == getattr(expected, name)).all() for name in ("count", "stddev")
    )


def are_right(windowed, ticks):
    right = []
    for tick, reports in enumerate(ticks, 1):
        assert windowed.step(reports) == len(reports)
        right.append(is_window_of(windowed, ticks[max(tick - REACH[windowed.window], 0) : tick]))
    return all(right)


@claims
@windows
def test_estimates_at_every_tick_cover_exactly_the_window(claim, window):
    windowed = WindowedCollector(claim, window=window)
    assert are_right(windowed, ticks_of(claim))
    assert windowed.tick == len(COUNTS)


@pytest.mark.parametrize("window", ["each", 3])
def test_twin_that_expires_nothing_is_caught(window):
    twin = NeverLeaves(CLAIMS[0], window=window)
    assert not are_right(twin, ticks_of(CLAIMS[0]))


@claims
@windows
def test_merged_windows_continue_as_one(claim, window):
    here, there = ticks_of(claim), ticks_of(claim, seed=2)
    both = [np.concatenate(pair) for pair in zip(here, there, strict=True)]
    one, two = WindowedCollector(claim, window=window), WindowedCollector(claim, window=window)
    for mine, other in zip(here[:5], there[:5], strict=True):
        one.step(mine)
        two.step(other)
    one.merge(two)
    for tick in (6, 7):
        one.step(both[tick - 1])
        assert is_window_of(one, both[max(tick - REACH[window], 0) : tick])


@claims
@windows
def test_saved_window_continues_from_its_tick(claim, window):
    ticks = ticks_of(claim)
    windowed = WindowedCollector(claim, window=window)
    for reports in [[None], *ticks[:4]]:
        windowed.step(reports)
    loaded = WindowedCollector.load(claim, windowed.save(), window=window)
    assert (loaded.tick, loaded.dropped_reports, loaded.buffered_bytes) == (
        5,
        windowed.dropped_reports,
        windowed.buffered_bytes,
    )
    for tick, reports in enumerate(ticks[4:], 5):
        loaded.step(reports)
        assert is_window_of(loaded, ticks[max(tick - REACH[window], 0) : tick])


def test_save_or_merge_of_another_window_is_refused():
    claim, other = CLAIMS[:2]
    windowed = WindowedCollector(claim, window=3)
    for saved in (
        WindowedCollector(claim, window=2),
        WindowedCollector(other, window=3),
        WindowedCollector(claim, window=3, repeats=2),
    ):
        with pytest.raises(InvalidSaveError, match="saved must be a run of Windowed"):
            WindowedCollector.load(claim, saved.save(), window=3)
        with pytest.raises(ValueError, match=r"other must be a window of .*, got one of"):
            windowed.merge(saved)
    late = WindowedCollector(claim, window=3)
    late.step()
    with pytest.raises(ValueError, match="other must be at tick 0, got one at tick 1"):
        windowed.merge(late)
    for window in ("sliding", 0, -1, 2.5, None, True):
        with pytest.raises(ValueError, match="window must be running, each or a number of ticks, got"):
            WindowedCollector(claim, window=window)
    with pytest.raises(ValueError, match="repeats must be a whole number of at least 1, got 0"):
        WindowedCollector(claim, repeats=0)


@windows
def test_malformed_reports_are_dropped_and_counted_once(window):
    claim = CLAIMS[1]
    windowed = WindowedCollector(claim, window=window)
    for _ in range(4):
        assert windowed.step([b"\x00", b"\xff", b"", None, b"\x02"]) == 2
    assert windowed.dropped_reports == 12
    assert windowed.reports == 2 * min(4, REACH[window])


@claims
def test_reports_of_an_iterator_expire_from_a_sliding_window(claim):
    windowed, ticks = WindowedCollector(claim, window=2), ticks_of(claim)
    for reports in ticks:
        windowed.step(row.tobytes() for row in reports)
    assert is_window_of(windowed, ticks[-2:])


def test_memory_is_a_table_and_the_reports_of_the_window():
    claim = CLAIMS[2]
    kept = {window: WindowedCollector(claim, window=window) for window in ("running", "each", 3)}
    for windowed in kept.values():
        for reports in ticks_of(claim):
            windowed.step(reports)
    assert {window: each.buffered_bytes for window, each in kept.items()} == {
        "running": 0,
        "each": 0,
        3: claim.report_size * sum(COUNTS[-3:]),
    }


def test_reports_changed_by_the_caller_expire_unchanged():
    claim = CLAIMS[1]
    windowed, reports = WindowedCollector(claim, window=1), claim.privatise_many(["a"] * 30, InsecureNoise(1))
    windowed.step(reports)
    reports[:] = 0
    windowed.step()
    assert not read_state(windowed.collector).table.any()


def test_standard_errors_account_for_repeated_reports():
    """Three copies of a report have nine times its variance: three times that of three reports."""
    claim = CLAIMS[1]
    truth = 9 * claim.variance(10, 40)
    assert 3 * claim.variance(30, 120) == pytest.approx(truth)
    assert claim.variance(30, 120) < truth / 2.9
    honest, repeated = WindowedCollector(claim, window=3), WindowedCollector(claim, window=3, repeats=3)
    for windowed in (honest, repeated):
        for reports in 3 * [b"\x00\x01\x02\x00"]:
            windowed.step(reports)
    assert repeated.estimate(ITEMS).stddev == pytest.approx(np.sqrt(3) * honest.estimate(ITEMS).stddev)
    assert (repeated.estimate(ITEMS).count == honest.estimate(ITEMS).count).all()


@pytest.mark.parametrize("kind", [HadamardCountMeanSketch, CountMeanSketch, LocalHashing])
def test_copies_of_a_report_are_no_collisions(kind):
    """The standard error is twenty times that of single reports. Collisions would make it far larger."""
    claim = kind(Pure(4), hashes=64, width=64)
    items = [f"item {number % 100}" for number in range(2000)]
    windowed, reports = WindowedCollector(claim, repeats=20), claim.privatise_many(items, InsecureNoise(1))
    for _ in range(20):
        windowed.step(reports)
    truth = 20 * claim.stddev(0, 2000, 100 * 20**2)
    assert windowed.estimate(["nobody's"]).stddev[0] == pytest.approx(truth, rel=0.05)
    assert windowed.collector.estimate(["nobody's"]).stddev[0] * np.sqrt(20) > 3 * truth


def test_words_of_a_window_have_the_errors_of_their_repeats():
    """The errors are those of `find(copies=30)`. A search that ignores copies states too little."""
    claim = HeavyHitters(Pure(4), length=4, hashes=64, width=64)
    reports = claim.privatise_many(["rizz"] * 3000 + ["ohio"] * 2000, InsecureNoise(1))
    windowed = WindowedCollector(claim, window=30, repeats=30)
    for _ in range(30):
        windowed.step(reports)
    found = windowed.find()
    assert found.items == ("rizz", "ohio")
    assert found.stddev == pytest.approx(windowed.estimate(found.items).stddev)
    assert (found.stddev > 2 * windowed.collector.find().stddev).all()
    assert windowed.top(["ohio", "rizz"], 1).items == ("rizz",)


def test_find_requires_a_mechanism_for_words():
    with pytest.raises(TypeError, match="claim must be HeavyHitters to find words, got RandomisedResponse"):
        WindowedCollector(RandomisedResponse(Pure(1), items=("a", "b"))).find()


@pytest.mark.parametrize("name", ["tick", "dropped_reports"])
def test_saved_window_with_negative_counts_is_refused(name):
    windowed = WindowedCollector(CLAIMS[0], window=2)
    setattr(windowed, name, -1)
    with pytest.raises(InvalidSaveError):
        WindowedCollector.load(CLAIMS[0], windowed.save(), window=2)
