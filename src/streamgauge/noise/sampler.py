"""Exact draws from a discrete law, vectorised over lanes.

Relative to ideal bits, P(k) is the mathematical probability. Most draws cost one lookup: 16 bits choose a
rectangle, raw low bits the position in it. A draw that 16 bits do not decide, or that falls into a wedge, gets
48 more bits and an integer comparison with a proven error. About one draw in 10^8 is still undecided. Integers
of unlimited length decide it.

All arithmetic is on integers. An operation on 64-bit integers never mixes signs: NumPy converts int64 and
uint64 together to float64, which drops bits beyond 53. Every array that holds bits of a draw is overwritten
before it is freed. No operation casts its operands, since NumPy would leave a copy.

The wedge
    Let l be the part of the bucket passed, d the bucket's rise in exponent, and rho = rho(l) the part of the
    rise passed. Let h(x) = (1 - exp(-x))/x = 1 - x/2 (1 - x/3 (1 - ...)). A draw is accepted iff
    V h(d) > rho h(rho d), V uniform. In fixed point, l has 24 places and all else 30.
    Errors, in units of 2^-30: l is short by less than 2^-24, which moves rho by less than 2, the start by
    1/4 and the floor by 1 such step, 208 units in all. rho d is off by 208 d + 2 < 106 for d < 1/2.
    h, whose slope is at most 1/2, is off by 53, and by 5 for Horner's floors and the series cut after x^9.
    So the right side is off by less than 270, the left by 3. Differences beyond WEDGE_MARGIN = 512 are
    certain.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from streamgauge.memory import WipedArrays
from streamgauge.noise.bernoulli import STEP_BITS, draw_below
from streamgauge.noise.entropy import Entropy, draw_bits, draw_bytes
from streamgauge.noise.sampler_table import (
    FIXED_POINT_ONE,
    POSITION_BITS,
    SLOW_CODE,
    BucketPartition,
    Enclosure,
    Ints,
    OutcomeMasses,
    SamplerTable,
    Words,
    bucket_at,
    enclose_exp_minus,
)

GUARD_PRECISION_BITS = 48
INT64_RANGE = 1 << 64


def wrap_int64(value: int) -> int:
    """Return `value` modulo 2^64 as int64; wrapping is post-processing."""
    return (value + INT64_RANGE // 2) % INT64_RANGE - INT64_RANGE // 2


def resolve_outcome(partition: BucketPartition, prefix: int, entropy: Entropy) -> tuple[int, int]:
    """Return place and bucket of the uniform that starts with 64 bits `prefix`.

    The uniform and the bounds are refined until they are apart. The tail is followed as far as that takes.
    """
    known = STEP_BITS
    while True:
        bounds = OutcomeMasses(partition, known + GUARD_PRECISION_BITS).bounds(known)
        least = bisect_left(bounds, prefix, key=lambda bound: bound.high)
        most = bisect_right(bounds, prefix, key=lambda bound: bound.low)
        if least == most < len(bounds):
            whole = partition.shift == 0 or least < partition.inner_count
            return least, bucket_at(least if whole else least - partition.inner_count)
        prefix = prefix << STEP_BITS | draw_bits(entropy, STEP_BITS)
        known += STEP_BITS


def enclose_fall(exponent: Fraction, bits: int) -> Enclosure:
    """Enclose 1 - exp(-exponent)."""
    low, high = enclose_exp_minus(exponent, bits)
    return Enclosure((1 << bits) - high, (1 << bits) - low)


@dataclass(frozen=True)
class BucketPosition:
    """A place in a bucket, `offset` counted outwards from its start."""

    partition: BucketPartition
    number: int
    offset: int

    def is_rejected_by_wedge(self, entropy: Entropy, prefix: int = 0, known_bits: int = 0) -> bool:
        """Return True with probability (1 - exp(-rise so far)) / (1 - exp(-whole rise)).

        The point then lies above the curve.
        """
        so_far = self.partition.rise(self.number, self.offset)
        whole = self.partition.rise(self.number, 1 << self.partition.shift)

        def enclose_probability(bits: int) -> Enclosure:
            inside = bits + GUARD_PRECISION_BITS + STEP_BITS
            part, all_of_it = enclose_fall(so_far, inside), enclose_fall(whole, inside)
            return Enclosure((part.low << bits) // all_of_it.high, (part.high << bits) // max(all_of_it.low, 1) + 1)

        return draw_below(enclose_probability, entropy, prefix, known_bits)

    def is_rejected_by_tail(self, entropy: Entropy) -> bool:
        """Return True with probability 1 - exp(-rise so far)."""
        so_far = self.partition.rise(self.number, self.offset)
        return not draw_below(lambda bits: enclose_exp_minus(so_far, bits), entropy)


def resolve_draw(partition: BucketPartition, prefix: int, low: int, entropy: Entropy) -> int | None:
    """Return the draw for a prefix and low bits modulo 2^64, None if rejected."""
    place, number = resolve_outcome(partition, prefix, entropy)
    here = BucketPosition(partition, number, low if number >= 0 else (1 << partition.shift) - 1 - low)
    if partition.shift > 0 and place >= 2 * partition.inner_count and here.is_rejected_by_tail(entropy):
        return None
    if (
        partition.shift > 0
        and partition.inner_count <= place < 2 * partition.inner_count
        and here.is_rejected_by_wedge(entropy)
    ):
        return None
    return wrap_int64((number << partition.shift) + low)


CHUNK_LANES = 1 << 15
WEDGE_MARGIN = 512
SERIES_TERMS = 10


def fill_draws(table: SamplerTable, entropy: Entropy, out: Ints) -> None:
    """Overwrite `out` with independent draws; redraw rejected lanes."""
    firsts = range(0, len(out), CHUNK_LANES)
    again = [first + draw_chunk(table, entropy, out[first : first + CHUNK_LANES]) for first in firsts]
    rejected = np.concatenate(again) if again else np.empty(0, np.int64)
    if len(rejected):
        with WipedArrays() as secret:
            fresh = secret(np.empty(len(rejected), np.int64))
            fill_draws(table, entropy, fresh)
            out[rejected] = fresh


def draw_low_bits(table: SamplerTable, entropy: Entropy, size: int) -> npt.NDArray[np.unsignedinteger]:
    """Draw `size` uniform numbers of `shift` bits."""
    width = next(width for width in (1, 2, 4, 8) if table.partition.shift <= 8 * width)
    raw = draw_bytes(entropy, width * size).view(f"u{width}")
    raw &= raw.dtype.type((1 << table.partition.shift) - 1)
    return raw


def draw_chunk(table: SamplerTable, entropy: Entropy, out: Ints) -> Ints:
    """Draw for every lane of `out`; return the rejected lanes."""
    with WipedArrays() as secret:
        prefix = secret(draw_bytes(entropy, 2 * len(out)).view(np.uint16))
        wide, codes = secret(np.empty(len(out), np.int64)), secret(np.empty(len(out), np.int16))
        wide[:] = prefix
        np.take(table.codes, wide, out=codes, mode="clip")
        slow = np.flatnonzero(codes == SLOW_CODE)
        out[:] = codes
        wide.fill(0)
        if table.partition.shift > 0:
            wide[:] = secret(draw_low_bits(table, entropy, len(out)))
            out <<= table.partition.shift
            out |= wide
        word = secret(secret(prefix[slow]).astype(np.uint64))
        word <<= np.uint64(48)
        more = secret(draw_bytes(entropy, 8 * len(slow)).view(np.uint64))
        more >>= np.uint64(16)
        word |= more
        accepted, values = _decide_slow_lanes(table, entropy, word, secret(wide[slow]))
        out[slow] = secret(values)
    return slow[~accepted]


def _decide_slow_lanes(
    table: SamplerTable, entropy: Entropy, word: Words, offset: Ints
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Decide lanes by 64 bits, including the wedge."""
    with WipedArrays() as secret:
        place = secret(np.searchsorted(table.ceilings, word, side="left"))
        most = secret(np.searchsorted(table.floors, word, side="right"))
        sure = (place == most) & (place < len(table.ceilings))
        place[~sure] = 0
        values = table.buckets[place]
        values <<= table.partition.shift
        values += offset
        accepted = np.ones(len(word), np.bool_)
        wedge = np.flatnonzero(place >= table.partition.inner_count)
        if len(wedge):
            here = secret(place[wedge])
            here -= table.partition.inner_count
            accepted[wedge] = ~reject_wedge(table, entropy, here, secret(offset[wedge]))
    for lane in np.flatnonzero(~sure):
        value = resolve_draw(table.partition, int(word[lane]), int(offset[lane]), entropy)
        accepted[lane] = value is not None
        values[lane] = value or 0
    return accepted, values


