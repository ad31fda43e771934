"""Consistent counts: whole, monotone, bounded in increment, and never worse than the worst release so far."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamgauge.continual import Binary
from streamgauge.postprocess import make_consistent
from streamgauge.postprocess.consistency import MAX_COUNT, MAX_NARROW_GROUPS, follow_by_group, follow_by_tick
from streamgauge.privacy import Pure
from streamgauge.testing.noise import InsecureNoise


def half_up(releases):
    """floor(M + 1/2), in rationals."""
    distinct, which = np.unique(releases, return_inverse=True)
    return np.array([(2 * Fraction(float(value)) + 1) // 2 for value in distinct])[which]


def worse_than_the_worst(out, releases, truth):
    worst = np.maximum.accumulate(np.abs(half_up(releases) - truth))
    return bool((np.abs(out - truth) > worst).any())


def by_the_letter(releases, most):
    """Compute the definition, group by group, in Python integers."""
    out, path = 0, []
    for value in half_up(releases).tolist():
        rise = max(value - out, 0)
        out += rise if most is None else min(rise, most)
        path.append(out)
    return path


def drifting(releases, most):
    """A broken twin: it sums the releases' increments, clipped to 0 ... N, and so drifts."""
    return np.clip(np.diff(half_up(releases), axis=0, prepend=0), 0, most).cumsum(axis=0)


def not_bounded(releases, most):
    """A broken twin: it ignores the bound."""
    return make_consistent(releases)


def towards_zero(releases, most):
    """A broken twin: it truncates fractions."""
    return make_consistent(np.trunc(releases), most)


def streams(most):
    rises = st.integers(0, 9 if most is None else most)
    noise = st.floats(-20, 20, allow_nan=False)
    return st.lists(st.tuples(rises, noise), min_size=1, max_size=40)


@pytest.mark.one_of_each
@pytest.mark.parametrize("most", [0, 1, 2, 7, None])
@given(data=st.data())
def test_no_count_is_worse_than_the_worst_release_so_far(most, data):
    stream = np.array(data.draw(streams(most)))
    truth = np.cumsum(stream[:, 0]).astype(np.int64)
    releases = truth + stream[:, 1]
    out = make_consistent(releases, most)
    assert not worse_than_the_worst(out, releases, truth)
    assert out.tolist() == by_the_letter(releases, most)
    steps = np.diff(out, prepend=0)
    assert (steps >= 0).all()
    assert most is None or (steps <= most).all()


def all_short_streams(most, ticks=4):
    """Return all streams of increments 0 ... most with all releases, one group each."""
    rises = np.array(list(product(range(most + 1), repeat=ticks))).T
    paths = np.array(list(product(np.arange(-1, 2 * most + 2, 0.5), repeat=ticks))).T
    truth = np.repeat(np.cumsum(rises, axis=0), paths.shape[1], axis=1)
    return np.tile(paths, rises.shape[1]), truth


@pytest.mark.parametrize("most", [1, 2])
def test_no_count_of_short_streams_exceeds_worst_release_error(most):
    releases, truth = all_short_streams(most, ticks=4 if most == 1 else 3)
    out = make_consistent(releases, most)
    assert out.dtype == np.int64
    assert not worse_than_the_worst(out, releases, truth)
    assert not worse_than_the_worst(make_consistent(releases), releases, truth)
    assert set(np.unique(np.diff(out, axis=0, prepend=0))) == set(range(most + 1))


def test_broken_twins_are_caught():
    releases, truth = all_short_streams(1)
    assert worse_than_the_worst(drifting(releases, 1), releases, truth)
    assert worse_than_the_worst(towards_zero(releases, 1), releases, truth)
    assert np.diff(not_bounded(releases, 1), axis=0, prepend=0).max() > 1
    assert worse_than_the_worst(half_up(releases) + 3, releases, truth)


@given(
    releases=arrays(np.float64, st.tuples(st.integers(0, 30), st.just(3)), elements=st.floats(-9, 99)),
    most=st.one_of(st.none(), st.integers(0, 5), st.just([0, 3, 50])),
    cut=st.integers(0, 30),
)
def test_blocks_equal_the_whole_stream(releases, most, cut):
    whole = make_consistent(releases, most)
    first = make_consistent(releases[:cut], most)
    after = first[-1] if len(first) else None
    second = make_consistent(releases[cut:], most, after)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


def test_single_ticks_equal_the_whole_stream():
    releases = np.random.default_rng(3).normal(50, 30, 200)
    after, path = 0, []
    for release in releases:
        after = make_consistent([release], 2, after)[-1]
        path.append(after)
    np.testing.assert_array_equal(path, make_consistent(releases, 2))


