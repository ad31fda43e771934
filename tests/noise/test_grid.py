"""The grid: exact rounding of any input, never an error on data."""

from array import array
from collections import deque
from decimal import Decimal
from fractions import Fraction
from math import floor, isfinite, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.noise import Grid, VectorGrid

STEPS = [Fraction(1), Fraction(1, 2), Fraction(1, 100), Fraction(3, 7), Fraction(5), Fraction(1, 3), Fraction(1, 2**20)]
ANYTHING = st.one_of(
    st.none(),
    st.text(),
    st.binary(),
    st.booleans(),
    st.complex_numbers(),
    st.integers(),
    st.decimals(),
    st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True),
    st.fractions(),
    st.lists(st.integers(), max_size=3),
    st.sampled_from([10**400, -(10**400), object(), 1e308]),
    st.dates(),
)


class Hostile:
    def __float__(self):
        raise RuntimeError("secret")

    def __len__(self):
        raise KeyboardInterrupt


def rule(grid, x):
    """Round by the definition, in fractions."""
    if isnan(x):
        return int(grid.missing / grid.step)
    clipped = grid.upper if x > grid.upper else grid.lower if x < grid.lower else Fraction(x)
    return floor(clipped / grid.step + Fraction(1, 2))


@given(
    st.sampled_from(STEPS),
    st.integers(-1000, 1000),
    st.integers(0, 2000),
    st.lists(st.floats(), min_size=1, max_size=30),
)
@settings(deadline=None)
def test_floats_are_rounded_by_the_definition(step, first, span, values):
    grid = Grid(first * step, (first + span) * step, step)
    assert grid.integers(np.array(values)).tolist() == [rule(grid, x) for x in values]
    assert grid.integers(values).tolist() == [rule(grid, x) for x in values]


@given(st.sampled_from(STEPS), st.integers(-5000, 5000), st.sampled_from([-1, 0, 1]))
def test_ties_and_their_neighbours_are_rounded_exactly(step, n, nudge):
    grid = Grid(-6000 * step, 6000 * step, step)
    x = float((n + Fraction(1, 2)) * step)
    x = float(np.nextafter(x, nudge * np.inf)) if nudge else x
    assert grid.integers(np.array([x]))[0] == rule(grid, x)


@given(st.lists(ANYTHING, max_size=20))
@settings(deadline=None)
def test_anything_lands_on_the_grid_and_nothing_raises(values):
    grid = Grid(-3, 10, Fraction(1, 2), missing=2)
    integers = grid.integers(values)
    assert ((integers >= grid.first) & (integers <= grid.last)).all()
    assert integers.dtype == np.int64


@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(), st.text()), min_size=1, max_size=8), st.data())
@settings(deadline=None)
def test_items_are_read_independently(values, data):
    grid = Grid(0, 100, Fraction(1, 10))
    at = data.draw(st.integers(0, len(values) - 1))
    assert grid.integers(values)[at] == grid.integers([values[at]])[0]
    assert grid.find_present(values)[at] == grid.find_present([values[at]])[0]


def test_item_moves_a_sum_by_at_most_the_bound():
    grid = Grid(-3, 10, Fraction(1, 4))
    odd = [None, float("nan"), float("inf"), float("-inf"), 1e308, -5e-324, 10**30, "x", 9.9999, -3.1, Hostile()]
    integers = grid.integers(odd)
    assert abs(integers).max() <= grid.bound() == 40
    assert integers.max() - integers.min() <= grid.bound(replace=True) == 52


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble, bool])
def test_arrays_of_every_numeric_type_are_read(dtype):
    values = np.array([0, 1, 100], dtype)
    assert Grid(0, 50).integers(values).tolist() == [0, 1, 1 if dtype is bool else 50]


def test_integers_beyond_the_floats_are_clipped_first():
    assert Grid(-5, 5).integers(np.array([2**63 - 1, -(2**63), 3])).tolist() == [5, -5, 3]
    assert Grid(-5, 5).integers(np.array([2**64 - 1], np.uint64)).tolist() == [5]


@given(st.integers(-40, 40), st.integers(0, 40), st.lists(st.integers(0, 127), min_size=1, max_size=9))
@settings(deadline=None)
def test_every_integer_type_gives_the_same(first, span, values):
    grid = Grid(first * Fraction(7, 10), (first + span) * Fraction(7, 10), 0.7)
    expected = [rule(grid, x) for x in values]
    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float64, object):
        assert grid.integers(np.array(values, dtype)).tolist() == expected
    negative = [rule(grid, -x) for x in values]
    for dtype in (np.int8, np.int64, object):
        assert grid.integers(-np.array(values, dtype)).tolist() == negative


