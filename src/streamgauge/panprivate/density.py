"""Density: the part of a universe of users that has come at least once.

One byte for each user:

    start       b_x ~ absent                     a bit for each user x of the sample
    x appears   b_x ~ present                    drawn again at every appearance, the first or not
    release     ones = sum b_x + noise           whole numbers
    estimate    (ones/m - absent)/(present - absent)

Hashed users share cells. With D users in u cells a cell is occupied with probability g = 1 - (1 - 1/u)^D. So the
estimate of g becomes D/u = log(1 - g)/(u log(1 - 1/u)), with the variance of the number of occupied cells in the
error (delta method; cut at 0, and where half a cell is left). The value is D/u: it can be above 1. With "before" the
caller hashed the users, and they are numbers of cells.

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `mechanism`. However often a user came, b_x has one of two laws, which differ by at most
    e^entry_epsilon (`randomised_response`). A bit moves the sum by 1, if it moves, under noise that uses that
    (below). If a user is twice in a batch, their order alone decides which draw stays.
    Announced: b_x passes through the channel 0 -> absent, 1 -> present before the hand-over and after it. From
    then on `present` is its image under the channel. Later users are drawn from that law, which lies between the
    two, so that the entries of all who came have one law.

    The chance of the bits themselves reduces the loss of their sums, so that sums need less noise. A release
    moves only if an entry does, and an entry that is drawn again moves with a chance below 1. Let P be the
    largest chance that a bit has of a value, given the observations of an intruder, e the loss of an entry, J
    the announced intrusions, and 1/s the scale of the noise of each of R releases. Then one entry loses at most

        (J + 1) e + log g(R s),    g(x) = 1 - P + P e^x

    and not (J + 1) e + R s. `amplified_epsilon` is the largest x = R s for which log g(x) is the rest of the
    loss. Fewer releases lose less than their part, since log g is convex.

    Proof. Fix all observations and all other entries, whose law is the same in both streams. The bit of the
    entry is drawn again at appearances of its users, and passed on at each hand-over. Between these are blocks
    of releases that one bit is in. Cut time at the hand-overs, and at the unannounced look, which shows the bit
    b. Given the observations at both ends of a stretch, bits of different blocks are independent. Those
    observations cost e a look, as in `mechanism`. Let l = P(release | the bit is 1)/P(release | it is 0), or its
    inverse in the two stretches next to a look that showed 1. It is between e^-s and e^s. The look's own block,
    in which the bit is known, adds 1 to the likelihood of a stretch, and any other (1 - c) + c prod l, where
    c <= P is the chance of the value that is not b. With x' the sum of s over releases of the block that have
    l > 1, and x'' over others,

        (1 - c) + c prod l <= g(x'),    1/[(1 - c) + c prod l] <= 1/(1 - P + P e^-x'') <= g(x''):

    the last since a mean of 1/Y is at least one over the mean of Y. And g(x) g(y) <= g(x + y), as both factors
    rise with the bit (Chebyshev). In the quotient of two streams each release is in one block of either, and has
    l > 1 or not: so the quotient is at most g(R s). If several entries move, apply this to one after the other.

        P    without announced intrusions the largest chance of the two laws. A hand-over shows the last bit of
             its stretch through the channel, whose rows differ by a factor: the odds of P, times that factor.

    The bound is met if the user comes after the releases and a look shows 1: by enumeration (tests/audit).

Error
    Unbiased, unless hashed. Given that the part f came, the variance is exactly
    [f v(present) + (1 - f) v(absent) + 2-sided noise/m]/(m gap^2) + f (1 - f) (u - m)/((u - 1) m), v(p) = p
    (1 - p), for a sample of m of u. Announced intrusions multiply the gap by the channel's, twice each.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010; Dwork: Differential privacy in new settings, SODA 2010,
    Figure 1. There noise of scale 1/(epsilon m) is added after the fraction of ones is multiplied by
    4/epsilon: a user who comes after the intrusion then loses more than 3 instead of epsilon. Here it is
    added to the ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import floor, inf, log1p, sqrt
from typing import Any

import numpy as np

from streamgauge.memory import WipedArrays
from streamgauge.noise import DiscreteLaplace, Ints, RandomSource
from streamgauge.noise.bernoulli import PRECISION_BITS
from streamgauge.noise.entropy import Bytes
from streamgauge.noise.sampler_table import enclose_exp_minus
from streamgauge.panprivate.error_bounds import (
    Coins,
    Deviation,
    NoiseDeviation,
    SymmetricRegion,
    build_response_deviation,
    build_sampling_deviation,
    max_quadratic,
    sampling_factor,
)
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.mechanism import TableMechanism
from streamgauge.panprivate.occupancy import CellOccupancy, Number, OccupancyRegion
from streamgauge.panprivate.randomised_response import ResponseLaw, build_response_law, expm1_lower_bound
from streamgauge.panprivate.run import NoisyTable
from streamgauge.panprivate.users import LARGE_PIECE_ITEMS, split_batch
from streamgauge.panprivate.validation import check_prediction


def redraw_bits(bits: Bytes, places: Ints, chance: Fraction, noise: RandomSource) -> None:
    """Draw the bits at these places again; for a repeated place the last draw stays."""
    with WipedArrays() as secret:
        bits[places] = secret(noise.coins(chance, len(places)))


def apply_channel(table: NoisyTable, channel: ResponseLaw, noise: RandomSource) -> None:
    """Send every bit through a channel: 0 to its absent law, 1 to its present one."""
    for bits in table.iterate_chunks():
        with WipedArrays() as secret:
            absent = secret(noise.coins(channel.absent, len(bits)))
            present = secret(noise.coins(channel.present, len(bits)))
            np.copyto(absent, present, where=bits.view(np.bool_))
            np.copyto(bits, absent)


def count_noisy_ones(tables: Sequence[Bytes], law: DiscreteLaplace, noise: RandomSource) -> Ints:
    """Return the noisy number of ones of each table; wipe exact numbers and draws."""
    with WipedArrays() as secret:
        ones = secret(np.array([np.count_nonzero(bits) for bits in tables], np.int64))
        return np.asarray(ones + secret(law.draw(noise, len(tables))))


@dataclass(frozen=True)
class BitCount:
    """A noisy number of ones among `entries` bits of these laws.

    It estimates the part of the entries whose users came.
    """

    entries: int
    laws: ResponseLaw
    noise: DiscreteLaplace

    def estimate_part(self, ones: int) -> float:
        """Return the unbiased estimate."""
        return float((Fraction(ones, self.entries) - self.laws.absent) / self.laws.gap)

    def variance(self, part: Number) -> Number:
        """Return the variance of `estimate_part`, if `part` is the truth of these entries."""
        gap = float(self.laws.gap)
        weight = 1 / (self.entries * gap * gap)
        return (self._bit_variance(part) + self.noise.variance / self.entries) * weight

    def _bit_variance(self, part: Number) -> Number:
        absent, present = float(self.laws.absent), float(self.laws.present)
        return part * present * (1 - present) + (1 - part) * absent * (1 - absent)

    def deviations(self) -> list[Deviation]:
        weight = 1 / (self.entries * float(self.laws.gap))
        chances = np.array([float(self.laws.absent), float(self.laws.present)])
        bits = build_response_deviation(self.entries, weight, chances, 0 * chances)
        return [bits, NoiseDeviation(weight, self.noise)]

    def build_occupancy_region(self, part: float, occupied: CellOccupancy) -> OccupancyRegion:
        """Return the possible loads, if users fell into these cells at random."""
        return OccupancyRegion(occupied, part, partial(self._cell_deviations, occupied))

    def _cell_deviations(self, occupied: CellOccupancy, low: float, high: float) -> list[Deviation]:
        """Return the parts of the error, if the mean occupied part is between these.

        Ones are coins (see `occupancy`).
        """
        absent, gap, m = float(self.laws.absent), float(self.laws.gap), self.entries
        ends = [self._bit_variance(part) for part in (low, high)]
        cells = [(gap * m) ** 2 * each for each in occupied.variance_range(low, high)]
        numbers = m * min(ends) + cells[0], m * max(ends) + cells[1]
        least = min(self._bit_variance(part) for part in (0.0, 1.0))
        weight = 1 / (m * gap)
        coins = Coins(m, weight, (absent + gap * low, absent + gap * high), numbers, least)
        return [coins, NoiseDeviation(weight, self.noise)]


EPSILON_STEPS = 2**40  # a loss of sums is a whole number of these parts of 1


def max_bit_probability(response: ResponseLaw, intrusions: int) -> Fraction:
    """Return P: the largest chance that a bit has of a value, given all observations."""
    absent, present = response.absent, response.present
    most = max(absent, 1 - absent, present, 1 - present)
    if not intrusions or most == 1:
        return most
    odds = most / (1 - most) * max(present / absent, (1 - absent) / (1 - present))
    return odds / (1 + odds)


def amplified_epsilon(epsilon: Fraction, chance: Fraction) -> Fraction:
    """Return at most log(1 + (e^epsilon - 1)/chance), close to it, at least `epsilon`.

    >>> [round(float(amplified_epsilon(Fraction(1, 2), chance)), 6) for chance in (Fraction(1), Fraction(2, 3))]
    [0.5, 0.679597]
    """
    most = 1 + expm1_lower_bound(epsilon) / chance
    steps = floor(log1p(float(most - 1)) * EPSILON_STEPS)
    for less in (0, 1, 2**10, 2**20):
        found = Fraction(max(steps - less, 0), EPSILON_STEPS)
        low = enclose_exp_minus(found, PRECISION_BITS).low
        if low and found > epsilon and Fraction(2**PRECISION_BITS, low) <= most:
            return found
    return epsilon


@dataclass(frozen=True)
class BitTableMechanism(TableMechanism[NoisyTable, PanPrivateEstimate]):
    """A claim over a table of bits, whose estimate is from the number of ones.

    Announced intrusions send every bit through the channel 0 -> absent, 1 -> present, before the hand-over and
    after it. From then on users who come are drawn from the image of `present`.
    """

    @cached_property
    def response(self) -> ResponseLaw:
        """The laws of an entry, which are the channel of announced intrusions too."""
        return build_response_law(self.law, self.entry_epsilon)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Noise of a number of ones.

        `output_loss` is for the part of it that the chance of bits leaves.
        """
        left = self.releases * self.output_loss.epsilon / self.entries_per_unit
        chance = max_bit_probability(self.response, self.intrusions)
        return DiscreteLaplace(self.releases / amplified_epsilon(left, chance))

    def laws_after(self, intrusions: int) -> ResponseLaw:
        """Return the laws of an entry after so many announced intrusions."""
        return self.response.compose(self.response, 2 * intrusions)

    def check_law(self) -> None:
        _ = self.response, self.noise

    def blank_table(self, width: int) -> NoisyTable:
        return NoisyTable(np.zeros(width, np.uint8))

    def initial(self, noise: RandomSource) -> NoisyTable:
        return NoisyTable(noise.coins(self.response.absent, self.entries))

    def rerandomize(self, state: NoisyTable, before: int, noise: RandomSource) -> None:
        apply_channel(state, self.response, noise)


