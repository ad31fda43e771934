"""Adjusted numbers: they obey their rules for any input, and hold the truth if the raw intervals do."""

from fractions import Fraction

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.postprocess import Adjustment, Hierarchy, make_consistent
from streamgauge.postprocess.adjustment import AdjustedNumbers
from streamgauge.testing.noise import InsecureNoise

WIDTHS = (6, 3, 1)  # two rooms on each of three floors
TREE = Hierarchy([6, 6, 7, 7, 8, 8, 9, 9, 9, None])
TICKS = 60


def adjust_all(adjustment: Adjustment, value: np.ndarray, half: float = 1.0) -> list[AdjustedNumbers]:
    """Return all ticks, each from the one before."""
    found: list[AdjustedNumbers] = []
    for row in value:
        previous = found[-1].value if found and adjustment.never_falls else None
        found.append(adjustment.adjust(row, np.ones(len(row)), row - half, row + half, previous))
    return found


def values(found: list[AdjustedNumbers]) -> np.ndarray:
    return np.array([each.value for each in found])


def test_numbers_that_never_fall_are_those_of_make_consistent() -> None:
    raw = np.random.default_rng(1).normal(20, 30, (50, 4))
    assert (values(adjust_all(Adjustment(never_falls=True), raw)) == make_consistent(raw)).all()


@pytest.mark.parametrize("never_falls", [False, True])
@pytest.mark.parametrize("spread", [0.3, 5.0, 1e6])
def test_levels_add_up_exactly_and_stay_whole(never_falls: bool, spread: float) -> None:
    chance = np.random.default_rng(2)
    leaves = chance.poisson(3, (40, 6)).cumsum(axis=0) if never_falls else chance.poisson(3, (40, 6))
    raw = TREE.sum_leaves(leaves) + chance.normal(0, spread, (40, 10))
    found = values(adjust_all(Adjustment(never_falls=never_falls, widths=WIDTHS, hierarchy=TREE), raw))
    assert (TREE.sum_leaves(found[:, :6]) == found).all()
    assert (found == np.round(found)).all()
    assert (found >= 0).all()
    assert not never_falls or (np.diff(found, axis=0) >= 0).all()


@pytest.mark.parametrize("never_falls", [False, True])
def test_true_numbers_stay_as_they_are(never_falls: bool) -> None:
    leaves = np.random.default_rng(3).poisson(2, (30, 6))
    truth = TREE.sum_leaves(leaves.cumsum(axis=0) if never_falls else leaves).astype(float)
    assert (
        values(adjust_all(Adjustment(never_falls=never_falls, widths=WIDTHS, hierarchy=TREE), truth)) == truth
    ).all()
    assert (values(adjust_all(Adjustment(never_falls=never_falls, upper=10**6), truth)) == truth).all()


def test_sums_may_be_negative_and_still_add_up() -> None:
    raw = np.random.default_rng(4).normal(0, 50, (20, 10))
    found = values(adjust_all(Adjustment(is_count=False, widths=WIDTHS, hierarchy=TREE), raw))
    assert np.allclose(TREE.sum_leaves(found[:, :6]), found)
    assert (found < 0).any()


def test_numbers_stay_within_their_universe() -> None:
    found = adjust_all(Adjustment(never_falls=True, upper=7), np.array([[-9.0, 3.0], [4.0, 99.0], [2.0, 5.0]]))
    assert values(found).tolist() == [[0, 3], [4, 7], [4, 7]]
    assert [(each.low.tolist(), each.high.tolist()) for each in found] == [
        ([0, 2], [0, 4]),
        ([3, 7], [5, 7]),
        ([1, 4], [4, 7]),
    ]


def test_unknown_numbers_change_nothing_before() -> None:
    unknown = np.array([[3.0], [np.nan], [2.0]])
    assert values(adjust_all(Adjustment(never_falls=True), unknown)).tolist() == [[3], [3], [3]]
    levels = Adjustment(never_falls=True, widths=(2, 1), hierarchy=Hierarchy([2, 2, None]))
    found = levels.adjust([1.0, 2.0, 3.0], [np.nan] * 3, [-np.inf] * 3, [np.inf] * 3)
    assert found.value.tolist() == [1, 2, 3]
    assert found.high.tolist() == [np.inf] * 3


def narrow_by_history(found: list[AdjustedNumbers]) -> list[AdjustedNumbers]:
    """A broken twin: bounds of earlier ticks are taken to hold at once, each with its own chance to fail."""
    lows = np.maximum.accumulate([each.low for each in found], axis=0)
    return [AdjustedNumbers(each.value, low, each.high) for each, low in zip(found, lows, strict=True)]


def cover(found: list[AdjustedNumbers], truth: np.ndarray) -> np.ndarray:
    return np.array([(each.low <= row) & (row <= each.high) for each, row in zip(found, truth, strict=True)])


@pytest.mark.parametrize("levels", [False, True])
def test_intervals_hold_the_truth_where_raw_ones_do(levels: bool) -> None:
    counter = sg.continual.Binary(sg.Pure(Fraction(1, 2)), horizon=TICKS)
    chance = np.random.default_rng(5)
    leaves = chance.poisson(2, (TICKS, 6))
    steps = TREE.sum_leaves(leaves) if levels else np.repeat(leaves, 4, axis=1)
    truth = steps.cumsum(axis=0)
    raw = counter.start(noise=InsecureNoise(6), width=steps.shape[1]).feed(steps).astype(float)
    half = np.array([counter.noise_at(tick).half_width(0.95) for tick in range(1, TICKS + 1)])
    tree = {"widths": WIDTHS, "hierarchy": TREE} if levels else {}
    adjustment, previous, found = Adjustment(never_falls=True, **tree), None, []
    for row, width in zip(raw, half, strict=True):
        found.append(adjustment.adjust(row, np.ones(len(row)), row - width, row + width, previous))
        previous = found[-1].value
    plain = cover([AdjustedNumbers(row, row - width, row + width) for row, width in zip(raw, half, strict=True)], truth)
    assert (cover(found, truth) >= plain).all()
    assert cover(found, truth).mean() >= 0.94
    assert all(((each.low <= each.value) & (each.value <= each.high)).all() for each in found)
    assert not (cover(narrow_by_history(found), truth) >= plain).all(), "the broken twin must be caught"
