"""Exact convolution of integers, in floating point that never rounds.

Convolving private data must give exact integers: a float FFT would leave rounding in them that depends on
the data. Here y_t = sum_k c_k x_(t-k) modulo 2^64, by number-theoretic transforms modulo five primes:

    x mod p -> transform -> multiply by that of c -> transform back -> five residues -> y mod 2^64

A transform of R^3 points is three products with an R x R matrix of roots of unity, one along each side of
a cube, and multiplications point by point between them. BLAS does the products, on float64 that hold
integers, in matrices too small for it to start threads.

Proof of exactness
    Residues are balanced, |v| <= p/2 (1 + 2^-20), but for those of the data, 0 <= v < p. A product of
    matrices adds up R <= 32 products of two balanced residues, or R/2 of one balanced and one of the data:
    at most 32 (p/2)^2 (1 + 2^-18) < 2^50 for p <= 11599873. So float64 holds every partial sum, in any
    order. Spectra are added up for MAX_SUMMED_PRODUCTS products at most, 201 (p/2)^2 < 2^53, before they are
    reduced. Reducing modulo p multiplies by 1/p, rounds to a whole number q, off the true quotient by at most
    1/2 + 2^-21, and subtracts p q: all exact below 2^53.
    The true y is at most 2^63 sum |c_k| in size. Coefficients for which twice that exceeds the product of the
    primes (2^116) are rejected, so that five residues determine y.

The stream is cut into blocks of B = R^3/2 ticks and the coefficients into segments as long. A block of y is
the sum over lags d of segment d times block j - d, added up before the one transform back. The time
depends on the shape of the data, never on the data.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints

Floats = npt.NDArray[np.float64]

PRIMES = (11_599_873, 11_468_801, 11_272_193, 10_223_617, 10_027_009)  # each 1 modulo 2^16
RADICES = (16, 32)
MAX_SUMMED_PRODUCTS = 200  # products of residues that add up, with the rest of a sum, to less than 2^53
MAX_DIRECT_PRODUCTS = 2**19  # products per group below which plain sums are as fast
MAX_CACHED_POINTS = 2**21  # points of transformed coefficients that are cached


def balance_residues(values: Floats, prime: int) -> Floats:
    """Balanced residues of whole numbers below 2^53, in place."""
    quotients = values * (1 / prime)
    np.rint(quotients, out=quotients)
    quotients *= prime
    values -= quotients
    return values


@dataclass(frozen=True)
class NumberTransform:
    """The transform of a cube of `radix`^3 points modulo `prime`, and its inverse.

    Point (a, b, c) of the data is number a R^2 + b R + c. Frequencies are left in the order in which they
    arise, which the inverse undoes.
    """

    prime: int
    radix: int

    @cached_property
    def root(self) -> int:
        """An element of order radix^3: its half power is -1."""
        p, points = self.prime, self.radix**3
        powers = (pow(a, (p - 1) // points, p) for a in range(2, p))
        return next(w for w in powers if pow(w, points // 2, p) == p - 1)

    @cached_property
    def tables(self) -> tuple[Floats, Floats, Floats]:
        return self._build_tables(self.root, 1)

    @cached_property
    def inverse_tables(self) -> tuple[Floats, Floats, Floats]:
        return self._build_tables(pow(self.root, -1, self.prime), pow(self.radix**3, -1, self.prime))

    def _build_tables(self, root: int, scale: int) -> tuple[Floats, Floats, Floats]:
        """For i, j, k < R: root^(R^2 i j), scale root^(R i j), and root^(j (i R + k))."""
        R, p, powers = self.radix, self.prime, np.ones(1, np.int64)
        while len(powers) < R**3:
            powers = np.concatenate([powers, powers * pow(root, len(powers), p) % p])
        i, j, k = np.ogrid[:R, :R, :R]
        exponents = R * R * i * j % R**3, R * i * j, j * (i * R + k)
        matrix, flat, cube = (powers[exponent].astype(np.float64) for exponent in exponents)
        return (
            balance_residues(matrix[:, :, 0], p),
            balance_residues(flat[:, :, 0] * scale, p),
            balance_residues(cube, p),
        )

    def forward(self, values: Floats) -> Floats:
        """Return the transform of points (..., rows, R, R); missing rows are zeros."""
        p, (matrix, flat, cube) = self.prime, self.tables
        values = balance_residues(matrix[:, : values.shape[-3]] @ values.swapaxes(-3, -2), p)
        values *= cube
        values = balance_residues(matrix @ balance_residues(values, p).swapaxes(-3, -2), p)
        values *= flat
        return balance_residues(balance_residues(values, p) @ matrix, p)

    def backward(self, values: Floats) -> Floats:
        """Return the first half of the points, (..., R/2, R, R)."""
        p, (matrix, flat, cube) = self.prime, self.inverse_tables
        values = balance_residues(values @ matrix, p)
        values *= flat
        values = balance_residues(matrix @ balance_residues(values, p), p).swapaxes(-3, -2)
        values = balance_residues(values * cube, p)
        return balance_residues(matrix[: self.radix // 2] @ values, p).swapaxes(-3, -2)


@lru_cache(maxsize=len(PRIMES) * len(RADICES))
def load_transform(prime: int, radix: int) -> NumberTransform:
    return NumberTransform(prime, radix)


class Convolution:
    """Convolves streams with fixed whole coefficients, exactly modulo 2^64."""

    def __init__(
        self, coefficients: Ints, primes: tuple[int, ...] = PRIMES, max_direct_products: int | None = None
    ) -> None:
        size, limit = sum_magnitudes(coefficients), prod(primes) >> 64
        if size >= limit:
            raise ValueError(f"coefficients must add up to less than {limit}, got {size}")
        self.coefficients = coefficients
        self.primes = primes
        self.max_direct_products = MAX_DIRECT_PRODUCTS if max_direct_products is None else max_direct_products
        self._reversed_coefficients = coefficients[::-1].copy()
        self._cached_segments: dict[tuple[int, int], list[Floats]] = {}

    def last_row(self, values: Ints) -> Ints:
        """Return the newest row of the convolution of all rows so far."""
        rows = min(len(values), len(self.coefficients))
        newest: Ints = (
            self._reversed_coefficients[len(self._reversed_coefficients) - rows :] @ values[len(values) - rows :]
        )
        return newest

    def rows(self, values: Ints, first: int) -> Ints:
        """Return rows from `first` of the convolution of `values` (ticks, width)."""
        ticks = len(values)
        if (ticks - first) * min(ticks, len(self.coefficients)) <= self.max_direct_products:
            newest = [self.last_row(values[: t + 1]) for t in range(first, ticks)]
            return np.stack(newest) if newest else np.zeros((0, values.shape[1]), np.int64)
        radix = next((r for r in RADICES if r**3 >= 2 * (ticks - first)), RADICES[-1])
        residues = [self._compute_residues(values, first, prime, radix) for prime in self.primes]
        return combine_residues(residues, self.primes)

    def _compute_residues(self, values: Ints, first: int, prime: int, radix: int) -> Floats:
        """Return the same rows modulo one prime.

        Blocks begin with row `first`, padded with zeros before row 0.
        """
        half, (ticks, width) = radix**3 // 2, values.shape
        before, blocks = -(-first // half), -(-(ticks - first) // half)
        padded = np.zeros((before + blocks, half, width))
        start = before * half - first
        padded.reshape(-1, width)[start : start + ticks] = values - values // prime * prime
        shaped = np.moveaxis(padded, 2, 1).reshape(before + blocks, width, radix // 2, radix, radix)
        transform = load_transform(prime, radix)
        spectra = [transform.forward(block) for block in shaped]
        segments = self._load_segments(prime, radix, before + blocks)
        out = np.empty((blocks, half, width))
        for j in range(blocks):
            total = sum_products(spectra[before + j :: -1], segments, prime)
            out[j] = transform.backward(total).reshape(width, half).T
        return out.reshape(-1, width)[: ticks - first]

    def _load_segments(self, prime: int, radix: int, count: int) -> list[Floats]:
        """Transformed segments; number d has the coefficients from (d - 1) B + 1 to (d + 1) B - 1."""
        half = radix**3 // 2
        cached = self._cached_segments.get((prime, radix), [])
        needed = min(count, -(-len(self.coefficients) // half) + 1)
        known = cached + [self._build_segment(prime, radix, lag) for lag in range(len(cached), needed)]
        if len(known) * half <= MAX_CACHED_POINTS:
            self._cached_segments[prime, radix] = known
        return known

    def _build_segment(self, prime: int, radix: int, lag: int) -> Floats:
        half = radix**3 // 2
        around = np.zeros(2 * half)
        begin = max(0, (lag - 1) * half)
        part = self.coefficients[begin : (lag + 1) * half]
        around[begin - (lag - 1) * half :][: len(part)] = part % prime
        points = np.roll(around, half).reshape(radix, radix, radix)
        return load_transform(prime, radix).forward(balance_residues(points, prime))


def sum_magnitudes(coefficients: Ints) -> int:
    """Return the sum of |c_k|, from two halves that cannot overflow."""
    magnitudes = np.abs(coefficients).view(np.uint64)
    high, low = magnitudes >> np.uint64(32), magnitudes & np.uint64(2**32 - 1)
    return (int(high.sum()) << 32) + int(low.sum())


def sum_products(spectra: list[Floats], segments: list[Floats], prime: int) -> Floats:
    """Return the sum of products, spectrum by segment, as residues."""
    total, scratch = np.zeros_like(spectra[0]), np.empty_like(spectra[0])
    for lag, (spectrum, segment) in enumerate(zip(spectra, segments, strict=False), start=1):
        np.multiply(spectrum, segment, out=scratch)
        total += scratch
        if lag % MAX_SUMMED_PRODUCTS == 0:
            balance_residues(total, prime)
    return balance_residues(total, prime)


def combine_residues(residues: list[Floats], primes: tuple[int, ...]) -> Ints:
    """Return the numbers with these residues, modulo 2^64.

    They are balanced digits in the mixed radix of the primes.
    """
    result = np.zeros(residues[0].shape, np.int64)
    digits: list[Floats] = []
    for i, (prime, residue) in enumerate(zip(primes, residues, strict=True)):
        digit = residue.copy()
        for digit_below, below in zip(digits, primes, strict=False):
            digit -= digit_below
            digit *= balance_residues(np.array([float(pow(below, -1, prime))]), prime)
            balance_residues(digit, prime)
        digits.append(digit)
        result += digit.astype(np.int64) * np.uint64(prod(primes[:i]) % 2**64).astype(np.int64)
    return result
