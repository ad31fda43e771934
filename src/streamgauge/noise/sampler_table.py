"""The table of one law: outcomes, their certified bounds, and codes of 16 bits.

Laws
    P(k) is proportional to exp(-f(|k|)). Laplace has f(m) = m / scale, the Gaussian f(m) = m^2 / (2 variance).
    Both exponents are rational and have a constant second difference. The sampler uses nothing else.

Enclosures
    An `Enclosure` (low, high) at `bits` states low <= 2^bits x <= high. It uses Python integers only, every
    rounding is outwards, and any precision is available. So a comparison with an enclosure is either
    certain or known to be undecided. No float takes part.

Outcomes
    The integers are cut into buckets of width s = 2^shift, numbered ..., -2, -1, 0, 1, ...: bucket c holds
    x = c s + 0 ... c s + s - 1. On either side of zero the magnitudes of bucket c run from its start
    a = c s (c >= 0) or a = (-1 - c) s + 1 (c < 0) to a + s - 1. The density falls from w = exp(-f(a))
    to no less than v = exp(-f(a + s)), the top of the next bucket:

    w  +-.                 area above the curve: drawn, then rejected
       |  `-.   wedge      mass s (w - v): accept x with probability (exp(-f(x)) - v) / (w - v)
    v  +-----`---          rectangle: mass s v, every x of the bucket alike, accepted at once
       |         |
       a        a + s

    An outcome is a rectangle or a wedge. Given either, x is uniform over its bucket. Buckets of width 1
    have no wedge, and their rectangle is the point itself, of mass w. The outcomes stand in one row:

    rectangles of buckets 0, -1, 1, -2, 2, ...; wedges of the same; then the tail: all later buckets, whole

    The bounds of outcome j are the partial sums of mass divided by the total, enclosed by integers.
    The tail is never cut. Higher precision follows it further out.

Codes
    `codes[u]` is the bucket of every uniform that starts with the 16 bits u, if that is a rectangle and no bound
    between outcomes falls into the cell. Otherwise it is SLOW_CODE. A slow draw gets 48 more bits and is looked
    up between the certified floors of the bounds. `sampler.resolve_outcome` decides the rest.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

REDUCTION_BITS = 8
GUARD_BITS = 48


class Enclosure(NamedTuple):
    """low <= 2^bits x <= high, for the `bits` that the caller requested."""

    low: int
    high: int


def enclose_product(x: Enclosure, y: Enclosure, bits: int) -> Enclosure:
    """Enclose x y for nonnegative x and y."""
    return Enclosure(x.low * y.low >> bits, -(-x.high * y.high >> bits))


def enclose_exp_minus(exponent: Fraction, bits: int) -> Enclosure:
    """Enclose exp(-exponent), exponent >= 0, with high - low <= 2 at any precision.

    Proof. Beyond `bits` the value is below e^-bits < 2^-bits. Else let w = bits + h + GUARD_BITS be the working
    precision, y = exponent / 2^h < 2^-REDUCTION_BITS and Y = floor(2^w y). Replacing y by Y/2^w moves exp(-y) by
    less than 2^-w. The terms T_n = floor(T_(n-1) Y / (n 2^w)) are each less than 2 units low. After the
    first that is 0 the rest sums to less than 2. So N terms are off by less than 2 N + 4 units. Squaring h
    times, rounded outwards, at most doubles a width and adds 2. So the width stays below 2^(h+1) (4 N + 12)
    units. GUARD_BITS makes that less than one unit of 2^-bits for every `bits` below 2^40.
    """
    if exponent > bits:
        return Enclosure(0, 1)
    halvings = int(exponent).bit_length() + REDUCTION_BITS
    work = bits + halvings + GUARD_BITS
    y = (exponent.numerator << work) // (exponent.denominator << halvings)
    total = term = 1 << work
    count = 0
    while term:
        count += 1
        term = term * y // (count << work)
        total += -term if count % 2 else term
    slack = 2 * count + 4
    low, high = max(total - slack, 0), min(total + slack, 1 << work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return Enclosure(low >> (work - bits), -(-high >> (work - bits)))


Ints = npt.NDArray[np.int64]

POSITION_BITS = 24  # binary places of the fixed-point position inside a bucket
MAX_PARAMETER = 1 << 54  # beyond it a bucket and its low bits would not fit 63 bits


@dataclass(frozen=True)
class LaplaceLaw:
    """f(m) = m / scale."""

    scale: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.scale <= MAX_PARAMETER:
            raise ValueError(f"scale must be positive and at most 2**54, got {self.scale}")

    def __hash__(self) -> int:
        return hash(("laplace", self.scale.numerator, self.scale.denominator))

    @property
    def spread(self) -> int:
        """The standard deviation, or so, rounded down."""
        return int(self.scale)

    def exponent(self, magnitude: int) -> Fraction:
        return magnitude / self.scale

    def progress(self, part: Ints, start: Ints) -> Ints:
        """Return the share of a bucket's rise in exponent after `part` of its width: rho = part, as it is linear."""
        return part


