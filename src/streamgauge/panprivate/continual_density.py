"""Continual density: at every tick, the part of a universe of users that has come.

User level, one bit a user:

    tick        a fixed number of slots, each a user or nothing (-1 or None; hashed too, in every type)
    sign        a bit for each slot, fair but for a first appearance: 1 with chance 1/2 + gap (`sign_bits`)
    release     ones = all signs that are 1 so far, exactly or through a counter of `streamgauge.continual`
    estimate    (ones - slots/2)/gap users of the sample, over m

A run releases at every tick, and the loss of the claim pays for all of them once:

    step(users)    one tick: a user, or -1 or None for nothing, in each slot; returns the estimate so far
    estimate()     the newest again, without cost
    intrude()      an announced intrusion: noise, hand-over of bits and counter, noise

After a step nothing exact is left but sums of signs, which were released (see `run`).

Privacy
    Neighbours: streams that differ in the slots of one user, any of them; the slot is then empty. With
    `replace` it is another user's. The number of slots of a tick, empty ones included, is public. Fill ticks up
    to a number fixed beforehand, or accept that the number is public.
    Promise: pure, `loss` in all: every tick's release, one unannounced intrusion, and `intrusions` announced.
    Proof: `sign_bits.worst_ratio` of the law is at most e^loss in exact arithmetic: releases are sums of signs,
    and bits are independent from user to user. A user who is twice in a tick leaves one sign by the bit,
    and fair ones: those after the first are fair for any bit. A counter that is pan-private with pure epsilon
    for one event passes signs with less fidelity, which the law uses. A counter starts again at each announced
    intrusion, before the hand-over, and once more after it. So each slot is in one counter, and no counter that
    was handed over continues.

Error
    Unbiased, unless hashed (see `Density`). The variance is exactly (slots/4 - users gap^2 + counter's)/(m
    gap)^2, summed over the stretches between announced intrusions, each with its gap and its first
    appearances: sqrt(slots)/(2 m gap) at most. A law of loss 1 has gap 0.032, of 2 0.085; through a counter
    of epsilon 1, 0.070 and 0.179.

Reference
    Dwork: Differential Privacy in New Settings, SODA 2010, figure 3. Its output is a count, not a density,
    and its proof divides by epsilon^2 where the figure has epsilon^2/2: half of the truth. Its law
    (`law="paper"`) has at best 0.54 times the gap at loss 1. The loss of an exact sum, and to neighbours
    that are both present, is computed here.
"""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual import LimitExceededError, LinearMechanism
from streamgauge.continual.run import wipe_state
from streamgauge.continual.state_io import BlankNoise
from streamgauge.continual.validation import check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import EphemeralNoise, Ints, RandomSource
from streamgauge.noise.entropy import Bytes
from streamgauge.panprivate.error_bounds import max_quadratic, sampling_factor
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.mechanism import UserClaim
from streamgauge.panprivate.occupancy import CellOccupancy
from streamgauge.panprivate.run import TableRun
from streamgauge.panprivate.sign_bits import (
    ONE_HALF,
    SignLaw,
    Stretch,
    bit_variance,
    check_counter,
    counter_fidelity,
    estimate_density,
    find_best_signs,
)
from streamgauge.panprivate.users import (
    LARGE_PIECE_ITEMS,
    HashedUniverse,
    Items,
    Universe,
    build_universe,
    check_batch,
    split_batch,
)
from streamgauge.panprivate.validation import (
    check_finite_error,
    check_noise_source,
    check_prediction,
    check_table_settings,
)

TICKS_ROW, SLOTS_ROW, ONES_ROW = range(3)
DEDUPLICATION_ROUNDS = 3
MAX_SORTED_PLACES = 1 << 10  # sorting so few is as fast


def deduplicate(places: Ints, secret: WipedArrays) -> Ints:
    """Return each place once, in any order, without sorting a long batch.

    Places in the same slot of a small buffer compete: the last that is written stays. Those that stay
    differ, and copies of the one that stayed are done. The few others compete again. After some rounds the
    rest is sorted. The buffer is overwritten like all that was read.
    """
    if len(places) < MAX_SORTED_PLACES:
        return deduplicate_sorted(places, secret)
    size = 2 << len(places).bit_length()
    buffer, found = secret(np.empty(size, np.int64)), []
    for _ in range(DEDUPLICATION_ROUNDS):
        slots, order = secret(places & (size - 1)), np.arange(len(places))
        buffer[slots] = order
        last = secret(buffer[slots])
        beaten = secret(last != order)
        found.append(secret(places[secret(~beaten)]))
        winners = secret(places[secret(last[beaten])])
        losers = secret(places[beaten])
        places = secret(losers[secret(losers != winners)])
    return secret(np.concatenate([*found, deduplicate_sorted(places, secret)]))


