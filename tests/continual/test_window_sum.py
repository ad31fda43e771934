"""Sliding sums: tiles, exact windows, native units, pan-private registers."""

from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual.trees.window_sum import WindowSum
from streamgauge.continual.trees.window_tiles import Tiling, least_levels
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import read_state

PURE, HALF = sg.Pure(1), sg.Zcdp(Fraction(1, 2))
SHAPES = [
    (window, branching, levels)
    for window in (1, 2, 3, 5, 8, 9, 17, 27, 40)
    for branching, levels in ((0, 0), (2, 0), (3, 0), (2, 1), (3, 2), (5, 2))
    if branching ** max(levels - 1, 0) <= window
]
every_shape = pytest.mark.parametrize(("window", "branching", "levels"), SHAPES)
either_way = pytest.mark.parametrize("pan_private", [False, True])


def stream(ticks: int, width: int = 1) -> np.ndarray:
    return np.random.default_rng(3).integers(-4, 9, (ticks, width))


def windows(values: np.ndarray, window: int) -> np.ndarray:
    sums = np.concatenate([np.zeros((1, values.shape[1]), int), np.cumsum(values, axis=0)])
    return np.array([sums[t] - sums[max(0, t - window)] for t in range(1, len(sums))])


@every_shape
def test_tiles_cover_every_window_once_and_are_blocks(window: int, branching: int, levels: int) -> None:
    claim = WindowSum(PURE, window=window, branching=branching, levels=levels)
    for tick in range(1, 4 * window + 1):
        place = max(0, tick - window)
        for level, begin in claim.tiling.tiles(tick):
            assert begin == place
            assert begin % claim.branching**level == 0
            assert 0 <= level < claim.levels
            place += claim.branching**level
        assert place == tick


@pytest.mark.one_of_each
@every_shape
@either_way
def test_silent_noise_gives_exact_windows_and_feed_equals_steps(
    window: int, branching: int, levels: int, pan_private: bool
) -> None:
    claim = WindowSum(PURE, window=window, branching=branching, levels=levels, pan_private=pan_private)
    values = stream(130, 2)
    stepped, fed = (claim.start(2, SilentNoise()) for _ in range(2))
    np.testing.assert_array_equal([stepped.step(row) for row in values], windows(values, window))
    np.testing.assert_array_equal(fed.feed(values), windows(values, window))
    stepped, fed = (claim.start(2, InsecureNoise(5)) for _ in range(2))
    one = np.array([stepped.step(row) for row in values])
    cuts = [0, 1, 1, 50, 53, 130]
    two = np.concatenate([fed.feed(values[a:b]) for a, b in pairwise(cuts)])
    np.testing.assert_array_equal(one, two)
    assert stepped.save() == fed.save()


@pytest.mark.one_of_each
@every_shape
@either_way
def test_the_predicted_variance_is_that_of_the_tiles_drawn(
    window: int, branching: int, levels: int, pan_private: bool
) -> None:
    claim = WindowSum(HALF, window=window, branching=branching, levels=levels, pan_private=pan_private)
    strategy, noise = claim.strategy(90), CountedNoise(SilentNoise())
    claim.start(1, noise).feed(stream(90))
    assert noise.total == len(strategy.draws)
    draws = strategy.decode @ np.bincount(strategy.draws, minlength=len(strategy.measure))
    assert [claim.noise_at(t).terms[0].count for t in range(1, 91)] == draws.tolist()
    np.testing.assert_array_equal(claim.count_draws(*claim.tiling.count_tiles(np.arange(1, 91))), draws)
    for ticks in (1, window, 2 * window, 90):
        mean = draws[:ticks].mean() if ticks <= 90 else None
        assert mean is None or claim.mean_variance(ticks) == pytest.approx(mean * claim.distribution.variance)
    for draw in range(0, len(strategy.draws), 5):
        released = claim.start(1, ImpulseNoise(draw, 1)).feed(np.zeros(90, int))
        np.testing.assert_array_equal(released, strategy.decode[:, strategy.draws[draw]])


@pytest.mark.parametrize("loss", [PURE, HALF], ids=repr)
@every_shape
def test_the_worst_item_costs_exactly_the_declared_loss(loss: Any, window: int, branching: int, levels: int) -> None:
    claim = WindowSum(loss, window=window, branching=branching, levels=levels, bound=3)
    columns = claim.strategy(3 * window).measure
    assert columns.sum(axis=0).max() == claim.levels
    law = claim.distribution
    if loss is PURE:
        assert 3 * claim.levels / law.scale == loss.epsilon
    else:
        assert Fraction(9 * claim.levels) / (2 * law.parameter) == loss.rho


@pytest.mark.parametrize(("window", "branching"), [(4, 2), (6, 2), (9, 3), (7, 3)])
@pytest.mark.parametrize("ticks", [2, 3, 4])
def test_no_set_of_ticks_overlaps_blocks_more_than_is_charged(window: int, branching: int, ticks: int) -> None:
    claim = WindowSum(HALF, window=window, branching=branching)
    columns = claim.strategy(2 * claim.tiling.span + 2).measure
    sets = combinations(range(columns.shape[1]), ticks)
    worst = max((columns[:, list(chosen)].sum(axis=1) ** 2).sum() for chosen in sets)
    assert worst == claim.tiling.overlap(ticks)


@pytest.mark.parametrize("log", [1, 2, 3, 6])
def test_binary_window_tree_matches_the_paper_without_root(log: int) -> None:
    window = 2**log
    claim = WindowSum(PURE, window=window, branching=2)
    assert claim.levels == log
    for tick in range(window + 1, 3 * window):
        place = tick % window
        tiles = place.bit_count() + (window - place).bit_count() if place else 2
        assert len(claim.tiling.tiles(tick)) == tiles


