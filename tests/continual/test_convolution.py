"""Exact convolution: every bit of integers of any size, in blocks or row by row."""

from math import prod

import numpy as np
import pytest

from streamgauge.continual.factorizations import convolution
from streamgauge.continual.factorizations.convolution import (
    PRIMES,
    RADICES,
    Convolution,
    NumberTransform,
    balance_residues,
    sum_magnitudes,
)


def by_blocks(coefficients: np.ndarray) -> Convolution:
    """Return a convolution that processes short streams like long ones."""
    return Convolution(coefficients, max_direct_products=0)


def big(seed: int, ticks: int, width: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (ticks, width))


def coefficients(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**26), 2**26 + 1, count)


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def by_python(c: np.ndarray, x: np.ndarray, tick: int) -> list[int]:
    """Return one row, computed with unbounded integers, modulo 2^64."""
    weights = [int(v) for v in c[: tick + 1]]
    return [wrapped(sum(w * int(v) for w, v in zip(weights, column[tick::-1], strict=False))) for column in x.T]


@pytest.mark.parametrize(
    ("ticks", "first", "width", "count"),
    [(700, 0, 1, 700), (700, 650, 3, 700), (5000, 1, 1, 5000), (9000, 4000, 2, 3000), (40000, 0, 1, 40000)],
)
def test_blocks_match_python_integers(ticks: int, first: int, width: int, count: int) -> None:
    c, x = coefficients(ticks, count), big(ticks, ticks, width)
    rows = by_blocks(c).rows(x, first)
    assert rows.shape == (ticks - first, width)
    assert rows.dtype == np.int64
    for tick in {first, first + 1, (first + ticks) // 2, ticks - 2, ticks - 1}:
        assert rows[tick - first].tolist() == by_python(c, x, tick)
    newest = [Convolution(c).last_row(x[: t + 1]) for t in range(ticks - 40, ticks)]
    np.testing.assert_array_equal(rows[-40:], newest)


def test_short_streams_take_plain_sums_and_agree_with_blocks() -> None:
    c, x = coefficients(1, 300), big(1, 300, 2)
    plain = Convolution(c).rows(x, 20)
    np.testing.assert_array_equal(plain, by_blocks(c).rows(x, 20))
    assert by_blocks(c).rows(x, 300).shape == (0, 2)


def test_the_largest_sums_that_are_allowed_are_exact() -> None:
    limit = prod(PRIMES) >> 64
    c = np.array([limit - 1, 0, 0], np.int64)
    x = np.full((300, 1), -(2**63))
    np.testing.assert_array_equal(by_blocks(c).rows(x, 0), np.full((300, 1), wrapped((limit - 1) * -(2**63))))
    with pytest.raises(ValueError, match=f"coefficients must add up to less than {limit}, got {limit}"):
        Convolution(np.array([limit], np.int64))


class TooFew(Convolution):
    """A broken twin: one prime too few, without its refusal."""

    def __init__(self, c: np.ndarray) -> None:
        super().__init__(c, max_direct_products=0)
        self.primes = PRIMES[:-1]


def test_a_twin_with_one_prime_too_few_is_caught() -> None:
    c, x = np.full(700, 2**26), np.full((700, 1), 2**63 - 1)
    assert (TooFew(c).rows(x, 0) != by_blocks(c).rows(x, 0)).any()
    with pytest.raises(ValueError, match="coefficients must add up"):
        Convolution(np.full(2**20, 2**26), PRIMES[:4])


@pytest.mark.parametrize("prime", PRIMES)
def test_primes_meet_the_conditions_of_the_proof(prime: int) -> None:
    assert all(prime % d for d in range(2, int(prime**0.5) + 1))
    assert all((prime - 1) % radix**3 == 0 for radix in RADICES)
    assert max(RADICES) * (prime / 2) ** 2 * (1 + 2**-18) < 2**50
    assert (convolution.MAX_SUMMED_PRODUCTS + 1) * (prime / 2) ** 2 * (1 + 2**-18) < 2**53
    for radix in RADICES:
        root = NumberTransform(prime, radix).root
        assert pow(root, radix**3, prime) == 1
        assert pow(root, radix**3 // 2, prime) == prime - 1


def test_transform_sums_roots_of_unity_and_inverse_restores_values() -> None:
    prime, radix = PRIMES[0], RADICES[0]
    rotation = NumberTransform(prime, radix)
    values = np.random.default_rng(3).integers(0, prime, radix**3)
    cube = values.reshape(radix, radix, radix).astype(float)
    spectrum = rotation.forward(cube)
    for k in [(0, 0, 0), (1, 0, 0), (3, 5, 7)]:
        frequency = k[0] + radix * k[1] + radix**2 * k[2]
        terms = (int(v) * pow(rotation.root, n * frequency, prime) for n, v in enumerate(values))
        assert (int(spectrum[k]) - sum(terms)) % prime == 0
    half = rotation.backward(spectrum)
    np.testing.assert_array_equal(half.ravel() % prime, values[: len(values) // 2])


def test_balanced_residues_are_exact_up_to_2_to_53() -> None:
    prime = PRIMES[0]
    values = np.random.default_rng(4).integers(-(2**53) + 1, 2**53, 10**4)
    found = balance_residues(values.astype(float), prime)
    assert (np.abs(found) <= prime / 2 * (1 + 2**-20)).all()
    assert ((values - found.astype(np.int64)) % prime == 0).all()


def test_the_size_of_coefficients_does_not_overflow() -> None:
    assert sum_magnitudes(np.array([2**62, -(2**63), 2**62, 5])) == 2**64 + 5


def test_transforms_of_coefficients_are_cached() -> None:
    c, x = coefficients(5, 5000), big(5, 5000)
    one = by_blocks(c)
    first = one.rows(x, 0)
    rest = {key: list(segments) for key, segments in one._cached_segments.items()}
    np.testing.assert_array_equal(first, one.rows(x, 0))
    assert all(a is b for key in rest for a, b in zip(rest[key], one._cached_segments[key], strict=True))
    np.testing.assert_array_equal(first[3000:], one.rows(x, 3000))
