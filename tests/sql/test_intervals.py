"""Intervals contain all results of double arithmetic, and no more."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.sql.expressions import MAX_BOUND, Interval, hull, point, round_half_away, to_decimal_fraction

BIG = 1.7976931348623157e308
ENDS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 2.5, -2.5, 5e-324, BIG, -BIG, 1e200, -1e200, 10.0]
)
SPANS = st.tuples(ENDS, ENDS).map(lambda ends: Interval(min(ends), max(ends)))
UNBOUNDED = st.sampled_from([Interval(), Interval(0.0), Interval(upper=1.0), Interval(-3.0)])


@st.composite
def inside(draw: st.DrawFn) -> tuple[Interval, float]:
    """Draw an interval and a number in it, often one of its ends."""
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
def test_double_result_of_an_operation_lies_in_the_interval(
    of_spans: Callable[[Interval, Interval], Interval],
    of_numbers: Callable[[float, float], float],
    a: tuple[Interval, float],
    b: tuple[Interval, float],
) -> None:
    result = of_numbers(a[1], b[1])
    if math.isfinite(result):
        assert of_spans(a[0], b[0]).contains(result)


@given(a=inside())
def test_double_result_of_a_function_lies_in_the_interval(a: tuple[Interval, float]) -> None:
    span, x = a
    assert (-span).contains(-x)
    assert abs(span).contains(abs(x))
    assert span.floor().contains(float(math.floor(x)))
    assert span.ceil().contains(float(math.ceil(x)))
    assert span.round().contains(round_half_away(x))
    assert (span | point(3.0)).contains(x)


@given(a=inside(), b=inside())
def test_finite_interval_has_no_infinite_result(a: tuple[Interval, float], b: tuple[Interval, float]) -> None:
    for of_spans, of_numbers in BINARY[:3]:
        if of_spans(a[0], b[0]).is_finite:
            assert math.isfinite(of_numbers(a[1], b[1]))


def test_interval_ends_are_attained() -> None:
    assert Interval(0.0, 100.0) / point(10.0) == Interval(0.0, 10.0)
    assert Interval(-1.0, 2.0) * Interval(-3.0, 4.0) == Interval(-6.0, 8.0)
    assert Interval(35.0, 42.0) * point(1.8) + point(32.0) == Interval(95.0, 107.60000000000001)
    assert abs(Interval(-3.0, 2.0)) == Interval(0.0, 3.0)
    assert Interval(-3.0, 200.0) % point(7.0) == Interval(-7.0, 7.0)
    assert Interval(2.0, 3.0) & Interval(2.5, 9.0) == Interval(2.5, 3.0)
    assert Interval(2.0, 3.0) & Interval(4.0, 9.0) is None


def test_exact_fractions_would_be_an_ulp_too_narrow() -> None:
    """The broken twin: the engine multiplies the double 0.1, not the exact tenth."""
    computed = 0.1 * 3.0
    assert computed > float(to_decimal_fraction(0.1) * 3)
    assert (point(0.1) * point(3.0)).contains(computed)


def test_a_divisor_that_may_be_zero_leaves_no_bounds() -> None:
    for divisor in (Interval(0.0, 1.0), Interval(-1.0, 0.0), Interval(-1.0, 1.0), point(-0.0)):
        assert not (Interval(1.0, 2.0) / divisor).is_bounded


def test_overflow_and_near_overflow_are_unbounded() -> None:
    assert not (point(1e200) * point(1e200)).is_bounded
    assert not (point(1e200) * point(1e200)).is_finite
    assert not (Interval(0.0, MAX_BOUND) * point(10.0)).is_bounded
    assert hull((math.inf, math.inf)).lower == BIG
    assert hull((math.nan, 1.0)) == Interval(0.0, 1.0)


@given(st.floats(-MAX_BOUND, MAX_BOUND, allow_subnormal=False))
def test_interval_end_is_written_with_fifteen_digits(end: float) -> None:
    assert abs(to_decimal_fraction(end) - Fraction(end)) <= Fraction(5, 10**15) * abs(Fraction(end))


def test_declared_interval_ends_are_written_as_declared() -> None:
    for text in ("0.1", "35", "-273.15", "107.6", "1e-9", "123456789.012345"):
        assert to_decimal_fraction(float(text)) == Fraction(text)
