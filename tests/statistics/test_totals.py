"""External vectors of many ticks: clipped, counted and refused as those of one tick."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.statistics import Count, EventRun, Extremes, Mean, Quantile, Sum
from streamgauge.statistics.ordered.axis import AxisProfile
from streamgauge.statistics.ordered.extremes import compute_cell_bounds, estimate_extremes, find_extreme_cells
from streamgauge.testing.noise import InsecureNoise, SilentNoise


def test_every_tick_is_cut_at_the_reach_of_a_tick() -> None:
    rng = np.random.default_rng(1)
    made = Sum(sg.Pure(1), lower=-2, upper=9, step=1, horizon=30, unit=sg.Tick(3))
    totals = rng.integers(-30, 30, (30, 1, 4)) * rng.integers(0, 2, (30, 1, 4))
    one, two = made.start(4, SilentNoise()), made.start(4, SilentNoise())
    singly = np.array([one.step_totals(vector).value for vector in totals])
    assert two.feed_totals(totals).value.tolist() == singly.tolist()
    moved = np.abs(np.diff(singly, axis=0)).sum(axis=1)
    assert moved.max() <= made.tick_sensitivity.l1 < np.abs(totals).sum(axis=2).max()


def test_totals_that_cannot_be_clipped_are_refused_without_effect() -> None:
    run = Mean(sg.Zcdp(1), lower=0, upper=1, horizon=4, unit=sg.Tick(3)).start(noise=SilentNoise())
    for act in (lambda: run.feed_totals(np.ones((1, 2, 1), int)), lambda: run.step_totals([[1], [2]])):
        with pytest.raises(ValueError, match=r"^totals must be of one number an event where ticks are units"):
            act()
    assert run.tick == 0
    run.step([0.5])


def test_public_counts_are_processed_too() -> None:
    made = Mean(sg.Pure(1), lower=0, upper=10, step=1, horizon=9, public_counts=True, unit=sg.Event(replace=True))
    totals, counts = np.array([[[30, 6]], [[10, 0]], [[-40, -6]]]), np.array([[5, 1], [4, 0], [9, 1]])
    one, two = made.start(2, InsecureNoise(1)), made.start(2, InsecureNoise(1))
    singly = [one.step_totals(vector, count).value.tolist() for vector, count in zip(totals, counts, strict=True)]
    assert two.feed_totals(totals, counts).value.tolist() == singly
    for wrong, words in ((None, "counts must be given just where"), (counts[:2], "counts must be of 3 ticks")):
        with pytest.raises(ValueError, match=f"^{words}"):
            two.feed_totals(totals, wrong)
    with pytest.raises(ValueError, match=r"^counts must be given just where they are public"):
        Count(sg.Pure(1)).start(2, SilentNoise()).feed_totals(totals, counts)


def test_intrusion_increases_the_error_of_all_later_ticks() -> None:
    made = Count(sg.Pure(1), horizon=168, pan_private=True)
    one, two = made.start(2, InsecureNoise(1)), made.start(2, InsecureNoise(1))
    for run in (one, two):
        run.step_totals([1, 1])
        run.intrude()
    singly = [one.step_totals([1, 2]) for _ in range(20)]
    many = two.feed_totals([[1, 2]] * 20)
    assert many.value.tolist() == [release.value.tolist() for release in singly]
    assert many.stddev.tolist() == [release.stddev.tolist() for release in singly]
    assert many.stddev[-1, 0] > made.stddev(21)


class ChunkedRun(EventRun[Any]):
    """A run that sums vectors in small pieces."""

    CHUNK_PLACES = 21


def test_chunked_totals_equal_the_whole() -> None:
    made = Count(sg.Pure(1), horizon=50)
    totals = np.random.default_rng(1).integers(0, 9, (50, 3))
    whole = made.start(3, InsecureNoise(1)).feed_totals(totals)
    chunked = ChunkedRun.create(made, 3, None, InsecureNoise(1))
    assert chunked.feed_totals(totals).value.tolist() == whole.value.tolist()


def test_vectors_are_whole_numbers_modulo_two_to_the_64th() -> None:
    run = Count(sg.Pure(1), horizon=9).start(2, SilentNoise())
    assert run.feed_totals([[2**64 + 3, 1], [1, -1]]).value.tolist() == [[3, 1], [4, 0]]
    with pytest.raises(ValueError, match=r"^totals must be integers, got float64$"):
        run.feed_totals(np.ones((1, 2)))


def state(made: Any, values: np.ndarray, runs: int, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the coverage of each interval of a release at the last of three ticks."""
    totals = np.zeros((3, made.channels, runs), np.int64)
    totals[0] = made.compute_totals(values)[:, None]
    answer = made.start(runs, InsecureNoise(2)).feed_totals(totals).columns(confidence)
    truth = {"min": values.min(), "max": values.max(), "0": np.sort(values)[len(values) // 2]}
    columns = {name: (column.low[-1], column.high[-1]) for name, column in answer.items()}
    inside = [((low <= truth[name]) & (truth[name] <= high)).mean() for name, (low, high) in columns.items()]
    length = [(high - low).mean() for low, high in columns.values()]
    return np.array(inside), np.array(length)


@pytest.mark.parametrize("window", ["running", "sliding 9"])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/20")], ids=str)
def test_bounds_of_extremes_hold_and_are_informative(loss: Any, window: str) -> None:
    values = np.random.default_rng(1).normal(30, 4, 3000).clip(0.5, 63.5)
    made = Extremes(loss, lower=0, upper=64, step=1, horizon=20, window=window)
    for confidence in (0.5, 0.95, 0.99, 0.9999):
        inside, length = state(made, values, 1000, confidence)
        assert (inside >= confidence - 6.1 * np.sqrt((1 - confidence) * confidence / 1000)).all()
        assert (length < 50).all()


def test_confidence_beyond_the_doubt_widens_the_interval() -> None:
    values = np.random.default_rng(1).normal(30, 4, 3000).clip(0.5, 63.5)
    made = Extremes(sg.Pure(1), lower=0, upper=64, step=1, horizon=20, window="each", doubt=0.5)
    release = made.start(2000, InsecureNoise(2)).step_totals(
        np.repeat(made.compute_totals(values)[:, None], 2000, axis=1)
    )
    (low, high), (sure, wide) = release.interval(0.5), release.interval(0.999)
    assert (sure <= low).all()
    assert (wide >= high).all()
    assert (sure[1] < low[1]).any()


def test_bounds_that_ignore_noise_of_extremes_are_caught() -> None:
    """The broken twin: the outermost cell with a positive count."""
    made, values = Extremes(sg.Pure(1), lower=0, upper=64, step=1, horizon=20), np.full(3000, 30.5)
    noisy = made.counter.start(made.channels * 1000, InsecureNoise(2)).step(
        np.repeat(made.compute_totals(values), 1000)
    )
    nodes = np.asarray(noisy, float).reshape(1, made.channels, 1000)
    profile = AxisProfile(made.axis, made.tree, nodes, [made.counter.noise_at(1)])
    nothing = np.zeros((1, made.axis.cells + 1))
    low, _ = compute_cell_bounds(profile, find_extreme_cells(profile, nothing, nothing))
    assert (low[0, 1] <= 30.5).mean() < 0.5
    low_coverage, _ = estimate_extremes(profile).interval(0.95)
    assert (low_coverage[0, 1] <= 30.5).mean() > 0.95


def test_several_quantiles_have_a_column_each() -> None:
    made = Quantile(sg.Pure(1), q=(0.25, 0.5, 0.9), lower=0, upper=64, step=1, horizon=20)
    values = np.random.default_rng(1).normal(30, 4, 3000)
    run = made.start(2, InsecureNoise(1))
    release = run.step(np.repeat(values, 2), groups=np.tile([0, 1], 3000))
    answer = release.columns(0.95)
    assert list(answer) == ["0", "1", "2"] == list(made.measures)
    low, high = release.interval(0.95)
    for place, columns in enumerate(answer.values()):
        assert columns.value.tolist() == release.value[place].tolist()
        assert columns.stddev.tolist() == release.stddev[place].tolist()
        assert columns.reliable.tolist() == release.reliable[place].tolist()
        assert (columns.low.tolist(), columns.high.tolist()) == (low[place].tolist(), high[place].tolist())
    single = Quantile(sg.Pure(1), q=0.5, lower=0, upper=64, step=1, horizon=20)
    assert list(single.start(2, SilentNoise()).step().columns(0.95)) == ["0"] == list(single.measures)
    assert made.predict_stddev("1", 3, count=10**4) == pytest.approx(64 / 10**4 * made.max_rank_stddev(3), rel=0.5)