@pytest.mark.parametrize("width", [1, MAX_NARROW_GROUPS, MAX_NARROW_GROUPS + 1, 100])
def test_groups_are_independent_with_their_own_bounds(width):
    rng = np.random.default_rng(width)
    releases, most = rng.normal(0, 40, (50, width)).cumsum(axis=0), rng.integers(0, 60, width)
    out = make_consistent(releases, most)
    for group in range(width):
        assert out[:, group].tolist() == by_the_letter(releases[:, group], int(most[group]))


def test_both_fast_algorithms_agree():
    rng = np.random.default_rng(8)
    aims, most = rng.integers(0, MAX_COUNT, (60, 5)), rng.integers(0, MAX_COUNT // 4, 5)
    start = rng.integers(0, 1000, 5)
    np.testing.assert_array_equal(follow_by_tick(aims, start, most), follow_by_group(aims, start, most))


def test_rounding_is_exact_even_if_adding_a_half_fails():
    under = np.nextafter(0.5, 0)
    assert under + 0.5 == 1.0
    assert make_consistent([under]).tolist() == [0]
    odd = 2.0**52 + 1
    assert odd + 0.5 != odd
    assert make_consistent([odd, 0.5, 1.5]).tolist() == [2**52 + 1] * 3
    assert make_consistent([0.5, 1.5, 2.5, -0.5]).tolist() == [1, 2, 3, 3]


HUGE = [np.array([1e300, -1e300, np.inf, -np.inf, np.nan]), np.array([2**63, 2**64 - 1], np.uint64)]
HUGE += [np.array([-(2**63), 2**63 - 1]), [10**400, -(10**400), Fraction(7, 2)], [float("nan"), 10**400]]


@pytest.mark.parametrize("releases", HUGE, ids=str)
@pytest.mark.parametrize("most", [None, 0, 5, 2**63 - 1, 2**70])
def test_no_release_is_too_large(releases, most):
    out = make_consistent(releases, most)
    top = MAX_COUNT if most is None else min(most, MAX_COUNT)
    assert (np.diff(out, prepend=0) >= 0).all()
    assert out.dtype == np.int64
    assert (out <= top * len(out)).all()


def test_counts_near_the_maximum_stay_below_it():
    for releases in ([1e300], np.full((1, MAX_NARROW_GROUPS + 1), 1e300)):
        assert (make_consistent(releases, max_increment=10, previous=MAX_COUNT - 3) == MAX_COUNT).all()


def test_items_other_than_numbers_change_nothing():
    assert make_consistent([3.0, np.nan, 5.0], max_increment=9).tolist() == [3, 3, 5]
    assert make_consistent([None, 1]).tolist() == [0, 1]
    odd = [2, None, "9", Decimal("nan"), 1j, np.nan, [7], True, Decimal("3.5"), Fraction(9, 2)]
    items = np.empty(len(odd), object)
    items[:] = odd
    assert make_consistent(items).tolist() == [2] * 8 + [4, 5]
    assert make_consistent([[None, 4], [3, None]], max_increment=9).tolist() == [[0, 4], [3, 4]]


def test_counts_of_a_mechanism_become_no_worse():
    values = np.random.default_rng(1).integers(0, 3, (500, 40))
    releases = Binary(Pure(1), horizon=500).start(40, InsecureNoise(4)).feed(values)
    truth = values.cumsum(axis=0)
    out = make_consistent(releases, max_increment=2)
    assert not worse_than_the_worst(out, releases, truth)
    assert np.abs(out - truth).mean() < np.abs(releases - truth).mean()


def test_shapes_and_settings_that_make_no_sense_are_refused():
    for releases, most, after, rule in [
        ([["a"]], None, None, "releases must be numbers"),
        (3, None, None, "releases must be of shape"),
        (np.zeros((2, 2, 2)), None, None, "releases must be of shape"),
        ([1.0], -1, None, "most must be whole numbers of at least 0"),
        ([1.0], None, [[1]], "after must be one number"),
        ([[1.0, 2.0]], [None, 1], None, "most must be whole numbers of at least 0"),
        ([1.0], 1.5, None, "most must be whole numbers of at least 0"),
        (np.zeros((2, 3)), [1, 2], None, "most must be one number, or one for each group"),
        (np.zeros((2, 3)), 1, [1, 2], "after must be one number, or one for each group"),
    ]:
        with pytest.raises(ValueError, match=rule):
            make_consistent(releases, most, after)


def test_empty_blocks_are_accepted():
    assert make_consistent([], 1).shape == (0,)
    assert make_consistent(np.zeros((0, 3))).shape == (0, 3)
    assert make_consistent(np.zeros((3, 0)), 1).shape == (3, 0)