@dataclass(frozen=True)
class Density(BitTableMechanism):
    """The part of the universe that has come; see the module's claim."""

    def add_users(self, state: NoisyTable, users: Any, intrusions: int, noise: RandomSource) -> None:
        present = self.laws_after(intrusions).present
        for piece in split_batch(users, LARGE_PIECE_ITEMS):
            with WipedArrays() as secret:
                redraw_bits(state.entries, self.users.find_places(piece, secret), present, noise)

    def release(self, state: NoisyTable, noise: RandomSource) -> Ints:
        return count_noisy_ones([state.entries], self.noise, noise)

    def build_bit_count(self, intrusions: int) -> BitCount:
        return BitCount(self.entries, self.laws_after(intrusions), self.noise)

    def build_estimate(self, released: Ints, intrusions: int) -> PanPrivateEstimate:
        count = self.build_bit_count(intrusions)
        value = count.estimate_part(int(released[0]))
        if self.hashed:
            occupied = CellOccupancy(self.universe, self.entries)
            region, value = count.build_occupancy_region(value, occupied), float(occupied.estimate_load(value))
            return PanPrivateEstimate(value, self.stddev(value, intrusions), self.universe, region, highest=inf)
        parts = [*count.deviations(), *build_sampling_deviation(1.0, self.entries, self.universe)]
        stddev = self.stddev(min(max(value, 0.0), 1.0), intrusions)
        return PanPrivateEstimate(value, stddev, self.universe, SymmetricRegion(value, parts))

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """Return the standard error if `value` is the truth; without one, the largest.

        For hashed users the default is a load of 1.
        """
        check_prediction(self, value, intrusions)
        count = self.build_bit_count(intrusions)
        if self.hashed:
            load = 1.0 if value is None else value
            return float(CellOccupancy(self.universe, self.entries).stddev(load, count.variance))
        ends = count.variance(0.0), count.variance(1.0)
        bent = sampling_factor(self.entries, self.universe)
        at = max_quadratic(*ends, bent) if value is None else value
        return sqrt(count.variance(at) + bent * at * (1 - at))
