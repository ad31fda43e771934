"""Signs of first appearances: one bit a slot, fair unless a user is new.

Each user has a bit, fair at first. A user who appears leaves a sign y, drawn by the bit, and gets another bit:

    P(y = 1 | bit) = 1/2 + gap + lean if the bit is 0, 1/2 + gap - lean if it is 1
    P(bit = 1)     = 1/2 + tilt from then on, drawn again at each appearance
    gap            = 2 tilt lean

At a first appearance the bit is fair, so P(y = 1) = 1/2 + gap. At any other it is tilted, so P(y = 1) =
1/2 + gap - 2 tilt lean = 1/2 exactly, for any history: the bit is as new as the last appearance. An empty slot leaves
a fair sign. So signs count users that they have not counted yet, and no exact set is stored.

An announced intruder gets bits that were flipped first, each with chance (1 - keep)/2, and they are flipped so again
afterwards. A fair bit stays fair. A tilt is multiplied by keep twice. Later appearances are drawn with the rest of
it, so that all users who ever came are alike.

    estimate of the distinct users    (signs that are 1 - slots/2) / gap
    its standard error                sqrt(slots)/(2 gap), at most

So the best law has the largest gap that is left after all announced intrusions. Tilt, lean and keep are found by a
grid that is refined, in floats. The result is rounded down to whole steps and checked in exact arithmetic against a
bound below e^loss. A search that went wrong would cost accuracy, never privacy. The paper's law is the line
tilt = lean/4.

Privacy (of signs and of the bits that are shown)
    Neighbours: streams that differ in the slots of one user, any of them: not only in whether there are any.
    Proof: cut time at the moments when the user's bit is shown. Given the last shown value v, the bit now equals
    v with chance (1 + known)/2 (known = 0 at first, 1 after a look, keep after a hand-over). A stretch of time
    in which the user is absent leaves fair signs, and shows w next with P(w | v) = 1/2 +- known shown/2
    (shown = 1 to a look, keep at a hand-over). One in which the user appears leaves one sign that is not fair,
    1/2 + gap +- known lean, and shows w with P(w) = 1/2 +- shown tilt, for any v. Two streams may put that sign
    in different slots. So the worst ratio of a stretch is one of four, and that of all is the largest product
    along all w, one unannounced look being anywhere: `worst_ratio`, which equals the enumeration of the code
    (tests/audit). If signs pass through a counter that loses epsilon for one slot, a sign that is 1 with chance
    1/2 + d counts as one of 1/2 + fidelity d, with fidelity = tanh(epsilon/2):
    (p e^epsilon + 1 - p)/((e^epsilon + 1)/2) = 1 + (2 p - 1) tanh(epsilon/2). Several signs that are not fair,
    before and after a look, multiply: make them fair one at a time, while all others keep their laws. Each
    exchange is of one slot. So nothing but the counter's own promise is used.

Reference
    Dwork: Differential Privacy in New Settings, SODA 2010, figure 3: tilt = epsilon/4, lean = epsilon,
    gap = epsilon^2/2, which needs epsilon <= sqrt(2) - 1. That an exact sum of signs is private by itself,
    and its cost, is not in the paper.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial, reduce
from math import exp, inf, sqrt
from typing import Any

import numpy as np

from streamgauge.continual import LinearMechanism, Mechanism
from streamgauge.continual.state_io import BlankNoise
from streamgauge.noise import DiscreteLaplace
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.noise.sampler_table import enclose_exp_minus
from streamgauge.panprivate.error_bounds import (
    Coins,
    Deviation,
    NoiseDeviation,
    SymmetricRegion,
    build_response_deviation,
    build_sampling_deviation,
    sampling_factor,
)
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.occupancy import CellOccupancy, OccupancyRegion
from streamgauge.privacy import Event

ONE_HALF = Fraction(1, 2)
Number = Any  # a Fraction, or an array of floats in the search for the best of many
Maximum = Callable[[Iterable[Number]], Number]
Look = tuple[Number, int, Number]  # fidelity of the last shown bit, the bit, and the ratio so far


@dataclass(frozen=True)
class SignLaw:
    """The law of bits and signs; see the module."""

    tilt: Number
    lean: Number
    keep: Number = Fraction(1)

    @property
    def gap(self) -> Number:
        """The excess over 1/2 of the chance that the sign of a first appearance is 1."""
        return 2 * self.tilt * self.lean

    def sign_probability(self, bit: int) -> Number:
        """Return the chance of a sign to be 1, given the bit."""
        return ONE_HALF + self.gap + (-self.lean if bit else self.lean)

    @property
    def present_probability(self) -> Number:
        """The chance of a bit to be 1 whose user has appeared."""
        return ONE_HALF + self.tilt

    @property
    def flip_probability(self) -> Number:
        """The chance of a bit to be flipped before a hand-over, and once more after."""
        return (1 - self.keep) / 2

    def after_intrusions(self, intrusions: int) -> "SignLaw":
        """Return the law with the tilt that so many hand-overs leave."""
        return SignLaw(self.tilt * self.keep ** (2 * intrusions), self.lean, self.keep)


def worst_ratio(signs: SignLaw, intrusions: int = 0, fidelity: Number = 1, maximum: Maximum = max) -> Number:
    """Return the largest ratio of likelihoods of all observations; see the module.

    >>> worst_ratio(SignLaw(Fraction(1, 40), Fraction(1, 10)))  # the paper's law of epsilon 1/10
    Fraction(22000, 13509)
    """
    calm: list[Look] = [(0, 0, 1)]
    looked: list[Look] = []  # after the unannounced look
    for done in range(intrusions + 1):
        now = signs.after_intrusions(done)
        looked = looked + extend_looks(calm, now, 1, fidelity, maximum)
        if done < intrusions:
            calm, looked = (extend_looks(each, now, signs.keep, fidelity, maximum) for each in (calm, looked))
    last = signs.after_intrusions(intrusions)
    shifts = [(ratio, sign_shift(last, known, bit, fidelity)) for known, bit, ratio in calm + looked]
    return maximum(ratio * ((1 + shift) / (1 - shift)) for ratio, shift in shifts)


def extend_looks(
    looks: list[Look], signs: SignLaw, bit_fidelity: Number, fidelity: Number, maximum: Maximum
) -> list[Look]:
    """Return the worst ratios after a stretch at whose end the bit is shown.

    There is one for each value of the bit. A user is in one stream alone, in the other alone, or in both but in other
    slots.
    """
    found = []
    for bit, sign in ((0, -1), (1, 1)):
        ratios = []
        for known, last, ratio in looks:
            shift = sign_shift(signs, known, last, fidelity)
            absent = 1 + (sign if last else -sign) * known * bit_fidelity
            likelier = (1 + 2 * sign * bit_fidelity * signs.tilt) / absent
            for step in ((1 + shift) * likelier, 1 / ((1 - shift) * likelier), (1 + shift) / (1 - shift)):
                ratios.append(ratio * step)
        found.append((bit_fidelity, bit, maximum(ratios)))
    return found


def sign_shift(signs: SignLaw, known: Number, last: int, fidelity: Number) -> Number:
    """Return twice the distance from 1/2 of the chance of an appearance's sign.

    It is given the last shown value.
    """
    return 2 * fidelity * abs(signs.gap + (-known if last else known) * signs.lean)


TRIAL_TICKS = 3  # ticks of a test that a counter adds up


def check_counter(counter: LinearMechanism[Any]) -> None:
    """Reject all but pan-private running counts of pure loss for one event.

    A counter that adapts to its data, such as `CascadingBuffers`, would meet the loss too. But estimates have
    standard errors and intervals, which need the law of the counter's noise apart from the data.
    """
    proper = isinstance(counter, Mechanism) and counter.loss.currency == "pure" and counter.pan_private
    if proper and not isinstance(counter, LinearMechanism):
        rule = "counter must be linear, since intervals need the law of its noise apart from the data"
        raise ValueError(f"{rule}, got {counter!r}")
    if not proper or counter.unit != Event() or counter.bound != 1:
        raise ValueError(f"counter must be a pan-private mechanism of pure loss for one event, got {counter!r}")
    ticks = min(TRIAL_TICKS, counter.horizon or TRIAL_TICKS)
    state = counter.initial(1, BlankNoise())
    sums = [int(counter.step(state, np.ones(1, np.int64), BlankNoise())[0]) for _ in range(ticks)]
    if sums != list(range(1, ticks + 1)):
        raise ValueError(f"counter must add up all ticks, got {counter!r}")


@dataclass(frozen=True)
class Stretch:
    """The time between two announced intrusions, under one law of signs."""

    ticks: int
    slots: float
    ones: float  # as released, or as expected
    gap: float
    counter: LinearMechanism[Any] | None

    @property
    def new_users(self) -> float:
        """The estimated number of users who came for the first time."""
        return (self.ones - self.slots / 2) / self.gap

    def variance(self, users: float) -> float:
        """Return the variance of the estimate, if so many came for the first time."""
        signs = self.slots / 4 - min(max(users, 0.0), self.slots) * self.gap**2
        noise = self.counter.noise_at(self.ticks).variance if self.counter is not None and self.ticks else 0.0
        return (signs + noise) / self.gap / self.gap

    def deviations(self, entries: int) -> list[Deviation]:
        """Return the parts of the error of users/entries."""
        one = 1 / (entries * self.gap)
        found: list[Deviation] = []
        if self.slots:
            chances = np.array([0.5, 0.5 + self.gap])
            found.append(build_response_deviation(self.slots, one, chances, 0 * chances))
        for term in self.counter.noise_at(self.ticks).terms if self.counter is not None and self.ticks else ():
            law = term.distribution
            if not isinstance(law, DiscreteLaplace):  # counters of pure loss have no other noise
                raise TypeError(f"counter must have Laplace noise, got {type(law).__name__}")
            found.append(NoiseDeviation(one * float(term.weight), law, term.count))
        return found


def bit_variance(stretches: Sequence[Stretch], entries: int) -> float:
    """Return the variance of the occupied part of entries, for given cells of users."""
    return sum(stretch.variance(stretch.new_users) for stretch in stretches) / entries**2


def estimate_density(stretches: Sequence[Stretch], universe: int, entries: int, hashed: bool) -> PanPrivateEstimate:
    """Return the part of the universe that has come, from the sums of all stretches."""
    value = sum(stretch.new_users for stretch in stretches) / entries
    variance = bit_variance(stretches, entries)
    parts = [part for stretch in stretches for part in stretch.deviations(entries)]
    if hashed:
        return estimate_from_cells(value, variance, parts, CellOccupancy(universe, entries))
    came = min(max(value, 0.0), 1.0)
    variance += sampling_factor(entries, universe) * came * (1 - came)
    region = SymmetricRegion(value, parts + build_sampling_deviation(1.0, entries, universe))
    return PanPrivateEstimate(value, sqrt(variance), universe, region)


def estimate_from_cells(
    occupied_part: float, variance: float, parts: list[Deviation], occupied: CellOccupancy
) -> PanPrivateEstimate:
    """Return the estimate of hashed users, from occupied cells. It has no upper limit."""
    load, m = float(occupied.estimate_load(occupied_part)), occupied.entries
    stddev = sqrt(variance + occupied.variance(load)) * occupied.load_slope(load)

    def deviations(low: float, high: float) -> list[Deviation]:
        """Return the parts of the error, if the mean part is between these.

        Signs depend on the cells.
        """
        least, most = (each * m**2 for each in occupied.variance_range(low, high))
        return [*parts, Coins(m, 1 / m, (low, high), (least, most), is_independent=False)]

    region = OccupancyRegion(occupied, occupied_part, deviations)
    return PanPrivateEstimate(load, stddev, occupied.cells, region, highest=inf)


GRID_STEPS = 2**20  # tilt, lean and keep are whole numbers of these parts of 1
ENCLOSURE_BITS = 128
SEARCH_POINTS, SEARCH_ROUNDS, SEARCH_HALVINGS = 24, 5, 30
MAX_EPSILON = 40  # beyond it nothing is gained


@lru_cache(maxsize=256)
def find_best_signs(epsilon: Fraction, intrusions: int, fidelity: Fraction, paper: bool) -> SignLaw:
    """Return the law of the largest gap that loses at most epsilon.

    Signs pass with this fidelity.
    """
    allowed = min(epsilon, Fraction(MAX_EPSILON))
    found = search_signs(float(allowed), intrusions, float(fidelity), paper)
    signs = SignLaw(*(Fraction(int(number * GRID_STEPS), GRID_STEPS) for number in found))  # rounded down
    upper, less = enclose_exp_minus(allowed, ENCLOSURE_BITS).high, 0
    while signs.gap * signs.keep > 0:
        proper = signs.sign_probability(1) > 0 and signs.sign_probability(0) < 1
        if proper and worst_ratio(signs, intrusions, fidelity) * upper <= 2**ENCLOSURE_BITS:
            return signs
        less = 2 * less + 1  # of a lean, until the loss is met
        signs = replace(signs, lean=max(signs.lean - Fraction(less, GRID_STEPS), Fraction(0)))
    raise ValueError(f"loss must be large enough to tell anything of signs, got {epsilon}")


def counter_fidelity(epsilon: Fraction) -> Fraction:
    """Return tanh(epsilon/2), rounded up: the fidelity of a sign through a counter.

    The counter loses epsilon for one sign.

    >>> round(float(counter_fidelity(Fraction(1))), 9)
    0.462117157
    """
    low = Fraction(enclose_exp_minus(epsilon, 64).low, 2**64)
    return (1 - low) / (1 + low)


def search_signs(epsilon: float, intrusions: int, fidelity: float, paper: bool) -> tuple[float, float, float]:
    """Return tilt, lean and keep of the largest gap, by a grid that is refined."""
    tilts, keeps = (1e-6, 0.5), ((1e-3, 1 - 1e-6) if intrusions else (1.0, 1.0))
    for _ in range(SEARCH_ROUNDS):
        tilt = np.geomspace(*tilts, SEARCH_POINTS)[:, None]
        keep = np.linspace(*keeps, SEARCH_POINTS if intrusions else 1)[None, :]
        lean = 4 * tilt + 0 * keep if paper else max_lean(tilt, keep, epsilon, intrusions, fidelity)
        allowed = is_allowed(SignLaw(tilt, lean, keep), epsilon, intrusions, fidelity)
        gaps = np.where(allowed, tilt * keep ** (2 * intrusions) * lean, 0.0)
        row, column = np.unravel_index(np.argmax(gaps), gaps.shape)
        tilts, keeps = find_neighbours(tilt[:, 0], int(row)), find_neighbours(keep[0], int(column))
    return float(tilt[row, 0]), float(lean[row, column]), float(keep[0, column])


def max_lean(tilt: Floats, keep: Floats, epsilon: float, intrusions: int, fidelity: float) -> Floats:
    """Return the largest lean of each tilt and keep, from below."""
    low = np.zeros(np.broadcast_shapes(tilt.shape, keep.shape))
    high = 1 / (2 + 4 * tilt) + low
    for _ in range(SEARCH_HALVINGS):
        middle = (low + high) / 2
        allowed = is_allowed(SignLaw(tilt, middle, keep), epsilon, intrusions, fidelity)
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
    return low


def is_allowed(signs: SignLaw, epsilon: float, intrusions: int, fidelity: float) -> Bools:
    with np.errstate(all="ignore"):
        ratio = worst_ratio(signs, intrusions, fidelity, partial(reduce, np.maximum))
        return np.asarray((ratio <= exp(epsilon)) & (signs.lean + signs.gap < 0.5))


def find_neighbours(points: Floats, place: int) -> tuple[float, float]:
    """Return the neighbours of the best point of a grid."""
    return float(points[max(place - 1, 0)]), float(points[min(place + 1, len(points) - 1)])
