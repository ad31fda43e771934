"""Laws of smoothers and windows: by hand, and against explicit sums of groups."""

from itertools import pairwise

import numpy as np
import pytest

from streamgauge.adaptive.pegasus.pegasus import GroupedRelease, GroupHistory
from streamgauge.adaptive.pegasus.smoothers import (
    MedianSmoother,
    QuietSmoother,
    build_smoother,
    empty_group,
    extend_group,
    iterate_bands,
    resize_rows,
)
from streamgauge.adaptive.pegasus.windows import parse_window
from streamgauge.postprocess.monitor import EventMonitor

NAMES = ["average", "median", "james_stein"]
RNG = np.random.default_rng(7)
TICKS, WIDTH = 40, 6
NOISY = RNG.integers(-30, 90, (TICKS, WIDTH))
STARTED = RNG.random((TICKS, WIDTH)) < np.array([0.05, 0.1, 0.2, 0.4, 0.9, 0.0])
STARTED[0] = True
HISTORY = GroupHistory(NOISY, STARTED)


def groups(started: np.ndarray) -> list[range]:
    """The groups of one column."""
    starts = [*np.flatnonzero(started).tolist(), len(started)]
    return [range(a, b) for a, b in pairwise(starts)]


def estimates(noisy: np.ndarray, name: str) -> np.ndarray:
    """Return the estimates of all ticks of one group."""
    mean = noisy.mean()
    if name == "james_stein":
        return mean + (noisy - mean) / len(noisy)
    return np.full(len(noisy), np.median(noisy) if name == "median" else mean)


def written_out(name: str, size: int) -> np.ndarray:
    """Return the sliding window at each tick, from the groups known at that tick."""
    out = np.zeros((TICKS, WIDTH))
    for tick in range(1, TICKS + 1):
        for column in range(WIDTH):
            noisy = NOISY[:tick, column]
            parts = [estimates(noisy[g.start : g.stop], name) for g in groups(STARTED[:tick, column])]
            out[tick - 1, column] = np.concatenate(parts)[-size:].sum()
    return out


def test_a_group_of_4_6_and_20_by_hand() -> None:
    history = GroupHistory(np.array([[4], [6], [20]]), np.array([[True], [False], [False]]))
    assert history.estimate_counts("average")[:, 0].tolist() == [4, 5, 10]
    assert history.estimate_counts("median")[:, 0].tolist() == [4, 5, 6]
    np.testing.assert_allclose(history.estimate_counts("james_stein")[:, 0], [4, 5.5, 10 + 10 / 3], rtol=1e-15)
    assert history.estimate_sliding(2, "average")[:, 0].tolist() == [4, 10, 20]
    assert history.estimate_sliding(2, "median")[:, 0].tolist() == [4, 10, 12]
    assert history.estimate_running("median")[:, 0].tolist() == [4, 10, 18]
    assert history.estimate_running("james_stein")[:, 0].tolist() == [4, 10, 30]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, TICKS, TICKS + 5])
