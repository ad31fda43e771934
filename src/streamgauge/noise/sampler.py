"""Draws from a law, vectorised over lanes and exact: relative to ideal bits, P(k) is the mathematical one.

Most draws cost one lookup: 16 bits choose a rectangle, raw low bits the place in it. The few whose 16 bits
do not decide, or that fall into a wedge, are gathered and taken further: 48 more bits, an integer
comparison with a proven error, and for what is undecided then (about one draw in 10^8) integers of
unlimited length.

Every loop runs over integers: 64 bits meet only 64 bits of the same sign, since NumPy takes int64 and uint64
together to float64 and drops what is beyond 53 bits. Every array that holds bits of a draw is overwritten
before it is let go, and nothing is cast inside an operation, where NumPy would leave a copy.

The wedge. With l the part of the bucket passed, d the bucket's rise in exponent, rho = rho(l) the part of
the rise passed, and h(x) = (1 - exp(-x))/x = 1 - x/2 (1 - x/3 (1 - ...)), a draw is kept iff V h(d) > rho
h(rho d), V uniform. In fixed point: l to 24 places, all else to 30. Errors, in units of 2^-30: l is short
by less than 2^-24, which moves rho by less than 2, the start by 1/4 and the floor by 1 such step, 208 units
in all; rho d by 208 d + 2 < 106 for d < 1/2; h, whose slope is at most 1/2, by 53, with 5 for Horner's
floors and the series cut after x^9; the right side so by less than 270, the left by 3. Differences beyond
MARGIN = 512 are certain.
"""

import numpy as np
import numpy.typing as npt

from streamgauge.noise.entropy import Bytes, Entropy, Wiped
from streamgauge.noise.exact import Place, settle
from streamgauge.noise.laws import POINT, Ints
from streamgauge.noise.table import ONE, SLOW, Table, Words

CHUNK = 1 << 15
MARGIN = 512
TERMS = 10


def draw(table: Table, entropy: Entropy, out: Ints) -> None:
    """Overwrites `out` with independent draws; rejected lanes are drawn again until none is left."""
    firsts = range(0, len(out), CHUNK)
    again = [first + _chunk(table, entropy, out[first : first + CHUNK]) for first in firsts]
    rejected = np.concatenate(again) if again else np.empty(0, np.int64)
    if len(rejected):
        with Wiped() as secret:
            fresh = secret(np.empty(len(rejected), np.int64))
            draw(table, entropy, fresh)
            out[rejected] = fresh


def low_bits(table: Table, entropy: Entropy, size: int) -> npt.NDArray[np.unsignedinteger]:
    """`size` uniform numbers of `shift` bits."""
    width = next(width for width in (1, 2, 4, 8) if table.cut.shift <= 8 * width)
    raw = fresh_bytes(entropy, width * size).view(f"u{width}")
    raw &= raw.dtype.type((1 << table.cut.shift) - 1)
    return raw


def fresh_bytes(entropy: Entropy, size: int) -> Bytes:
    out = np.empty(size, np.uint8)
    entropy.fill(out)
    return out


def _chunk(table: Table, entropy: Entropy, out: Ints) -> Ints:
    """Draws for every lane of `out`; returns the lanes that were rejected and must be drawn again."""
    with Wiped() as secret:
        prefix = secret(fresh_bytes(entropy, 2 * len(out)).view(np.uint16))
        wide, codes = secret(np.empty(len(out), np.int64)), secret(np.empty(len(out), np.int16))
        wide[:] = prefix
        np.take(table.codes, wide, out=codes, mode="clip")
        slow = np.flatnonzero(codes == SLOW)
        out[:] = codes
        wide.fill(0)
        if table.cut.shift > 0:
            wide[:] = secret(low_bits(table, entropy, len(out)))
            out <<= table.cut.shift
            out |= wide
        word = secret(secret(prefix[slow]).astype(np.uint64))
        word <<= np.uint64(48)
        more = secret(fresh_bytes(entropy, 8 * len(slow)).view(np.uint64))
        more >>= np.uint64(16)
        word |= more
        kept, values = _slow(table, entropy, word, secret(wide[slow]))
        out[slow] = secret(values)
    return slow[~kept]


def _slow(table: Table, entropy: Entropy, word: Words, offset: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Decides lanes by 64 bits, the wedge included."""
    with Wiped() as secret:
        place = secret(np.searchsorted(table.ceilings, word, side="left"))
        most = secret(np.searchsorted(table.floors, word, side="right"))
        sure = (place == most) & (place < len(table.ceilings))
        place[~sure] = 0
        values = table.buckets[place]
        values <<= table.cut.shift
        values += offset
        kept = np.ones(len(word), np.bool_)
        wedge = np.flatnonzero(place >= table.cut.inner)
        if len(wedge):
            here = secret(place[wedge])
            here -= table.cut.inner
            kept[wedge] = ~_dropped(table, entropy, here, secret(offset[wedge]))
    for lane in np.flatnonzero(~sure):
        value = settle(table.cut, int(word[lane]), int(offset[lane]), entropy)
        kept[lane] = value is not None
        values[lane] = value or 0
    return kept, values


def _dropped(table: Table, entropy: Entropy, place: Ints, offset: Ints) -> npt.NDArray[np.bool_]:
    """Whether each lane of a wedge lies above the curve; see the module's proof."""
    with Wiped() as secret:
        number = secret(table.buckets[place])
        inwards = secret(number >> 63)
        inwards &= (1 << table.cut.shift) - 1
        inwards ^= offset  # counted from the other end in buckets below zero
        rho = secret(_progress(table, place, inwards))
        mean = secret(_mean(table, place, rho))
        raw = secret(fresh_bytes(entropy, 4 * len(place)).view(np.uint32))
        raw >>= np.uint32(1)
        uniform = secret(raw.astype(np.int64))
        margin = secret(uniform * secret(table.wedge_mean[place]))
        margin >>= 31
        rho *= mean
        rho >>= 30
        margin -= rho
        dropped: npt.NDArray[np.bool_] = margin < 0
        for lane in np.flatnonzero((margin <= MARGIN) & (margin >= -MARGIN)):
            here = Place(table.cut, int(number[lane]), int(inwards[lane]))
            dropped[lane] = here.dropped_from_wedge(entropy, int(uniform[lane]), 31)
    return dropped


def _progress(table: Table, place: Ints, inwards: Ints) -> Ints:
    """rho to 30 places."""
    fine = table.cut.shift - POINT
    with Wiped() as secret:
        part = secret(inwards >> fine if fine > 0 else inwards << -fine)
        rho = secret(table.cut.law.progress(part, secret(table.wedge_start[place])))
        return rho << (30 - POINT)


def _mean(table: Table, place: Ints, rho: Ints) -> Ints:
    """h(rho d) to 30 places, by Horner's rule."""
    with Wiped() as secret:
        x = secret(rho * secret(table.wedge_rise[place]))
        x >>= 30
        mean = np.full(len(x), ONE)
        for n in range(TERMS, 1, -1):
            mean *= x
            mean >>= 30
            mean //= n
            np.subtract(ONE, mean, out=mean)
    return mean
