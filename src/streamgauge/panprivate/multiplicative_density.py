"""Multiplicative density: how many of a universe have come, to within a factor even if they are few.

The error of a density is about that of the square root of its table's size, whoever came: hopeless for a
thousand users of ten million. So there are several tables, each `shrink` times smaller than the one before,
down to `smallest` entries, and users are hashed into each. In a small table few users stand out; in a large
one many do not collide. The estimate is the number of users that is likeliest by all of them (`likeliest`).

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `table_claim`. A user has an entry in each of the tables, at entry_epsilon =
    state_loss/tables, and moves the ones of every table by 1 at most: all are released under noise for a
    share of the loss each (`own_chance`; half of it with `replace`). What they tell together is worked out
    from what was released.

Error
    No number below 0 is likely, nor above 1 unless hashed, so that where errors are as large as the truth the
    estimate is not quite unbiased; `stddev` is the root mean square error all the same, to within a
    twentieth: all that bits, noise, shared cells and those ends do to the estimate is in it (`likeliest`).
    Not in it is that tables share a hash: a twelfth, for hashed users and losses so large that it matters.
    An interval is what the intervals of all tables have in common, each at its part of the confidence.
    Tables take universe (1 + 1/shrink + ...) bytes together: at most 2 bytes for each user of the universe.

Reference
    Dwork: Differential privacy in new settings, SODA 2010, section 4, with tables of all powers of two; the
    survey that repeats it forgets that the loss is shared. Fewer tables, each with more of the loss, err
    less. There, the table is taken that tells best by its own word; all of them together err less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Chance, Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.panprivate.bit_claim import BitClaim
from streamgauge.panprivate.bits import Count, noisy_ones, redraw
from streamgauge.panprivate.deviations import Around
from streamgauge.panprivate.estimated import Estimated, Within
from streamgauge.panprivate.hashing import key, mix, reduce
from streamgauge.panprivate.likeliest import Likeliest, Told
from streamgauge.panprivate.occupancy import Occupied
from streamgauge.panprivate.splits import best_split
from streamgauge.panprivate.table import Table
from streamgauge.panprivate.table_settings import BEFORE, check_asked
from streamgauge.panprivate.users import LARGE, Universe, named, pieces


@dataclass(frozen=True)
class MultiplicativeDensity(BitClaim):
    """The part of the universe that has come, however small; see the module's claim."""

    _: KW_ONLY
    shrink: int = 16
    smallest: int = 256

    def __post_init__(self) -> None:
        check_whole("shrink", self.shrink, 2)
        check_whole("smallest", self.smallest)
        if self.sample is not None:
            raise ValueError(f"sample must be None for tables of all users, got {self.sample}")
        if self.hashed == BEFORE:
            raise ValueError("hashed must be True or False for tables that hash by themselves, got 'before'")
        super().__post_init__()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many entries the tables have, the largest first."""
        sizes = [self.universe]
        while sizes[-1] // self.shrink >= self.smallest:
            sizes.append(sizes[-1] // self.shrink)
        return tuple(sizes)

    @property
    def tables(self) -> int:
        return len(self.sizes)

    @property
    def entries(self) -> int:
        return sum(self.sizes)

    def best_split(self) -> Fraction:
        return best_split(lambda share: replace(self, split=share).rough(self.intrusions))

    def rough(self, intrusions: int) -> float:
        """To first order, for users as many as the middle table has entries."""
        value = self.sizes[len(self.sizes) // 2] / self.universe
        return self.together(intrusions).first(value)

    def take(self, state: Table, users: Any, intrusions: int, noise: Chance) -> None:
        present = self.laws(intrusions).present
        for piece in pieces(users, LARGE):
            with Wiped() as secret:
                for bits, places in zip(self._parts(state), self._places(piece, secret), strict=True):
                    redraw(bits, places, present, noise)

    def _places(self, piece: Any, secret: Wiped) -> Iterator[Ints]:
        """The cells of the users among the items, table by table; one mixing is enough for all of them."""
        if self.hashed:
            words = named(piece, secret)
        else:
            known = Universe(self.universe, self.universe, self.seed).places(piece, secret)
            yield known
            words = secret(known.copy()).view(np.uint64)
        room, cells = secret(np.empty_like(words)), secret(np.empty_like(words))
        mix(words, key("streamgauge cells", self.seed), room)
        for size in self.sizes[0 if self.hashed else 1 :]:
            np.copyto(cells, words)
            reduce(cells, size, room)
            yield cells.view(np.int64)

    def _parts(self, state: Table) -> list[Any]:
        """The tables, the largest first."""
        return np.split(state.entries, np.cumsum(self.sizes)[:-1])

    def release(self, state: Table, noise: Chance) -> Ints:
        return noisy_ones(self._parts(state), self.noise, noise)

    def counts(self, intrusions: int) -> list[Count]:
        return [Count(size, self.laws(intrusions), self.noise) for size in self.sizes]

    def estimated(self, released: Ints, intrusions: int) -> Estimated:
        counts, together = self.counts(intrusions), self.together(intrusions)
        parts = [count.part(int(ones)) for count, ones in zip(counts, released, strict=True)]
        value = float(together.found(np.array(parts)[:, None])[0])
        withins = [self._within(number, part, counts[number]) for number, part in enumerate(parts)]
        common = Common(value, withins, together.best(value), self.sizes, self.universe)
        most = inf if self.hashed else 1.0
        return Estimated(value, together.error(value), self.universe, common, highest=most)

    def together(self, intrusions: int) -> Likeliest:
        """What all tables tell, after so many announced intrusions."""
        told = [
            Told(count, Occupied(size, size) if self._hashes(number) else None, self.universe / size)
            for number, (size, count) in enumerate(zip(self.sizes, self.counts(intrusions), strict=True))
        ]
        most = Occupied(self.universe, self.universe).most if self.hashed else 1.0
        return Likeliest(told, most)

    def _hashes(self, number: int) -> bool:
        return bool(self.hashed) or number > 0

    def _within(self, number: int, part: float, count: Count) -> Within:
        if not self._hashes(number):
            return Around(part, count.deviations())
        size = self.sizes[number]
        return count.in_cells(part, Occupied(size, size))

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """The root mean square error where `value` is the truth; without one, where half came (hashed: at
        load 1)."""
        check_asked(self, value, intrusions)
        usual = 1.0 if self.hashed else 0.5
        return self.together(intrusions).error(usual if value is None else value)


@dataclass(frozen=True)
class Common:
    """What the intervals of several tables have in common; that of the best, if it is nothing. The value is
    taken in, which what it is told by together may have put a little outside."""

    value: float
    withins: Sequence[Within]
    best: int
    sizes: Sequence[int]
    universe: int

    def interval(self, confidence: float) -> tuple[float, float]:
        each = 1 - (1 - confidence) / len(self.withins)
        scaled = [
            (low * size / self.universe, high * size / self.universe)
            for (low, high), size in zip((w.interval(each) for w in self.withins), self.sizes, strict=True)
        ]
        low, high = max(low for low, _ in scaled), min(high for _, high in scaled)
        low, high = (low, high) if low <= high else scaled[self.best]
        return min(low, self.value), max(high, self.value)
