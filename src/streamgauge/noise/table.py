"""The table of one law: what the first 16 bits of a draw decide, and what it takes to decide the rest.

`codes[u]` is the bucket of every uniform that starts with the 16 bits u, if that is a rectangle and no bound
between outcomes falls into the cell; otherwise SLOW. A SLOW draw is given 48 more bits and looked up
between the certified floors of the bounds; what is undecided even then is left to `exact.resolve`.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streamgauge.noise.buckets import Cut, Row, bucket, bucket_shift, start
from streamgauge.noise.enclosure import exp_minus
from streamgauge.noise.laws import POINT, Ints, Law

CELL_BITS = 16
WORD_BITS = 64
PRECISION = 104
TAIL = 22  # nepers: what lies beyond is left to integers of unlimited length
SLOW = -(1 << 15)
ONE = 1 << 30  # the unit of fixed-point numbers in the wedge

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Table:
    """All that drawing from one law needs. Immutable, holds no randomness."""

    cut: Cut
    codes: npt.NDArray[np.int16]
    floors: Words  # of the low end of every enclosed bound, in 2^-64
    ceilings: Words  # of the high end
    buckets: Ints  # of every outcome in the row
    wedge_start: Ints  # per bucket of the row: 2 a/s, see `wedge`
    wedge_rise: Ints  # f(a + s) - f(a)
    wedge_mean: Ints  # (1 - exp(-rise)) / rise


def inner_buckets(law: Law, shift: int) -> int:
    """How many buckets have a weight above exp(-TAIL); an even number."""
    low, high = 1, 2
    while law.exponent(start(bucket(high), shift)) < TAIL:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        inside = law.exponent(start(bucket(middle), shift)) < TAIL
        low, high = (middle, high) if inside else (low, middle)
    return high + high % 2


@lru_cache(maxsize=256)
def table(law: Law) -> Table:
    """Builds, once for each law, the certified table."""
    shift = bucket_shift(law)
    inner = inner_buckets(law, shift)
    cut = Cut(law, shift, inner)
    outcomes = inner if shift == 0 else 2 * inner
    bounds = Row(cut, PRECISION).bounds(WORD_BITS, outcomes)
    floors = np.array([bound.low for bound in bounds], np.uint64)
    ceilings = np.array([bound.high for bound in bounds], np.uint64)
    places = np.array([bucket(index) for index in range(inner)], np.int64)
    buckets = np.tile(places, outcomes // inner)
    codes = cells(floors, ceilings, buckets[:inner])
    return Table(cut, codes, floors, ceilings, buckets, *wedges(cut))


def cells(floors: Words, ceilings: Words, rectangles: Ints) -> npt.NDArray[np.int16]:
    """The code of every 16-bit prefix: decided when as many bounds are surely below its cell as may be in
    it or below."""
    first = np.arange(1 << CELL_BITS, dtype=np.uint64) << np.uint64(WORD_BITS - CELL_BITS)
    last = first | np.uint64((1 << (WORD_BITS - CELL_BITS)) - 1)
    outcome = np.searchsorted(ceilings, first, side="left")
    sure = (outcome == np.searchsorted(floors, last, side="right")) & (outcome < len(rectangles))
    return np.where(sure, np.append(rectangles, SLOW)[outcome * sure], SLOW).astype(np.int16)


def wedges(cut: Cut) -> tuple[Ints, Ints, Ints]:
    """The fixed-point constants of every bucket's wedge, each rounded down."""
    if cut.shift == 0:
        return (np.zeros(0, np.int64),) * 3
    numbers = [bucket(index) for index in range(cut.inner)]
    starts = [(2 * start(number, cut.shift) << POINT) >> cut.shift for number in numbers]
    rises = [cut.rise(number, 1 << cut.shift) for number in numbers]
    constants = {rise: wedge_constants(rise) for rise in set(rises)}
    rows = np.array([constants[rise] for rise in rises], np.int64)
    return np.array(starts, np.int64), rows[:, 0].copy(), rows[:, 1].copy()


def wedge_constants(rise: Fraction) -> tuple[int, int]:
    """The rise d of a bucket and (1 - exp(-d))/d. The sampler's proof wants d < 1/2, and TYPICAL sees to
    it."""
    if not rise < Fraction(1, 2):
        raise ArithmeticError(f"rise must be below 1/2, got {rise}")
    fall = (1 << PRECISION) - exp_minus(rise, PRECISION).high
    return int(rise * ONE), fall * ONE * rise.denominator // (rise.numerator << PRECISION)
