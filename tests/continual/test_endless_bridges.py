"""Bridges without an end: epochs, windows, their bars, and all windows from one run."""

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import EndlessBridge, WindowBridge, choose
from streamgauge.continual.trees.endless_bridge import list_epochs
from streamgauge.testing.noise import InsecureNoise, SilentNoise

PURE = sg.Pure(1)
WIDTH, Z = 4000, 6.5  # standard errors: p below 1e-10


@pytest.mark.parametrize(("ticks", "bar"), [(2**10, 13.9), (2**16, 25.8), (2**20, 35.1)])
def test_counts_without_an_end_meet_their_bar(ticks: int, bar: float) -> None:
    assert choose(PURE) == EndlessBridge(PURE)
    assert EndlessBridge(PURE).rmse(ticks) <= bar


@pytest.mark.parametrize(("window", "bar"), [(60, 8.4), (1024, 16.0)])
def test_windows_meet_their_bar(window: int, bar: float) -> None:
    claim = choose(PURE, window=f"sliding {window}")
    assert claim == WindowBridge(PURE, window=window)
    assert claim.rmse(2**20) <= bar


@pytest.mark.parametrize("window", [1, 20])
def test_window_without_better_bridge_has_whole_numbers(window: int) -> None:
    released = choose(PURE, window=f"sliding {window}").start(1, InsecureNoise(1)).step([1])
    assert released.dtype == np.int64


@pytest.mark.parametrize(("first", "growth"), [(2, 2), (48, 4), (1000, 64)])
def test_epochs_tile_time_and_are_about_as_long_as_wanted(first: int, growth: int) -> None:
    epochs, length = list_epochs(first, growth), first
    for before, after in pairwise(epochs):
        assert after.begin == before.end
        assert abs(prod(before.radices) / length - 1) <= 0.08
        length = min(length * growth, 2**57)
    assert epochs[-1].begin <= 2**62 < epochs[-1].end


def test_noise_of_an_epoch_is_one_draw_when_it_ends() -> None:
    claim = EndlessBridge(PURE, first=4, growth=2)
    ends = [epoch.end for epoch in list_epochs(4, 2)[:3]]
    for past, end in enumerate(ends, start=1):
        noise = claim.noise_at(end)
        assert noise.variance == pytest.approx(past * claim.noise_at(4).variance)


@pytest.mark.parametrize("claim", [EndlessBridge(PURE), WindowBridge(PURE, window=60)], ids=repr)
def test_a_simulated_run_has_the_predicted_error(claim: Any) -> None:
    ticks, groups = 2**10, 2000
    squares = (claim.start(groups, InsecureNoise(2)).feed(np.zeros((ticks, groups), np.int64)) ** 2).mean(axis=0)
    predicted, uncertainty = claim.rmse(ticks) ** 2, squares.std() / np.sqrt(groups)
    assert abs(squares.mean() - predicted) < Z * uncertainty
    assert all(abs(squares.mean() - predicted * wrong**2) > Z * uncertainty for wrong in (0.7, 1.3))


def test_all_shorter_windows_are_read_from_one_run() -> None:
    claim, values = WindowBridge(PURE, window=9, radices=(2, 2)), np.arange(40)[:, None] ** 2
    run = claim.start(1, SilentNoise())
    for tick, value in enumerate(values, start=1):
        run.step(value)
        for window in (1, 4, 8):
            assert run.window_sum(window) == values[max(0, tick - window) : tick].sum()
    for wrong in (9, 10):
        with pytest.raises(ValueError, match=f"^window must be less than the claim's 9, got {wrong}"):
            run.window_sum(wrong)
    with pytest.raises(TypeError, match=r"^window must be that of EndlessBridge, got another$"):
        EndlessBridge(PURE).start(1, SilentNoise()).window_sum(3)


@pytest.mark.parametrize("size", [1, 3, 25])
def test_blocks_of_several_windows_are_those_of_steps(size: int) -> None:
    claim, values = WindowBridge(PURE, window=9, radices=(2, 2)), np.arange(50).reshape(25, 2) ** 2
    fed, stepped = claim.start(2, InsecureNoise(7)), claim.start(2, InsecureNoise(7))
    found = np.concatenate([fed.feed_windows(values[i : i + size], (1, 4, 9)) for i in range(0, 25, size)])
    for row, value in zip(found, values, strict=True):
        longest = stepped.step(value)
        assert row.tolist() == [stepped.window_sum(1).tolist(), stepped.window_sum(4).tolist(), longest.tolist()]
    assert fed.feed(values).tolist() == stepped.feed(values).tolist()


def test_a_run_refuses_windows_that_it_lacks() -> None:
    run = WindowBridge(PURE, window=9).start(1, SilentNoise())
    with pytest.raises(ValueError, match=r"^windows must be at most the claim's 9, got 10$"):
        run.feed_windows([[1]], (4, 10))
    with pytest.raises(TypeError, match=r"^window must be that of EndlessBridge, got another$"):
        EndlessBridge(PURE).start(1, SilentNoise()).feed_windows([[1]], (4,))
    assert run.feed_windows([[1]], (4, 9)).tolist() == [[[1.0], [1.0]]]


@pytest.mark.parametrize("tick", [3, 9, 10, 23])
def test_shorter_windows_have_the_stated_noise(tick: int) -> None:
    claim = WindowBridge(PURE, window=9, radices=(2, 2))
    run = claim.start(WIDTH, InsecureNoise(3))
    run.feed(np.zeros((tick, WIDTH), np.int64))
    for window in (1, 4, 8):
        squares = run.window_sum(window) ** 2
        stated = claim.window_noise(window, tick).variance
        assert abs(squares.mean() - stated) < Z * squares.std() / np.sqrt(WIDTH)


def test_a_mean_over_spread_ticks_is_that_over_all() -> None:
    claim = WindowBridge(PURE, window=10**6, radices=(50, 40, 30))
    sample = np.random.default_rng(4).integers(10**6 + 1, 10**7, 3000)
    mean = np.mean([claim.noise_at(int(tick)).variance for tick in sample])
    assert claim.mean_variance(10**9) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowBridge(PURE, window=8, radices=(3, 3)), "radices must have a product of at most the window 8"),
        (lambda: WindowBridge(PURE, window=2**26 + 1), "window must be at most 2**26 ticks"),
        (lambda: EndlessBridge(PURE, growth=1), "growth must be a whole number of at least 2, got 1"),
        (lambda: EndlessBridge(PURE, split=1), "split must be between 0 and 1, got 1"),
        (lambda: EndlessBridge(sg.Zcdp(1)), "loss must be Pure for EndlessBridge"),
    ],
)
def test_a_refusal_says_what_and_why(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        make()
    assert message in str(refusal.value)
