"""Histograms without negative bins: the nearest ones, by their optimality conditions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamgauge.noise import DiscreteLaplace
from streamgauge.postprocess import project_nonnegative
from streamgauge.testing.noise import InsecureNoise

numbers = st.floats(-1e6, 1e6, allow_nan=False)
histograms = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=numbers)


def nearest_of_all(values, total):
    """Return the nearest valid projection, by trying every set of remaining bins."""
    best = None
    for size in range(1, len(values) + 1):
        for rest in map(list, combinations(range(len(values)), size)):
            x = np.zeros(len(values))
            x[rest] = values[rest] - (values[rest].sum() - total) / size
            if (x >= -1e-9).all() and (best is None or ((x - values) ** 2).sum() < best[0]):
                best = ((x - values) ** 2).sum(), x
    return best[1]


@pytest.mark.parametrize("total", [0.0, 0.5, 3.0, 40.0])
def test_projection_is_the_nearest_of_all_with_this_total(total):
    rng = np.random.default_rng(5)
    for values in rng.normal(0, 5, (60, 6)):
        np.testing.assert_allclose(project_nonnegative(values, total), nearest_of_all(values, total), atol=1e-9)


@given(values=histograms, total=st.floats(0, 1e6))
def test_projection_has_the_total_and_meets_optimality_conditions(values, total):
    out = project_nonnegative(values, total)
    close = 1e-9 * (np.abs(values).max() + total + 1)
    assert (out >= 0).all()
    np.testing.assert_allclose(out.sum(axis=-1), total, atol=close)
    shift = np.where(out > 0, values - out, -np.inf).max(axis=-1, keepdims=True)
    assert total < 1e-300 or (np.abs(values - out - shift)[out > 0] <= close).all()
    assert total < 1e-300 or (values <= shift + close)[out == 0].all()


@given(values=histograms, total=st.floats(0, 1e6))
def test_second_projection_changes_nothing(values, total):
    once = project_nonnegative(values, total)
    np.testing.assert_allclose(project_nonnegative(once, total), once, atol=1e-9 * (total + 1))


@given(values=histograms, seed=st.integers(0, 99))
def test_no_histogram_comes_out_farther_from_the_truth(values, seed):
    truth = np.random.default_rng(seed).integers(0, 100, values.shape).astype(float)
    before = ((values - truth) ** 2).sum(axis=-1)
    for out in (project_nonnegative(values), project_nonnegative(values, truth.sum(axis=-1))):
        assert (((out - truth) ** 2).sum(axis=-1) <= before * (1 + 1e-9) + 1e-6).all()


def test_without_a_total_negative_bins_become_zero():
    out = project_nonnegative(np.array([[3, -1], [-(2**62), 0]]))
    assert out.tolist() == [[3, 0], [0, 0]]
    assert out.dtype == np.int64


def test_parallel_histograms_are_independent():
    rng = np.random.default_rng(2)
    values, totals = rng.normal(0, 9, (4, 5, 7)), rng.uniform(0, 50, (4, 5))
    out = project_nonnegative(values, totals)
    for i in range(4):
        for j in range(5):
            np.testing.assert_allclose(out[i, j], project_nonnegative(values[i, j], totals[i, j]))


def test_million_bins_far_from_zero_have_the_total():
    values = 1e9 + np.random.default_rng(3).normal(0, 1000, 10**6)
    assert project_nonnegative(values, 1e6).sum() == pytest.approx(1e6, rel=1e-9)
    assert project_nonnegative(values, 1e15).sum() == pytest.approx(1e15, rel=1e-12)


def test_given_total_avoids_the_bias_of_clipping():
    truth, scale = np.array([400.0, *[0.0] * 63]), 10
    noise = InsecureNoise(6).laplace(DiscreteLaplace(scale).scale, 64 * 4000).reshape(4000, 64)
    clipped, projected = project_nonnegative(truth + noise), project_nonnegative(truth + noise, 400)
    assert clipped.sum(axis=-1).mean() > 600
    assert ((projected - truth) ** 2).sum(axis=-1).mean() < 0.5 * ((clipped - truth) ** 2).sum(axis=-1).mean()


def test_histogram_of_odd_numbers_raises_no_warning():
    for odd in ([np.nan, 1.0], [np.inf, 1.0], [-np.inf, 1.0], [1e308, -1e308, 1e308]):
        assert project_nonnegative(odd, 1.0).shape == (len(odd),)
    assert project_nonnegative([1.0, 2.0], -5).tolist() == [0.0, 0.0]


def test_shapes_and_types_that_make_no_sense_are_refused():
    for values, total, rule in [
        ("abc", None, "values must be numbers"),
        (3.0, None, "values must have bins"),
        (np.zeros((2, 0)), 1.0, "values must have bins"),
        (np.zeros((2, 3)), [1.0, 2.0, 3.0], "total must be one number, or one for each of"),
    ]:
        with pytest.raises(ValueError, match=rule):
            project_nonnegative(values, total)