def deduplicate_sorted(places: Ints, secret: WipedArrays) -> Ints:
    ordered = secret(np.sort(places))
    first = secret(np.ones(len(ordered), np.bool_))
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return secret(ordered[first])


@dataclass(slots=True)
class DensityState:
    """The memory of a run."""

    bits: Bytes = field(repr=False)  # noisy: one for each member of the sample
    stretches: Ints  # public: ticks, slots and ones between announced intrusions
    counter: Any = field(repr=False)  # noisy: memory of the counter, if there is one

    def copy(self) -> "DensityState":
        return DensityState(self.bits.copy(), self.stretches.copy(), deepcopy(self.counter))


class DensityRun(TableRun[DensityState, PanPrivateEstimate]):
    """A continual density at work.

    Make one with `claim.start()` or `claim.load(saved)`.
    """

    claim: Any  # a ContinualDensity

    def __init__(self, claim: Any, state: DensityState, noise: RandomSource | None, **record: int) -> None:
        super().__init__(claim, state, noise, **record)

    def step(self, users: Any) -> PanPrivateEstimate:
        """Add one tick, each item a slot; return the estimate of all ticks so far."""
        check_batch(users)
        with self._exclusive(partial(check_horizon, self.claim, self.intrusions)) as state:
            stretch = state.stretches[:, self.intrusions]
            slots, ones = self.claim.count_signs(state, users, self.intrusions, self._noise)
            stretch[ONES_ROW] = self.claim.release_ones(state, ones, int(stretch[ONES_ROW]), self._noise)
            stretch[SLOTS_ROW] += slots
            stretch[TICKS_ROW] += 1
            self.releases += 1
            released = state.stretches.copy()
        estimate: PanPrivateEstimate = self.claim.build_estimate(released, self.intrusions)
        return estimate

    def add(self, users: Any) -> None:
        raise TypeError("add must not be called on ContinualDensity, whose ticks are steps: use step()")

    def estimate(self) -> PanPrivateEstimate:
        """Return the newest estimate, which is paid for."""
        with self._locked() as state:
            released = state.stretches.copy()
        estimate: PanPrivateEstimate = self.claim.build_estimate(released, self.intrusions)
        return estimate


def check_horizon(claim: "ContinualDensity", intrusions: int, state: DensityState) -> None:
    """Reject ticks past the counter's horizon, which restarts at announced intrusions."""
    horizon = None if claim.counter is None else claim.counter.horizon
    tick = int(state.stretches[TICKS_ROW, intrusions]) + 1
    if horizon is not None and tick > horizon:
        raise LimitExceededError(f"tick must be at most the counter's horizon {horizon}, got {tick}")


EXACT_FIDELITY = Fraction(1)


