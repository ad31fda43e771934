"""Outputs become numbers, and different outputs have different views, for all odd pairs."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from streamgauge.audit.attack.outputs import KINDS_PER_FLOAT, encode_outputs, stack_outputs

WHOLE: list[Any] = [0, 1, -1, 3, 2**53, 2**53 + 1, 2**60, 2**60 + 1, -(2**60) - 1, 10**30, 10**30 + 1]
WHOLE += [10**400, 10**400 + 1, -(10**400), 2**200, 2**200 + 1]
FLOATS: list[Any] = [0.0, -0.0, 1.0, 3.0, nan, inf, -inf, 1 / 3, 2.0**53, 2.0**60, 1e-310, 1e300]
RATIONAL: list[Any] = [Fraction(n) for n in (0, 1, 3)]
RATIONAL += [Fraction(1, 3), Fraction(1 / 3), Fraction(1, 4), Fraction(10**400), Fraction(1, 10**400)]
DECIMALS: list[Any] = [
    Decimal(text)
    for text in ("0", "-0", "0.0", "1", "3", "3.0", "3.00", "0.1", "1e999999", "NaN", "sNaN", "Infinity", "-Infinity")
]
OTHERS: list[Any] = [True, False, None, "", "None", "nan", "0", b"", b"0", "1", 1j, {1: 2}, {1}, int, object]
ODD = WHOLE + FLOATS + RATIONAL + DECIMALS + OTHERS


def view(output: Any) -> tuple[float, ...]:
    rows = stack_outputs([output])
    return tuple(encode_outputs(rows, rows.shape[1:])[0].tolist())


def test_outputs_of_other_types_or_texts_have_other_views() -> None:
    assert len({(type(odd), repr(odd)) for odd in ODD}) == len(ODD)
    for one, other in combinations(ODD, 2):
        assert view(one) != view(other), (one, other)


@pytest.mark.parametrize("place", [0, 1, KINDS_PER_FLOAT - 1, KINDS_PER_FLOAT, 2 * KINDS_PER_FLOAT, 30])
def test_odd_items_at_any_index_have_distinct_views(place: int) -> None:
    rows = [[*[7] * place, odd, *[7] * (30 - place)] for odd in ODD]
    assert len({view(row) for row in rows}) == len(ODD)


def test_two_places_are_not_confused() -> None:
    for one, other in combinations(ODD, 2):
        assert view([one, other]) != view([other, one])


def test_equal_outputs_have_equal_views_of_equal_length() -> None:
    for odd in ODD:
        assert view(odd) == view(odd)
        assert len(view([odd, 1])) == 4
    assert view([1, 2]) == view((1, 2)) == view(np.array([1, 2])) == view([np.int8(1), np.uint64(2)])
    assert view([0.5]) == view(np.array([0.5], np.float16)) == view([np.float32(0.5)])
    assert view(nan) == view(-nan)


def test_arrays_are_read_as_their_items_are() -> None:
    for array in (np.array([1, 2**62]), np.array([-0.0, nan, inf, 1.5]), np.array([True, False])):
        assert view(array) == view(array.tolist())
    longer = np.array([1, 1], np.longdouble)
    longer[1] += np.finfo(np.longdouble).eps
    assert view(longer[0]) != view(longer[1])


def test_twin_that_sums_remainders_is_caught() -> None:
    """Summed remainders of two items can cancel out."""

    def summed(output: list[int]) -> tuple[float, ...]:
        numbers, rest = [float(item) for item in output], [item - int(float(item)) for item in output]
        return (*numbers, float(sum(rest)))

    one, other = [2**60 + 1, 2**60], [2**60, 2**60 + 1]
    assert summed(one) == summed(other)
    assert view(one) != view(other)
