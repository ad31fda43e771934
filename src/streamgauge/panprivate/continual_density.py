"""Continual density: at every tick, which part of a universe of users has come so far. User level, one bit
a user.

    tick        a fixed number of slots, each a user or nothing (-1 or None; hashed too, in every type)
    sign        a bit for each slot, fair but for a first appearance: 1 with chance 1/2 + gap (`signs`)
    release     ones = all signs that are 1 so far, exactly or through a counter of `streamgauge.continual`
    estimate    (ones - slots/2)/gap users of the sample, over m

Privacy
    Neighbours: streams that differ in which slots one user is in, any of them; the slot is then empty. With
    `replace` it is another user's. How many slots a tick has, empty ones included, is public: fill ticks up
    to a number fixed beforehand, or own up to it.
    Promise: pure, `loss` in all: every tick's release, one unannounced intrusion, and `intrusions` announced.
    Proof: `signs.worst_ratio` of the law is at most e^loss in exact arithmetic: releases are sums of signs,
    and bits are independent from user to user. A user who is twice in a tick leaves one sign by the bit,
    and fair ones: those after the first are, whatever the bit was. Through a counter that is pan-private
    with pure epsilon for one event, signs are heard less well, which the law makes use of; a counter starts
    anew at each announced intrusion, before the hand-over, and once more after it, so that each slot is in
    one counter, and none that was handed over goes on.

Error
    Unbiased, unless hashed (see `Density`). The variance is exactly (slots/4 - users gap^2 + counter's)/(m
    gap)^2, summed over the stretches between announced intrusions, each with its gap and its first
    appearances: sqrt(slots)/(2 m gap) at most. A law of loss 1 has gap 0.032, of 2 0.085; through a counter
    of epsilon 1, 0.070 and 0.179.

Reference
    Dwork: Differential Privacy in New Settings, SODA 2010, figure 3. Its output is a count, not a density,
    and its proof divides by epsilon^2 where the figure has epsilon^2/2: half of the truth. Its law
    (`law="paper"`) has at best 0.54 times the gap at loss 1. What an exact sum loses, and to neighbours
    that are both there, is worked out here.
"""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual import Mechanism
from streamgauge.continual.saved import ANOTHER, BadSave, NoNoise, unpack
from streamgauge.continual.settings import check_whole
from streamgauge.continual.single import forget
from streamgauge.noise import Chance, EphemeralNoise, Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.panprivate.best_signs import best_signs, heard_through
from streamgauge.panprivate.density_run import DensityRun, Marks
from streamgauge.panprivate.deviations import largest, sampled
from streamgauge.panprivate.distinct import once
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.occupancy import Occupied
from streamgauge.panprivate.sign_sums import Stretch, check_counter, estimated, of_bits
from streamgauge.panprivate.signs import HALF, Signs
from streamgauge.panprivate.table_claim import RECORD
from streamgauge.panprivate.table_settings import (
    Hashed,
    LawName,
    check_asked,
    check_chance,
    check_table,
    check_told,
)
from streamgauge.panprivate.users import LARGE, Cells, Items, Universe, entry_of, pieces
from streamgauge.privacy import Pure, XAdjacent

EXACT = Fraction(1)
EARLIER = "one without its law is of an earlier version, one of another law of another search"