@dataclass(frozen=True)
class GaussianLaw:
    """f(m) = m^2 / (2 variance)."""

    variance: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.variance <= MAX_PARAMETER**2:
            raise ValueError(f"variance must be positive and at most 2**108, got {self.variance}")

    def __hash__(self) -> int:
        return hash(("gaussian", self.variance.numerator, self.variance.denominator))

    @property
    def spread(self) -> int:
        return isqrt(int(self.variance))

    def exponent(self, magnitude: int) -> Fraction:
        return magnitude * magnitude / (2 * self.variance)

    def progress(self, part: Ints, start: Ints) -> Ints:
        """Return rho = l (l + 2 a) / (1 + 2 a).

        The bucket starts a widths from 0, and `start` is 2 a.
        """
        return part * (part + start) // (start + (1 << POSITION_BITS))


Law = LaplaceLaw | GaussianLaw  # symmetric, with a rational exponent of constant second difference
MAX_SPREAD_BITS = 7  # the spread of a law is below 2^7 buckets
NEGLIGIBLE_BITS = 24  # weights are followed down to 2^24 units of the precision at hand


def bucket_at(index: int) -> int:
    """Return the bucket at place `index` of the row 0, -1, 1, -2, 2, ..."""
    return index >> 1 if index % 2 == 0 else -1 - (index >> 1)


def bucket_start(number: int, shift: int) -> int:
    """Return the smallest magnitude in a bucket."""
    return number << shift if number >= 0 else (~number << shift) + 1


@dataclass(frozen=True)
class BucketPartition:
    """A law, the width 2^shift of its buckets, and the number of split buckets.

    A split bucket has a rectangle and a wedge.
    """

    law: Law
    shift: int
    inner_count: int

    def rise(self, number: int, offset: int) -> Fraction:
        """Return the growth of the exponent over the first `offset` places of a bucket."""
        first = bucket_start(number, self.shift)
        return self.law.exponent(first + offset) - self.law.exponent(first)


@dataclass(frozen=True)
class SideWeights:
    """Weights exp(-f(a)) of the buckets on one side of zero, outwards.

    Includes a bound on all that follow.
    """

    weights: list[Enclosure]
    rest_bound: int

    def pad(self, count: int) -> list[Enclosure]:
        """Return the first `count` weights, the last one repeated: f never falls."""
        missing = count - len(self.weights)
        return self.weights + [Enclosure(0, self.weights[-1].high)] * missing


