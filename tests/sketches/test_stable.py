"""p-stable sketches, the second moment, and the private release that carries nothing."""

from math import pi

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.sketches import ExperimentalReleaseError, PStable, SecondMoment, release_stable
from streamgauge.sketches.stable import quantize_rows, stable_values
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.sketch_streams import KEY, key, zipf_items


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5])
def test_weighted_sums_have_the_law_of_their_norm(p: float) -> None:
    """Definition of a p-stable law, on the quantiles of the distribution function."""
    rng = np.random.default_rng(1)

    def draw(size: int) -> np.ndarray:
        return stable_values(pi * (rng.random(size) - 0.5), rng.exponential(size=size), p)

    size, weights = 40_000, np.array([3.0, -1.0, 2.0])
    total = sum(weight * draw(size) for weight in weights)
    norm = (np.abs(weights) ** p).sum() ** (1 / p)
    points = np.quantile(norm * draw(size), np.linspace(0.02, 0.98, 25))
    shares = (total[:, None] < points).mean(axis=0)
    assert np.abs(shares - np.linspace(0.02, 0.98, 25)).max() < 6 * (0.5 / size) ** 0.5


def test_half_stable_and_cauchy_laws_have_their_known_medians() -> None:
    assert PStable(p=1.0).median == pytest.approx(1, rel=0.02)
    assert PStable(p=2.0).median == pytest.approx(2**0.5 * 0.6745, rel=0.02)


def test_distinct_items_and_norms_with_deletions() -> None:
    few = PStable(p=0.25, rows=301).start(KEY)
    few.update(range(3000))
    few.update(range(1000, 3000), [-1] * 2000)
    assert few.distinct() == pytest.approx(1000, rel=0.25)
    one = PStable(p=1.0, rows=301).start(KEY)
    one.update(range(100), [5] * 100)
    assert one.norm() == pytest.approx(500, rel=0.3)


def test_one_event_moves_rows_by_at_most_the_sensitivity() -> None:
    sketch = PStable(p=0.5, rows=11).start(KEY)
    limit = sketch.sensitivity(50, bound=3)
    moves = 3 * np.abs(sketch.columns(np.arange(50)))
    assert (moves.max(axis=1) == limit).all()
    assert (sketch.sensitivity(50, 3, replace=True) == 2 * limit).all()


def test_released_rows_are_whole_and_move_by_a_bounded_number() -> None:
    sketch = PStable(p=0.25, rows=7).start(KEY)
    largest = sketch.sensitivity(100)
    base = quantize_rows(sketch, [1, 2, 3], largest, 100)
    for item in range(100):
        move = np.abs(quantize_rows(sketch, [1, 2, 3, item], largest, 100) - base)
        assert move.max() <= 2**30
    assert (quantize_rows(sketch, [1, 2, 3, 100, -1], largest, 100) == base).all()


def test_a_private_release_is_refused_with_its_numbers() -> None:
    claim = PStable(p=0.5, rows=101)
    with pytest.raises(ExperimentalReleaseError, match=r"noise of about .* a row, while all 1000 items together reach"):
        release_stable(claim, range(10), sg.Pure(1), domain=1000, key=KEY)


def test_items_outside_of_the_domain_are_dropped_not_refused() -> None:
    settings = {"domain": 10, "key": KEY, "noise": SilentNoise(), "experimental": True}
    hostile = release_stable(PStable(rows=11), ["a", None, 3, 99, -1, 2.5, 2**70], sg.Pure(1), **settings)
    assert hostile == release_stable(PStable(rows=11), [3], sg.Pure(1), **settings)


def test_an_experimental_release_does_not_depend_on_the_count() -> None:
    claim, found = PStable(p=0.25, rows=101), {}
    for number in (50, 5000):
        estimates = []
        for seed in range(3):
            settings = {"domain": 5000, "key": key(seed), "noise": InsecureNoise(seed), "experimental": True}
            estimates.append(release_stable(claim, range(number), sg.Pure(1), **settings))  # type: ignore[arg-type]
        found[number] = float(np.median(estimates))
    assert 0.8 < found[5000] / found[50] < 1.25
    exact = release_stable(claim, range(500), sg.Pure(1), domain=5000, key=KEY, noise=SilentNoise(), experimental=True)
    assert exact == pytest.approx(500, rel=0.5)


def test_second_moments_err_as_stated() -> None:
    items = zipf_items(1, 3000)
    truth = float((np.unique(items, return_counts=True)[1].astype(float) ** 2).sum())
    ratios = []
    for seed in range(40):
        sketch = SecondMoment(64, key(seed))
        sketch.update_many(items)
        ratios.append(sketch.estimate() / truth)
    assert np.mean(ratios) == pytest.approx(1, abs=6 * sketch.relative_stddev / 40**0.5)
    assert np.std(ratios) < 1.5 * sketch.relative_stddev
    sketch.update_many(items, [-1] * len(items))
    assert sketch.estimate() == 0


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"p must be between 0.05 and 2, got 0.01"):
        PStable(p=0.01)
    with pytest.raises(ValueError, match="domain must be at most 2\\*\\*20"):
        PStable().start(KEY).sensitivity(2**21)
