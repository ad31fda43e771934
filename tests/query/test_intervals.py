"""Intervals hold what doubles can do, and no more."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.query.sql.intervals import HUGE, Interval, decimal, half_away, hull, point

BIG = 1.7976931348623157e308
ENDS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 2.5, -2.5, 5e-324, BIG, -BIG, 1e200, -1e200, 10.0]
)
SPANS = st.tuples(ENDS, ENDS).map(lambda ends: Interval(min(ends), max(ends)))
UNBOUNDED = st.sampled_from([Interval(), Interval(0.0), Interval(upper=1.0), Interval(-3.0)])


@st.composite
def inside(draw: st.DrawFn) -> tuple[Interval, float]:
    """An interval and a number in it, often one of its ends."""
    span = draw(SPANS | UNBOUNDED)
    low, high = max(span.lower, -BIG), min(span.upper, BIG)
    return span, draw(st.sampled_from([low, high]) | st.floats(low, high))


def divided(a: float, b: float) -> float:
    return a / b if b else math.nan


def remaining(a: float, b: float) -> float:
    return math.fmod(a, b) if b else math.nan


BINARY = [
    (operator.add, operator.add),
    (operator.sub, operator.sub),
    (operator.mul, operator.mul),
    (operator.truediv, divided),
    (operator.mod, remaining),
]


@pytest.mark.parametrize(("of_spans", "of_numbers"), BINARY)
@given(a=inside(), b=inside())
def test_the_double_of_an_operation_lies_in_the_interval_to_the_last_bit(
    of_spans: Callable[[Interval, Interval], Interval],
    of_numbers: Callable[[float, float], float],
    a: tuple[Interval, float],
    b: tuple[Interval, float],
) -> None:
    result = of_numbers(a[1], b[1])
    if math.isfinite(result):
        assert of_spans(a[0], b[0]).holds(result)


@given(a=inside())
def test_the_double_of_a_function_lies_in_the_interval_to_the_last_bit(a: tuple[Interval, float]) -> None:
    span, x = a
    assert (-span).holds(-x)
    assert abs(span).holds(abs(x))
    assert span.floor().holds(float(math.floor(x)))
    assert span.ceil().holds(float(math.ceil(x)))
    assert span.round().holds(half_away(x))
    assert (span | point(3.0)).holds(x)


@given(a=inside(), b=inside())
def test_an_interval_that_says_finite_has_no_result_that_is_not(
    a: tuple[Interval, float], b: tuple[Interval, float]
) -> None:
    for of_spans, of_numbers in BINARY[:3]:
        if of_spans(a[0], b[0]).finite:
            assert math.isfinite(of_numbers(a[1], b[1]))


def test_ends_are_attained_so_no_noise_is_wasted_on_what_cannot_happen() -> None:
    assert Interval(0.0, 100.0) / point(10.0) == Interval(0.0, 10.0)
    assert Interval(-1.0, 2.0) * Interval(-3.0, 4.0) == Interval(-6.0, 8.0)
    assert Interval(35.0, 42.0) * point(1.8) + point(32.0) == Interval(95.0, 107.60000000000001)
    assert abs(Interval(-3.0, 2.0)) == Interval(0.0, 3.0)
    assert Interval(-3.0, 200.0) % point(7.0) == Interval(-7.0, 7.0)
    assert Interval(2.0, 3.0) & Interval(2.5, 9.0) == Interval(2.5, 3.0)
    assert Interval(2.0, 3.0) & Interval(4.0, 9.0) is None


def test_exact_fractions_would_be_an_ulp_too_narrow() -> None:
    """The broken twin: the tenth that people mean is not the one that the engine multiplies."""
    computed = 0.1 * 3.0
    assert computed > float(decimal(0.1) * 3)
    assert (point(0.1) * point(3.0)).holds(computed)


def test_a_divisor_that_may_be_zero_leaves_no_bounds() -> None:
    for divisor in (Interval(0.0, 1.0), Interval(-1.0, 0.0), Interval(-1.0, 1.0), point(-0.0)):
        assert not (Interval(1.0, 2.0) / divisor).bounded


def test_what_overflows_or_nearly_does_is_unbounded() -> None:
    assert not (point(1e200) * point(1e200)).bounded
    assert not (point(1e200) * point(1e200)).finite
    assert not (Interval(0.0, HUGE) * point(10.0)).bounded
    assert hull((math.inf, math.inf)).lower == BIG
    assert hull((math.nan, 1.0)) == Interval(0.0, 1.0)


@given(st.floats(-HUGE, HUGE, allow_subnormal=False))
def test_an_end_is_told_to_fifteen_digits(end: float) -> None:
    assert abs(decimal(end) - Fraction(end)) <= Fraction(5, 10**15) * abs(Fraction(end))


def test_ends_that_people_declared_are_told_as_they_declared_them() -> None:
    for text in ("0.1", "35", "-273.15", "107.6", "1e-9", "123456789.012345"):
        assert decimal(float(text)) == Fraction(text)
