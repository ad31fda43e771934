"""Laws of Pegasus: noise, intervals, runs, and one history for every window."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.adaptive.pegasus.pegasus import GroupedRelease, Pegasus
from streamgauge.noise import DiscreteLaplace
from streamgauge.privacy import User, WEvent
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

WINDOWS = ["each", "sliding 1", "sliding 6", "running"]
RNG = np.random.default_rng(11)
TICKS, WIDTH = 60, 5
BLOCK = RNG.poisson(np.array([0.1, 2, 40, 300, 5]), (TICKS, WIDTH)) - np.array([0, 0, 0, 0, 9])
BLOCK[30:33] += 50


def claim(**settings: Any) -> Pegasus:
    return Pegasus(Pure(1), **settings)


def released(mechanism: Pegasus, noise: Any, block: np.ndarray = BLOCK) -> GroupedRelease:
    release = mechanism.start(block.shape[1], noise).feed(block)
    assert isinstance(release, GroupedRelease)
    return release


def same(one: GroupedRelease, other: GroupedRelease) -> None:
    assert one.error_bounds == other.error_bounds
    for name in ("value", "centre", "noisy_counts", "group_starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def truths(window: str) -> np.ndarray:
    sums = np.concatenate([np.zeros((1, WIDTH), int), np.cumsum(BLOCK, axis=0)])
    size = {"each": 1, "running": TICKS}.get(window) or int(window.split()[1])
    return np.array([sums[t] - sums[max(0, t - size)] for t in range(1, TICKS + 1)])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("smoother", ["average", "median", "james_stein", "quiet"])
def test_window_from_history_equals_the_released_one(window: str, smoother: str) -> None:
    mechanism = claim(window=window, smoother=smoother)
    release, history = released(mechanism, InsecureNoise(1)), mechanism.history(WIDTH)
    history.add(release)
    np.testing.assert_array_equal(history.estimate_window(window, smoother), release.value)


@pytest.mark.parametrize("window", WINDOWS)
def test_centre_and_constant_values_are_exact_without_noise(window: str) -> None:
    np.testing.assert_array_equal(released(claim(window=window), SilentNoise()).centre, truths(window))
    level = released(claim(window=window, max_group_ticks=7), SilentNoise(), np.full((30, 2), 4))
    np.testing.assert_array_equal(level.value, level.centre)
    assert level.group_starts[:, 0].tolist() == [tick % 7 == 0 for tick in range(30)]


def test_settings_determine_noise_scales() -> None:
    mechanism = claim(split="3/4", theta=7)
    assert mechanism.perturber == DiscreteLaplace(Fraction(4, 3))
    assert mechanism.grouper.threshold_noise == DiscreteLaplace(Fraction(16))
    assert mechanism.grouper.test_noise == DiscreteLaplace(Fraction(32)) == mechanism.distribution
    assert mechanism.grouper.max_deviation == 28
    default = Pegasus(Pure("0.1"))
    assert (default.perturber.scale, default.grouper.epsilon, default.grouper.max_deviation) == (
        Fraction(25, 2),
        Fraction(1, 50),
        250,
    )
    assert claim(split="1/1000").distribution == claim(split="1/1000").perturber


@pytest.mark.parametrize(
    ("settings", "steps"), [({}, 1), ({"bound": 3}, 3), ({"unit": WEvent(5)}, 5), ({"unit": User(4, 2), "bound": 4}, 8)]
)
def test_noise_scales_with_steps_of_the_unit(settings: dict[str, Any], steps: int) -> None:
    mechanism, one = claim(**settings), claim()
    assert mechanism.perturber.scale == steps * one.perturber.scale
    assert mechanism.grouper.test_noise.scale == steps * one.grouper.test_noise.scale


def test_each_tick_draws_once_for_count_and_once_for_group() -> None:
    mechanism = claim()
    for block in (BLOCK, BLOCK[::-1], np.zeros_like(BLOCK), np.where(BLOCK % 2, 2**62, -7)):
        for source in (InsecureNoise(3), SilentNoise()):
            noise = CountedNoise(source)
            released(mechanism, noise, block)
            assert noise.total == 2 * BLOCK.size
            perturbed = sum(size for _, scale, size in noise.requests if scale == mechanism.perturber.scale)
            assert perturbed == BLOCK.size


def test_noise_requests_match_for_counts_with_equal_grouping() -> None:
    view = []
    for level in (0, 7, 2**40):
        noise = CountedNoise(SilentNoise())
        release = released(claim(max_group_ticks=9), noise, np.full((TICKS, WIDTH), level))
        view.append((noise.requests, release.group_starts.tolist()))
    assert view[0] == view[1] == view[2]


@pytest.mark.parametrize("window", WINDOWS)
def test_feed_equals_steps_and_joined_parts(window: str) -> None:
    mechanism = claim(window=window)
    whole = released(mechanism, InsecureNoise(4))
    run = mechanism.start(WIDTH, InsecureNoise(4))
    for row in range(TICKS):
        same(run.step(BLOCK[row]), whole.select_tick(row))
    parts = mechanism.join_releases([whole.select_ticks(slice(0, 9)), whole.select_ticks(slice(9, None))])
    same(parts, whole)
    none = mechanism.start(WIDTH).feed(np.zeros((0, WIDTH), int))
    same(mechanism.join_releases([none, whole]), whole)
    column = mechanism.start(1, InsecureNoise(4)).feed(BLOCK[:, 0])
    assert column.value.shape == column.noisy_counts.shape == column.group_starts.shape == (TICKS,)


@pytest.mark.parametrize("window", WINDOWS)
def test_saved_run_continues_identically(window: str) -> None:
    mechanism, noise = claim(window=window, theta=40), InsecureNoise(5)
    run = mechanism.start(WIDTH, noise)
    run.feed(BLOCK[:25])
    twin = mechanism.load(run.save(), noise.clone())
    same(run.feed(BLOCK[25:]), twin.feed(BLOCK[25:]))
    assert run.save() == twin.save()


@pytest.mark.parametrize("window", WINDOWS)
def test_late_group_equals_group_of_earlier_zeros(window: str) -> None:
    run = claim(window=window, theta=40).start(WIDTH - 1, SilentNoise())
    run.feed(BLOCK[:25, 1:])
    run.widen(1)
    late = run.feed(np.roll(BLOCK, -1, axis=1)[25:])
    block = BLOCK.copy()
    block[:25, 0] = 0
    whole = released(claim(window=window, theta=40), SilentNoise(), np.roll(block, -1, axis=1))
    same(late, whole.select_ticks(slice(25, None)))


def test_run_state_fits_its_declared_memory() -> None:
    mechanism = claim(max_group_ticks=30, theta=1000, window="sliding 6")
    run = mechanism.start(3, SilentNoise())
    run.feed(np.zeros((29, 3), int))
    state = live_state(run)
    arrays = [getattr(state.groups, n) for n in state.groups.__slots__]
    arrays += [getattr(state.smoothing.group, n) for n in state.smoothing.group.__slots__]
    arrays += [getattr(state.smoothing.past, n) for n in state.smoothing.past.__slots__]
    assert sum(array.size for array in arrays) <= 3 * mechanism.memory()


def coverage(release: GroupedRelease, truth: np.ndarray, confidence: float) -> float:
    low, high = release.interval(confidence)
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("window", ["each", "sliding 6"])
def test_intervals_hold_the_truth_as_often_as_stated(window: str) -> None:
    """Ticks that are 6 apart share no noise. Half the scale must be too narrow."""
    tall = np.tile(BLOCK, (1, 400))
    release = released(Pegasus(Pure("0.2"), window=window), InsecureNoise(6), tall).select_ticks(slice(5, None, 6))
    truth = np.tile(truths(window), (1, 400))[5::6]
    spread = 6.5 * np.sqrt(0.09 / truth.size)
    assert 0.9 - spread <= coverage(release, truth, 0.9) <= 0.93
    narrow = Pegasus(Pure("0.4"), window=window)
    bars = tuple(narrow.error_bound(tick) for tick in range(6, TICKS + 1, 6))
    mistaken = GroupedRelease(
        release.value, release.centre, bars, noisy_counts=release.noisy_counts, group_starts=release.group_starts
    )
    assert coverage(mistaken, truth, 0.9) < 0.9 - spread


def test_smoothing_gains_on_a_stream_that_is_level() -> None:
    level = np.full((200, 300), 7)
    release = released(Pegasus(Pure("0.1"), theta=40), InsecureNoise(7), level)
    late = slice(100, None)
    assert np.abs(release.value[late] - 7).mean() < 0.4 * np.abs(release.centre[late] - 7).mean()


def test_any_64_bits_are_accepted() -> None:
    ends = np.array([2**63 - 1, -(2**63), 2**62, -(2**62), 0])
    block = RNG.choice(ends, (TICKS, WIDTH))
    for window in WINDOWS:
        release = released(claim(window=window), InsecureNoise(8), block)
        assert np.isfinite(release.value).all()
        assert release.group_starts[0].all()


def test_settings_that_make_no_claim_are_refused() -> None:
    for settings, words in (
        ({"split": 0}, r"^split must be above 0 and below 1, got 0$"),
        ({"split": 1}, r"^split must be above 0 and below 1, got 1$"),
        ({"theta": -1}, r"^theta must not be negative, got -1$"),
        ({"theta": 2**62}, r"^theta must be at least 0 and at most 2\*\*60 epsilon, got"),
        ({"max_group_ticks": 0}, r"^max_group_ticks must be a whole number of 1 to 65536, got 0$"),
        ({"max_group_ticks": 2**17}, r"^max_group_ticks must be a whole number of 1 to 65536, got 131072$"),
        ({"window": "decayed 3"}, r"^window must be"),
        ({"smoother": "mode"}, r"^smoother must be one of average, median, james_stein, quiet, got 'mode'$"),
        ({"pan_private": True}, r"^pan_private must be False for Pegasus \(its grouper holds the counts"),
    ):
        with pytest.raises(ValueError, match=words):
            claim(**settings)
    with pytest.raises(ValueError, match=r"^loss must be Pure for Pegasus"):
        Pegasus(Zcdp(1))
    with pytest.raises(ValueError, match=r"^epsilon must leave noise of scale 2\*\*48 at most, got"):
        Pegasus(Pure(Fraction(1, 2**48)))


def test_history_refuses_releases_of_other_width_or_kind():
    release = Pegasus(Pure(1)).start(3).feed(np.ones((4, 3), int))
    with pytest.raises(ValueError, match=r"^release must be of 2 groups, as its history is, got 3$"):
        Pegasus(Pure(1)).history(2).add(release)
    with pytest.raises(ValueError, match=r"^release must have readings of blocks where its history has"):
        Pegasus(Pure(1), block=4).history(3).add(release)


def test_window_longer_than_history_is_whole_but_bounded():
    for made in (Pegasus(Pure(1)), Pegasus(Pure(1), block=64)):
        history = made.history(2)
        history.add(made.start(2).feed(np.ones((9, 2), int)))
        assert np.array_equal(history.estimate_sliding(2**40), history.estimate_sliding(70))
    with pytest.raises(ValueError, match=r"^window must be of at most 2\*\*30 ticks, got 'sliding 1099511627776'"):
        Pegasus(Pure(1), window=f"sliding {2**40}")
    with pytest.raises(ValueError, match=r"^window must be"):
        Pegasus(Pure(1), window="sliding " + "9" * 5000)


def test_long_window_half_widths_round_the_draws_up_slightly():
    made = Pegasus(Pure(1), window="running")
    for tick in (3, 128, 129, 1000, 10**6 + 1):
        exact = made.error_bound(tick).noise
        assert exact.half_width(0.95) <= made.error_bound(tick).half_width(0.95) <= 1.01 * exact.half_width(0.95) + 1
        assert made.error_bound(tick).stddev == exact.stddev
    assert len({made.error_bound(tick).half_width(0.9) for tick in range(10**6, 10**6 + 5000)}) == 1