def test_masked_and_odd_arrays_are_missing():
    grid = Grid(0, 10, missing=7)
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    assert grid.integers(masked).tolist() == [1, 7]
    assert grid.find_present(masked).tolist() == [True, False]
    for odd in (np.array(["1", "2"]), np.array([1j, 2]), np.array(["2020-01-01", "2020-01-02"], "M8[D]")):
        assert grid.integers(odd).tolist() == [7, 7]
    assert grid.integers([Decimal("2.5"), Fraction(7, 2), [1], Hostile()]).tolist() == [3, 4, 7, 7]
    assert grid.integers(3.2).tolist() == 3
    assert grid.integers([[1, 2], [3]]).tolist() == [7, 7]


def test_missing_items_count_as_zero_or_the_nearest_bound():
    assert Grid(0, 10).integers([None]).tolist() == [0]
    assert Grid(3, 10).integers([None]).tolist() == [3]


def test_grid_integers_convert_back_to_reals():
    grid = Grid(-1, 1, np.float64(0.1))
    assert grid.step == Fraction(1, 10)
    assert grid.reals(grid.integers([0.3, -0.26])).tolist() == [0.3, -0.3]


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ((0, 1, 0), "step must be positive, got 0"),
        ((1, 0, 1), "upper must be at least lower, got 0 < 1"),
        ((0, 1, Fraction(2, 3)), "upper must be a multiple of step, got 1"),
        ((Fraction(1, 2), 1, 1), "lower must be a multiple of step, got 1/2"),
        ((0, "x", 1), "upper must be a finite number, got x"),
        ((0, float("inf"), 1), "upper must be a finite number, got inf"),
        ((0, 2**60, 1), "step must leave fewer than"),
        ((0, 5, 1, 9), "missing must be within lower and upper, got 9"),
    ],
)
def test_bad_grids_are_refused(settings_, words):
    with pytest.raises(ValueError, match=words):
        Grid(*settings_)


@given(st.integers(1, 6), st.data())
@settings(deadline=None)
def test_vectors_keep_the_norm_that_is_charged(dimension, data):
    grid = VectorGrid(
        data.draw(st.sampled_from([1, 3, 100])),
        dimension,
        data.draw(st.sampled_from([Fraction(1, 100), Fraction(1, 3), 1])),
    )
    rows = data.draw(st.lists(st.lists(ANYTHING, min_size=dimension, max_size=dimension), min_size=1, max_size=5))
    integers = grid.integers(rows)
    assert integers.shape == (len(rows), dimension)
    assert all(sum(int(x) ** 2 for x in row) <= grid.l2_squared() for row in integers)


def test_vectors_are_clipped_in_their_own_direction():
    grid = VectorGrid(1, 2, Fraction(1, 1000))
    assert grid.integers(np.array([[3.0, 4.0], [0.3, 0.4], [1e300, 0.0], [0.0, np.nan]])).tolist() == [
        [600, 800], [300, 400], [1000, 0], [0, 0],
    ]  # fmt: skip
    assert grid.integers([[1], [0.5, 0.5, 0.5], 3, Hostile()]).tolist() == [[0, 0]] * 4
    assert 1000**2 < grid.l2_squared() < 1001**2
    assert grid.l2_squared(replace=True) == 4 * grid.l2_squared()
    assert isfinite(grid.reals(grid.integers([[1, 0]]))[0, 0])


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ((0, 2, 1), "norm must be from 2\\*\\*-500"),
        ((1, 0, 1), "dimension must be a whole number from 1 to"),
        ((1, 2, 2), "step must be positive, at most norm"),
    ],
)
def test_bad_vector_grids_are_refused(settings_, words):
    with pytest.raises(ValueError, match=words):
        VectorGrid(*settings_)
    with pytest.raises(ValueError, match="values must have rows of 2 coordinates"):
        VectorGrid(1, 2, 1).integers(np.zeros((3, 4)))


@pytest.mark.parametrize(
    "settings_", [(1e-320, 1, 1e-323), (Fraction(1, 10**400), 1, Fraction(1, 10**400)), (1, 2.5, 1)]
)
def test_vector_grids_that_floats_cannot_hold_are_refused(settings_):
    with pytest.raises(ValueError, match=r"norm must be from|dimension must be a whole number"):
        VectorGrid(*settings_)


def test_rows_of_object_arrays_are_read_one_by_one():
    grid, rows = VectorGrid(10, 2, 1), np.empty(4, object)
    rows[:] = [[3, 4], None, [1, 2, 3], (5, "text")]
    assert grid.integers(rows).tolist() == [[3, 4], [0, 0], [0, 0], [5, 0]]
    assert grid.integers(list(rows)).tolist() == grid.integers(rows).tolist()
    assert grid.integers(None).tolist() == [[0, 0]]


class Secretive:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_every_collection_is_read_item_by_item_and_none_raises():
    grid = Grid(-5, 5)
    for values in (deque([1, 2]), array("d", [1, 2]), memoryview(array("b", [1, 2])), {1: "a", 2: "b"}.keys()):
        assert grid.integers(values).tolist() == [1, 2]
    assert grid.integers([Fraction(10**400), Fraction(-(10**400)), Secretive()]).tolist() == [5, -5, 0]
    assert grid.integers(Secretive()).tolist() == 0
    assert grid.integers("12").tolist() == 0