def reject_wedge(table: SamplerTable, entropy: Entropy, place: Ints, offset: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each lane of a wedge lies above the curve; see the module's proof."""
    with WipedArrays() as secret:
        number = secret(table.buckets[place])
        inwards = secret(number >> 63)
        inwards &= (1 << table.partition.shift) - 1
        inwards ^= offset  # counted from the other end in buckets below zero
        rho = secret(_progress(table, place, inwards))
        mean = secret(_mean(table, place, rho))
        raw = secret(draw_bytes(entropy, 4 * len(place)).view(np.uint32))
        raw >>= np.uint32(1)
        uniform = secret(raw.astype(np.int64))
        margin = secret(uniform * secret(table.wedge_mean[place]))
        margin >>= 31
        rho *= mean
        rho >>= 30
        margin -= rho
        dropped: npt.NDArray[np.bool_] = margin < 0
        for lane in np.flatnonzero((margin <= WEDGE_MARGIN) & (margin >= -WEDGE_MARGIN)):
            here = BucketPosition(table.partition, int(number[lane]), int(inwards[lane]))
            dropped[lane] = here.is_rejected_by_wedge(entropy, int(uniform[lane]), 31)
    return dropped


def _progress(table: SamplerTable, place: Ints, inwards: Ints) -> Ints:
    """rho to 30 places."""
    fine = table.partition.shift - POSITION_BITS
    with WipedArrays() as secret:
        part = secret(inwards >> fine if fine > 0 else inwards << -fine)
        rho = secret(table.partition.law.progress(part, secret(table.wedge_start[place])))
        return rho << (30 - POSITION_BITS)


def _mean(table: SamplerTable, place: Ints, rho: Ints) -> Ints:
    """h(rho d) to 30 places, by Horner's rule."""
    with WipedArrays() as secret:
        x = secret(rho * secret(table.wedge_rise[place]))
        x >>= 30
        mean = np.full(len(x), FIXED_POINT_ONE)
        for n in range(SERIES_TERMS, 1, -1):
            mean *= x
            mean >>= 30
            mean //= n
            np.subtract(FIXED_POINT_ONE, mean, out=mean)
    return mean