def test_sliding_window_equals_the_sum_of_its_groups(name: str, size: int) -> None:
    np.testing.assert_allclose(HISTORY.estimate_sliding(size, name), written_out(name, size), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_running_sums_are_the_shortest_and_longest_windows(name: str) -> None:
    np.testing.assert_allclose(HISTORY.estimate_counts(name), HISTORY.estimate_sliding(1, name), rtol=1e-12)
    np.testing.assert_allclose(
        HISTORY.estimate_running(name), HISTORY.estimate_sliding(TICKS, name), rtol=1e-12, atol=1e-11
    )


def test_smoothing_does_not_clamp_counts() -> None:
    below = GroupHistory(np.array([[-9], [1], [2]]), np.array([[True], [False], [False]]))
    assert below.estimate_counts("average")[-1, 0] == -2


def test_huge_count_leaves_no_residue_after_its_window() -> None:
    """Sums are of whole numbers, so an expired count leaves the sum exactly."""
    noisy = np.array([[2**49 + 1], [3], [5], [4], [4], [1]])
    history = GroupHistory(noisy, np.array([[True], [True], [False], [True], [False], [False]]))
    for name in NAMES:
        assert history.estimate_sliding(3, name)[-1, 0] == (12 if name == "median" else 9)


def test_inactive_columns_do_not_change() -> None:
    group = empty_group(MedianSmoother(), 2)
    for noisy, started, active in (([5, 5], [1, 1], [1, 1]), ([9, 9], [0, 0], [1, 0]), ([1, 1], [0, 1], [1, 1])):
        extend_group(group, np.array(noisy), np.array(started, bool), np.array(active, bool))
    assert group.length.tolist() == [3, 1]
    assert group.total.tolist() == [15, 1]
    assert MedianSmoother().estimate_newest(group, np.array([1, 1])).tolist() == [5, 1]


def test_history_accepts_single_ticks_slices_and_single_groups() -> None:
    def release(rows: slice | int) -> GroupedRelease:
        ticks = 1 if isinstance(rows, int) else len(range(TICKS)[rows])
        value = NOISY[rows].astype(float)
        return GroupedRelease(value, value, (None,) * ticks, noisy_counts=NOISY[rows], group_starts=STARTED[rows])

    history = GroupHistory.empty(WIDTH)
    for rows in (0, slice(1, 30), slice(30, 30), 30, slice(31, TICKS)):
        history.add(release(rows))
    np.testing.assert_array_equal(history.noisy_counts, NOISY)
    np.testing.assert_array_equal(history.group_starts, STARTED)
    one = GroupHistory.empty(1)
    one.add(release(slice(0, TICKS)).select_group(2))
    np.testing.assert_array_equal(one.estimate_counts()[:, 0], HISTORY.estimate_counts()[:, 2])


def test_alerts_are_of_smoothed_counts_and_of_sliding_windows() -> None:
    counts, window = HISTORY.estimate_counts(), 5
    moved = counts[window - 1 :] - counts[: TICKS - window + 1]
    late = np.zeros((window - 1, WIDTH), bool)
    low = HISTORY.estimate_sliding(window)[window - 1 :] <= 150
    for kind, expected in (("jump", moved >= 20), ("drop", moved <= -20), ("low", low)):
        monitor = EventMonitor(kind, size=150 if kind == "low" else 20, window=window)
        alerts = HISTORY.find_alerts(monitor)
        np.testing.assert_array_equal(alerts, np.concatenate([late, expected]))
        assert 0 < alerts.mean() < 1


def test_bands_contain_every_row_of_every_column_once() -> None:
    for lengths in ([0, 0], [3], [300, 1, 0, 40], RNG.integers(0, 500, 5000)):
        length = np.asarray(lengths)
        view = np.zeros((int(length.max()) + 1, len(length)), int)
        for rows, columns in iterate_bands(length):
            view[rows, columns] += 1
        used = np.arange(len(view))[:, None] < length
        assert (view[used] == 1).all()
        assert view.max() <= 1


def test_row_capacity_doubles_when_full_and_shrinks_when_excessive() -> None:
    rows = np.arange(64).reshape(64, 1)
    assert len(resize_rows(rows, 65)) == 128
    assert resize_rows(rows, 16) is rows
    assert resize_rows(rows, 15) is rows
    np.testing.assert_array_equal(resize_rows(rows, 8), rows[:8])


def test_invalid_windows_and_smoothers_are_refused() -> None:
    for bad in ("", "all", "sliding", "sliding 0", "sliding -3", "each 2", "running 5", "sliding 1.5", None):
        with pytest.raises(ValueError, match=r'^window must be "each", "running" or "sliding TICKS", got'):
            parse_window(bad)
    with pytest.raises(ValueError, match=r"^smoother must be one of average, median, james_stein, quiet, got 'mode'$"):
        build_smoother("mode", 1.0)


def test_quiet_groups_are_zero_and_loud_groups_their_mean() -> None:
    """Two counts of standard error 2 are loud above 3 * 2 * sqrt(2) = 8.49 together."""
    noisy, started = np.array([[3, 5], [5, 4]]), np.array([[True, True], [False, False]])
    history = GroupHistory(noisy, started, stddev=2.0)
    assert history.estimate_running("quiet")[1].tolist() == pytest.approx([8 - 2 * 2 * 2**0.5, 9])
    assert history.estimate_counts("quiet")[1].tolist() == pytest.approx([1, 4.5])  # 0, but no farther than 4 from 5


@pytest.mark.parametrize("window", ["each", "sliding 7", "running"])
def test_quiet_window_stays_near_the_sum_of_counts(window: str) -> None:
    """A constant low level is quiet in every group, so only the guard preserves it."""
    noisy = np.ones((TICKS, 1), np.int64)
    history = GroupHistory(noisy, np.arange(TICKS)[:, None] % 2 == 0, stddev=2.0)
    size = {"each": 1, "sliding 7": 7, "running": TICKS}[window]
    ticks = np.minimum(np.arange(1, TICKS + 1), size)
    apart = np.abs(history.estimate_window(window, "quiet")[:, 0] - ticks)
    assert (apart <= QuietSmoother.MAX_STANDARD_ERRORS * 2 * np.sqrt(ticks) + 1e-9).all()
    group = empty_group(QuietSmoother(2.0), 1)
    extend_group(group, np.array([1]), np.array([True]))
    assert QuietSmoother(2.0).doubled_total(group).tolist() == [0]


def test_without_noise_quiet_is_the_average() -> None:
    np.testing.assert_allclose(HISTORY.estimate_sliding(7, "quiet"), NOISY_SUMS, rtol=1e-12)


NOISY_SUMS = np.array([NOISY[max(0, t - 6) : t + 1].sum(axis=0) for t in range(TICKS)])