@dataclass(frozen=True)
class ContinualDensity(UserClaim):
    """The part of the universe that has come, at every tick; see the module's claim."""

    OTHER_NOISE_MESSAGE: ClassVar[str] = (
        "one without its law is of an earlier version, one of another law of another search"
    )
    highest: ClassVar[float] = 1.0
    releases: ClassVar[int] = 1  # all of them are one
    split: ClassVar[None] = None
    _: KW_ONLY
    counter: LinearMechanism[Any] | None = None  # adds up the signs; None adds them up exactly

    def __post_init__(self) -> None:
        check_table_settings(self)
        if self.counter is not None:
            check_counter(self.counter)
        check_finite_error(self)

    @cached_property
    def signs(self) -> SignLaw:
        """The law before any announced intrusion; with `replace` two users move."""
        fidelity = EXACT_FIDELITY if self.counter is None else counter_fidelity(self.counter.loss.amount)
        epsilon = self.loss.epsilon / (2 if self.replace else 1)
        return find_best_signs(epsilon, self.intrusions, fidelity, self.law == "paper")

    @cached_property
    def users(self) -> Universe | HashedUniverse:
        return build_universe(self, slots=True)

    def initial(self, noise: RandomSource) -> DensityState:
        stretches = np.zeros((3, self.intrusions + 1), np.int64)
        return DensityState(noise.coins(ONE_HALF, self.entries), stretches, self._initial_counter(noise))

    def _initial_counter(self, noise: Any) -> Any:
        return 0 if self.counter is None else self.counter.initial(1, noise)

    def count_signs(self, state: DensityState, users: Any, intrusions: int, noise: RandomSource) -> tuple[int, int]:
        """Return the number of slots of a tick, and of their signs that are 1."""
        slots = ones = 0
        for piece in split_batch(users, LARGE_PIECE_ITEMS):
            slots += len(piece)
            ones += self._draw_signs(state, piece, self.signs.after_intrusions(intrusions), noise)
        return slots, ones

    def _draw_signs(self, state: DensityState, piece: Items, signs: SignLaw, noise: RandomSource) -> int:
        with WipedArrays() as secret:
            there = deduplicate(self.users.find_places(piece, secret), secret)
            bits = secret(state.bits[there])
            set_ = int(np.count_nonzero(bits))
            drawn = [
                noise.coins(signs.sign_probability(0), len(bits) - set_),
                noise.coins(signs.sign_probability(1), set_),
                noise.coins(ONE_HALF, len(piece) - len(bits)),
            ]
            state.bits[there] = secret(noise.coins(signs.present_probability, len(there)))
            return sum(int(np.count_nonzero(secret(each))) for each in drawn)

    def release_ones(self, state: DensityState, ones: int, before: int, noise: RandomSource) -> int:
        """Return the released number of signs of a stretch that are 1.

        `before` is that of the tick before.
        """
        if self.counter is None:
            return before + ones
        return int(self.counter.step(state.counter, np.array([ones]), noise)[0])

    def rerandomize(self, state: DensityState, before: int, noise: RandomSource) -> None:
        """Flip bits, wipe the counter, whose sum was released, and start a fresh one."""
        wipe_state(state.counter)
        state.counter = self._initial_counter(noise)
        with WipedArrays() as secret:
            flips = secret(noise.coins(self.signs.flip_probability, self.entries))
            np.bitwise_xor(state.bits, flips, out=state.bits)

    def copy_state(self, state: DensityState) -> DensityState:
        return state.copy()

    def removal_refusal(self) -> str:
        return "remove must not be called on ContinualDensity: a first visit cannot be undone"

    def build_estimate(self, stretches: Ints, intrusions: int) -> PanPrivateEstimate:
        """Return the estimate from ticks, slots and ones of each stretch."""
        known = [
            Stretch(int(ticks), int(slots), int(ones), float(self.signs.after_intrusions(done).gap), self.counter)
            for done, (ticks, slots, ones) in enumerate(stretches.T[: intrusions + 1])
        ]
        return estimate_density(known, self.universe, self.entries, bool(self.hashed))

    def stddev(self, value: float | None = None, intrusions: int = 0, *, slots: int, ticks: int | None = None) -> float:
        """Return the standard error after so many slots if `value` is the truth.

        There are as many ticks, unless given. Without a value it is the largest (hashed: at load 1). After announced
        intrusions, ticks, slots and first appearances are spread evenly around them.
        """
        check_prediction(self, value, intrusions)
        check_whole("slots", slots, least=0)
        check_whole("ticks", slots if ticks is None else ticks, least=0)
        times = slots if ticks is None else ticks
        if value is None:
            first, last = (self._predict_stddev(part, intrusions, slots, times) ** 2 for part in (0.0, 1.0))
            value = 1.0 if self.hashed else max_quadratic(first, last, sampling_factor(self.entries, self.universe))
        return self._predict_stddev(value, intrusions, slots, times)

    def rough_stddev(self, intrusions: int) -> float:
        """Return the error of one slot, which tests that it is finite."""
        return self._predict_stddev(0.0, intrusions, slots=1, ticks=1)

    def _predict_stddev(self, value: float, intrusions: int, slots: int, ticks: int) -> float:
        """Return the standard error of the expected sums; loads have no upper limit."""
        stretches, occupied = intrusions + 1, CellOccupancy(self.universe, self.entries)
        part = float(occupied.occupied_part(value)) if self.hashed else value
        users, each, times = part * self.entries / stretches, slots / stretches, -(-ticks // stretches)
        gaps = [float(self.signs.after_intrusions(done).gap) for done in range(stretches)]
        expected = [Stretch(times, each, each / 2 + gap * users, gap, self.counter) for gap in gaps]
        if self.hashed:
            return float(occupied.stddev(value, lambda _: bit_variance(expected, self.entries)))
        return estimate_density(expected, self.universe, self.entries, hashed=False).stddev

    def identity(self) -> str:
        """Return settings, law and counter: a run never resumes under others.

        The law is named since it comes from a search in floats.
        """
        counted = "" if self.counter is None else f" through {self.counter.identity()}"
        return f"{self!r} by {self.signs!r}{counted}"

    def blank_table(self, width: int) -> DensityState:
        shape = (3, self.intrusions + 1)
        return DensityState(np.zeros(width, np.uint8), np.zeros(shape, np.int64), self._initial_counter(BlankNoise()))

    def start(self, noise: RandomSource | None = None) -> DensityRun:
        """Start a run in which no user has come."""
        check_noise_source(noise)
        source = noise if noise is not None else EphemeralNoise()
        return DensityRun(self, self.initial(source), source)

    def load(self, saved: bytes, noise: RandomSource | None = None) -> DensityRun:
        """Resume the run that `save` wrote; reject an altered or foreign one.

        Load each save once, the newest alone: see `TableMechanism.load`.
        """
        state, record = self.unpack_run(saved, noise)
        return DensityRun(self, state, noise, **record)