def build_side(partition: BucketPartition, first: int, bits: int) -> SideWeights:
    """Compute weights by recurrence, until they are below 2^NEGLIGIBLE_BITS units.

    The ratio of neighbours falls by a constant factor, since the second difference of f is constant. So all that
    follows a weight w is at most w r/(1 - r), with r the ratio of the next weight to w.
    """
    f0, f1, f2 = (partition.law.exponent(first + (i << partition.shift)) for i in range(3))
    weight, ratio, change = (enclose_exp_minus(f, bits) for f in (f0, f1 - f0, f2 - 2 * f1 + f0))
    weights = [weight]
    while weight.high > 1 << NEGLIGIBLE_BITS:
        weight, ratio = enclose_product(weight, ratio, bits), enclose_product(ratio, change, bits)
        weights.append(weight)
    return SideWeights(weights, -(-weight.high * ratio.high // ((1 << bits) - ratio.high)))


@dataclass(frozen=True)
class OutcomeMasses:
    """The masses of one law at one precision.

    The first `inner_count` buckets are split in rectangles and wedges.
    """

    partition: BucketPartition
    bits: int

    @cached_property
    def sides(self) -> tuple[SideWeights, SideWeights]:
        return build_side(self.partition, 0, self.bits), build_side(self.partition, 1, self.bits)

    @cached_property
    def weights(self) -> list[Enclosure]:
        """exp(-f(start)) of buckets 0, -1, 1, ..., until negligible at this precision."""
        count = max(self.partition.inner_count // 2 + 1, *(len(one.weights) for one in self.sides))
        pairs = zip(*(one.pad(count) for one in self.sides), strict=True)
        return [weight for pair in pairs for weight in pair]

    @cached_property
    def total(self) -> Enclosure:
        """Encloses the sum of all weights, those not listed included."""
        low = sum(weight.low for weight in self.weights)
        high = sum(weight.high for weight in self.weights)
        return Enclosure(low, high + sum(one.rest_bound for one in self.sides))

    def masses(self) -> list[Enclosure]:
        """Return the row of outcomes: rectangles, wedges, tail."""
        weights, inner = self.weights, self.partition.inner_count
        if self.partition.shift == 0:
            return weights
        tops, nexts = weights[:inner], weights[2 : inner + 2]
        wedges = [Enclosure(max(w.low - v.high, 0), w.high - v.low) for w, v in zip(tops, nexts, strict=True)]
        return nexts + wedges + weights[inner:]

    def bounds(self, places: int, count: int | None = None) -> list[Enclosure]:
        """Return floors of 2^places times the enclosed upper bounds of outcomes.

        The first `count` outcomes are meant, or all.
        """
        masses, (least, most) = self.masses()[:count], self.total
        lows = accumulate(mass.low for mass in masses)
        highs = accumulate(mass.high for mass in masses)
        top = (1 << places) - 1
        return [
            Enclosure((low << places) // most, min((high << places) // least, top))
            for low, high in zip(lows, highs, strict=True)
        ]


CELL_BITS = 16
WORD_BITS = 64
TABLE_BITS = 104
TAIL_NEPERS = 22  # nepers: what lies beyond is left to integers of unlimited length
SLOW_CODE = -(1 << 15)
FIXED_POINT_ONE = 1 << 30  # the unit of fixed-point numbers in the wedge

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class SamplerTable:
    """All that drawing from one law needs. Immutable, holds no randomness."""

    partition: BucketPartition
    codes: npt.NDArray[np.int16]
    floors: Words  # of the low end of every enclosed bound, in 2^-64
    ceilings: Words  # of the high end
    buckets: Ints  # of every outcome in the row
    wedge_start: Ints  # per bucket of the row: 2 a/s, see `wedge`
    wedge_rise: Ints  # f(a + s) - f(a)
    wedge_mean: Ints  # (1 - exp(-rise)) / rise


def count_inner_buckets(law: Law, shift: int) -> int:
    """Return how many buckets have a weight above exp(-TAIL_NEPERS); an even number."""
    low, high = 1, 2
    while law.exponent(bucket_start(bucket_at(high), shift)) < TAIL_NEPERS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        inside = law.exponent(bucket_start(bucket_at(middle), shift)) < TAIL_NEPERS
        low, high = (middle, high) if inside else (low, middle)
    return high + high % 2


@lru_cache(maxsize=256)
def build_table(law: Law) -> SamplerTable:
    """Build, once for each law, the certified table."""
    shift = max(0, law.spread.bit_length() - MAX_SPREAD_BITS)  # wedges and number of buckets are both small
    inner = count_inner_buckets(law, shift)
    cut = BucketPartition(law, shift, inner)
    outcomes = inner if shift == 0 else 2 * inner
    bounds = OutcomeMasses(cut, TABLE_BITS).bounds(WORD_BITS, outcomes)
    floors = np.array([bound.low for bound in bounds], np.uint64)
    ceilings = np.array([bound.high for bound in bounds], np.uint64)
    places = np.array([bucket_at(index) for index in range(inner)], np.int64)
    buckets = np.tile(places, outcomes // inner)
    codes = build_cells(floors, ceilings, buckets[:inner])
    return SamplerTable(cut, codes, floors, ceilings, buckets, *build_wedges(cut))


def build_cells(floors: Words, ceilings: Words, rectangles: Ints) -> npt.NDArray[np.int16]:
    """Return the code of every 16-bit prefix.

    A cell is decided if as many bounds are surely below it as may be in it or below.
    """
    first = np.arange(1 << CELL_BITS, dtype=np.uint64) << np.uint64(WORD_BITS - CELL_BITS)
    last = first | np.uint64((1 << (WORD_BITS - CELL_BITS)) - 1)
    outcome = np.searchsorted(ceilings, first, side="left")
    sure = (outcome == np.searchsorted(floors, last, side="right")) & (outcome < len(rectangles))
    return np.where(sure, np.append(rectangles, SLOW_CODE)[outcome * sure], SLOW_CODE).astype(np.int16)


def build_wedges(partition: BucketPartition) -> tuple[Ints, Ints, Ints]:
    """Return the fixed-point constants of every bucket's wedge, each rounded down."""
    if partition.shift == 0:
        return (np.zeros(0, np.int64),) * 3
    numbers = [bucket_at(index) for index in range(partition.inner_count)]
    starts = [(2 * bucket_start(number, partition.shift) << POSITION_BITS) >> partition.shift for number in numbers]
    rises = [partition.rise(number, 1 << partition.shift) for number in numbers]
    constants = {rise: wedge_constants(rise) for rise in set(rises)}
    rows = np.array([constants[rise] for rise in rises], np.int64)
    return np.array(starts, np.int64), rows[:, 0].copy(), rows[:, 1].copy()


def wedge_constants(rise: Fraction) -> tuple[int, int]:
    """Return the rise d of a bucket and (1 - exp(-d))/d.

    The sampler's proof needs d < 1/2, which MAX_SPREAD_BITS ensures.
    """
    if not rise < Fraction(1, 2):
        raise ArithmeticError(f"rise must be below 1/2, got {rise}")
    fall = (1 << TABLE_BITS) - enclose_exp_minus(rise, TABLE_BITS).high
    return int(rise * FIXED_POINT_ONE), fall * FIXED_POINT_ONE * rise.denominator // (rise.numerator << TABLE_BITS)