@pytest.mark.parametrize("loss", [PURE, HALF], ids=repr)
@pytest.mark.parametrize("window", [1, 5, 24, 100, 1000])
@either_way
def test_without_settings_no_other_tree_is_better(loss: Any, window: int, pan_private: bool) -> None:
    best = WindowSum(loss, window=window, pan_private=pan_private)
    relative = best.relative_variance((best.branching, best.levels))
    for branching in (2, 3, 4, 8, 10, 31):
        other = WindowSum(loss, window=window, branching=branching, pan_private=pan_private)
        assert relative <= best.relative_variance((other.branching, other.levels)) * (1 + 1e-12)
    long = 50 * window
    late = np.arange(window + 1, window + 1 + best.tiling.span)
    counts = best.count_draws(*best.tiling.count_tiles(late)).mean()
    assert counts == pytest.approx(best.count_draws(*best.tiling.mean_tile_counts()))
    assert best.mean_variance(long) <= counts * best.distribution.variance * (1 + 1e-12)


class OffByOne(WindowSum):
    """A broken twin: its windows begin one tick too early."""

    def step(self, state: Any, values: np.ndarray, noise: Any) -> np.ndarray:
        release = super().step(state, values, noise)
        rows = state.tails
        return release + rows[(state.tick - self.window) % len(rows)] - rows[(state.tick - self.window - 1) % len(rows)]


def test_a_twin_that_is_off_by_one_is_caught() -> None:
    values = stream(60)
    run = OffByOne(PURE, window=9, branching=3).start(1, SilentNoise())
    assert (np.array([run.step(row) for row in values]) != windows(values, 9)).any()


def test_announced_intrusions_increase_error_of_windows_that_contain_them() -> None:
    width, ticks = 4000, 30
    claim = WindowSum(PURE, window=9, branching=3, pan_private=True)
    run = claim.start(width, InsecureNoise(2))
    for tick in range(1, ticks + 1):
        released = run.step(np.ones(width, int))
        ratio = ((released - min(tick, 9)) ** 2).mean() / run.stddev() ** 2
        assert abs(ratio - 1) < 6.5 * (5 / width) ** 0.5
        if tick in (4, 13):
            run.intrude()
    assert run.stddev() == claim.stddev(ticks)
    assert run.intrusions == 2


def test_intrusion_adds_noise_before_copy_and_after_it() -> None:
    claim = WindowSum(PURE, window=9, branching=3, pan_private=True)
    run = claim.start(500, InsecureNoise(7))
    run.feed(np.ones((4, 500), int))
    before = read_state(run).open_sums.copy()
    view = run.intrude()
    after = read_state(run).open_sums
    assert (view.open_sums != before).any()
    assert (view.open_sums != after).any()
    np.testing.assert_array_equal(read_state(run).intrusions, [4])
    loaded = claim.load(run.save(), InsecureNoise(7))
    np.testing.assert_array_equal(read_state(loaded).intrusions, [4])


def test_pan_private_register_always_has_noise() -> None:
    claim = WindowSum(PURE, window=9, branching=3, pan_private=True)
    for tick in (0, 3, 4, 9):
        run = claim.start(1, CountedNoise(ones := Ones()))
        run.feed(np.zeros((tick, 1), int))
        assert (read_state(run).open_sums == 1).all(), ones


class Ones:
    """Every draw is 1."""

    def laplace(self, scale: Fraction, size: int) -> np.ndarray:
        return np.ones(size, np.int64)

    gaussian = laplace


def test_run_without_horizon_continues_and_saves_bit_for_bit() -> None:
    claim, noise = WindowSum(HALF, window=24), InsecureNoise(1)
    assert claim.horizon is None
    run = claim.start(2, noise)
    run.feed(stream(1000, 2))
    twin = claim.load(run.save(), noise.clone())
    np.testing.assert_array_equal(run.feed(stream(70, 2)), twin.feed(stream(70, 2)))
    assert run.save() == twin.save()
    with pytest.raises(sg.continual.LimitExceededError, match="tick must be at most the horizon 3, got 4"):
        WindowSum(HALF, window=24, horizon=3).start().feed([1, 1, 1, 1])


def test_sums_wrap_around_without_harm() -> None:
    claim = WindowSum(PURE, window=5)
    values = np.full((60, 1), 2**62)
    released = claim.start(1, SilentNoise()).feed(values)
    assert (released[4:] == np.int64(5 * 2**62 - 2**64)).all()


def test_invalid_settings_are_refused() -> None:
    for name, wrong, least in [("window", 0, 1), ("window", 2.5, 1), ("branching", 1, 2), ("levels", -1, 1)]:
        settings = {"window": 8, name: wrong}
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least {least}, got {wrong}"):
            WindowSum(PURE, **settings)
    with pytest.raises(ValueError, match="levels must leave blocks of at most the window 8, got 5"):
        WindowSum(PURE, window=8, branching=2, levels=5)
    assert WindowSum(PURE, window=64) == WindowSum(PURE, window=64, branching=8, levels=2)


def test_memory_is_near_the_window_length() -> None:
    for window in (1, 5, 64, 1000):
        claim = WindowSum(PURE, window=window)
        assert claim.memory() < window + 3 * claim.tiling.span + 2 * claim.levels
    assert least_levels(2, 9) == 4
    assert Tiling(9, 3, 2).slices == [slice(0, 3)]