@dataclass(frozen=True)
class ContinualDensity:
    """The part of the universe that has come, told at every tick; see the module's claim."""

    highest: ClassVar[float] = 1.0
    releases: ClassVar[int] = 1  # all of them are one
    split: ClassVar[None] = None
    loss: Pure
    _: KW_ONLY
    universe: int
    sample: int | None = None
    hashed: Hashed = False
    seed: int = 0
    intrusions: int = 0
    law: LawName = "symmetric"
    replace: bool = False
    counter: Mechanism[Any] | None = None  # how signs are added up, unless exactly

    def __post_init__(self) -> None:
        check_table(self)
        if self.counter is not None:
            check_counter(self.counter)
        check_told(self)

    @property
    def unit(self) -> XAdjacent:
        return XAdjacent(self.replace)

    @property
    def entries(self) -> int:
        """m: how many users have a bit."""
        return self.universe if self.sample is None else self.sample

    @cached_property
    def signs(self) -> Signs:
        """The law of bits and signs before any announced intrusion; with `replace` two users move."""
        heard = EXACT if self.counter is None else heard_through(self.counter.loss.amount)
        epsilon = self.loss.epsilon / (2 if self.replace else 1)
        return best_signs(epsilon, self.intrusions, heard, self.law == "paper")

    @cached_property
    def users(self) -> Universe | Cells:
        return entry_of(self, slots=True)

    def initial(self, noise: Chance) -> Marks:
        stretches = np.zeros((3, self.intrusions + 1), np.int64)
        return Marks(noise.coins(HALF, self.entries), stretches, self._counting(noise))

    def _counting(self, noise: Any) -> Any:
        return 0 if self.counter is None else self.counter.initial(1, noise)

    def signed(self, state: Marks, users: Any, intrusions: int, noise: Chance) -> tuple[int, int]:
        """How many slots a tick had, and how many of their signs are 1."""
        slots = ones = 0
        for piece in pieces(users, LARGE):
            slots += len(piece)
            ones += self._ones(state, piece, self.signs.after(intrusions), noise)
        return slots, ones

    def _ones(self, state: Marks, piece: Items, signs: Signs, noise: Chance) -> int:
        with Wiped() as secret:
            there = once(self.users.places(piece, secret), secret)
            bits = secret(state.bits[there])
            set_ = int(np.count_nonzero(bits))
            drawn = [
                noise.coins(signs.chance(0), len(bits) - set_),
                noise.coins(signs.chance(1), set_),
                noise.coins(HALF, len(piece) - len(bits)),
            ]
            state.bits[there] = secret(noise.coins(signs.seen, len(there)))
            return sum(int(np.count_nonzero(secret(each))) for each in drawn)

    def heard(self, state: Marks, ones: int, before: int, noise: Chance) -> int:
        """All signs of a stretch that are 1, as they are released; `before` were until this tick."""
        if self.counter is None:
            return before + ones
        return int(self.counter.step(state.counter, np.array([ones]), noise)[0])

    def rerandomise(self, state: Marks, before: int, noise: Chance) -> None:
        """Flips bits, and lets the counter go, whose sum was released, for one that nobody has seen."""
        forget(state.counter)
        state.counter = self._counting(noise)
        with Wiped() as secret:
            flips = secret(noise.coins(self.signs.flipped, self.entries))
            np.bitwise_xor(state.bits, flips, out=state.bits)

    def copied(self, state: Marks) -> Marks:
        return state.copy()

    def removal_refusal(self) -> str:
        return "remove must not be asked of ContinualDensity: who has come has come"

    def estimated(self, stretches: Ints, intrusions: int) -> Estimated:
        """Of the ticks, slots and ones of each stretch between announced intrusions."""
        known = [
            Stretch(int(ticks), int(slots), int(ones), float(self.signs.after(done).gap), self.counter)
            for done, (ticks, slots, ones) in enumerate(stretches.T[: intrusions + 1])
        ]
        return estimated(known, self.universe, self.entries, bool(self.hashed))

    def stddev(
        self, value: float | None = None, intrusions: int = 0, *, slots: int, ticks: int | None = None
    ) -> float:
        """The standard error after so many slots (in as many ticks, unless told) where `value` is the truth;
        without one, where it is largest (hashed: at load 1).

        After announced intrusions: if ticks, slots and first appearances are spread evenly around them.
        """
        check_asked(self, value, intrusions)
        check_whole("slots", slots, least=0)
        check_whole("ticks", slots if ticks is None else ticks, least=0)
        times = slots if ticks is None else ticks
        if value is None:
            first, last = (self._expected(part, intrusions, slots, times) ** 2 for part in (0.0, 1.0))
            value = 1.0 if self.hashed else largest(first, last, sampled(self.entries, self.universe))
        return self._expected(value, intrusions, slots, times)

    def rough(self, intrusions: int) -> float:
        """Of one slot: whether there are numbers for it."""
        return self._expected(0.0, intrusions, slots=1, ticks=1)

    def _expected(self, value: float, intrusions: int, slots: int, ticks: int) -> float:
        """The standard error if all went as it should; of loads beyond what can be told as of any other."""
        stretches, occupied = intrusions + 1, Occupied(self.universe, self.entries)
        taken = float(occupied.taken(value)) if self.hashed else value
        users, each = taken * self.entries / stretches, slots / stretches
        gaps = [float(self.signs.after(done).gap) for done in range(stretches)]
        times = -(-ticks // stretches)
        known = [Stretch(times, each, each / 2 + gap * users, gap, self.counter) for gap in gaps]
        if self.hashed:
            return float(occupied.stddev(value, lambda _: of_bits(known, self.entries)))
        return estimated(known, self.universe, self.entries, hashed=False).stddev

    def identity(self) -> str:
        """With the law, which was searched for in floats, and the way of the counter: a run never goes on
        under others than it began with."""
        counted = "" if self.counter is None else f" through {self.counter.identity()}"
        return f"{self!r} by {self.signs!r}{counted}"

    def blank(self, width: int) -> Marks:
        shape = (3, self.intrusions + 1)
        return Marks(np.zeros(width, np.uint8), np.zeros(shape, np.int64), self._counting(NoNoise()))

    def start(self, noise: Chance | None = None) -> DensityRun:
        """A new run, in which nobody has come."""
        check_chance(noise)
        source = noise if noise is not None else EphemeralNoise()
        return DensityRun(self, self.initial(source), source)

    def load(self, saved: bytes, noise: Chance | None = None) -> DensityRun:
        """The run that `save` wrote; refuses another claim's or an altered one. Load each save once, the
        newest alone: see `TableClaim.load`."""
        check_chance(noise)
        width, record, state = unpack(saved, self.identity(), self.blank, f"{self.identity()} ({EARLIER})")
        if (
            width != self.entries
            or record.keys() != RECORD
            or not 0 <= record["intrusions"] <= self.intrusions
        ):
            raise BadSave(ANOTHER)
        return DensityRun(self, state, noise, **record)
