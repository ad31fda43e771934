"""Table of cycles: visit counts of users, up to t, in two bytes for each.

    start       c_x uniform in 0..t-1, b_x ~ absent
    x appears   c_x increases by 1 modulo t; when it wraps to 0, b_x ~ present

After n appearances c_x is uniform still. Given c_x = j it has wrapped if and only if n > j: it began at j - n modulo t.
So the entries with c_x = j are randomised responses to "has x come more than j times?", for j = 0..t-1 at once, each
of a t-th of the users. With s_j the sum of 2 b_x - 1 over them,

    E s_j = (m/t) [2 absent - 1 + 2 gap P(n > j)]

A release is a sum of weights w_j in {-1, 0, 1} times s_j, under noise. It estimates the mean over users of
T(n) = base + sum of w_j for j < min(n, t).

Hashed users share cells, whose counts are sums of theirs. All s_j are released, each under the same noise: an entry
is in one of them, so that all together move by ENTRY_SENSITIVITY. `collisions` estimates visit counts of users from
them, unbiased to first order. Long cycles of crowded cells say nothing: their intervals are unbounded.

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `mechanism`. (c_x, b_x) has the law uniform x absent or present, for any n: any two differ by
    at most e^entry_epsilon. An entry adds -1, 0 or 1 to a release: it moves it by ENTRY_SENSITIVITY = 2 at most.
    Announced: an entry stays with chance k and else is drawn from uniform x present, the law that appearances
    leave as it is. Two rows of that channel, or two laws of its output and any appearances, differ by at most
    1 + k/((1 - k) r), where r = min(present, 1 - present)/t is the least chance in it: k is such that this is
    at most e^entry_epsilon. (c_x alone, shown twice, would reveal the number of visits in between.)

Error
    Unbiased. The variance of a release is m times the mean over users of |w|/t - M(n)^2, plus the noise,
    where |w| is the number of weights that are not 0 and M(n) = [(2 absent - 1) sum w + 2 gap T(n)]/t the
    mean of an entry's part. An announced intrusion leaves `present` as it is and multiplies the gap by k^2,
    about (tanh(e/2)/t)^2: costly, but unbiased. Two bytes an entry, t up to MAX_CYCLE_STEPS.

Reference
    The cycle and its bit are those of the t-cropped mean of Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010.
    They get the users who came k times or more from two such tables, at half the loss each and errors that
    grow with k^2. That c_x shows which entries have wrapped, so that one table is enough, and the channel, are
    of this library.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.validation import check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import DiscreteLaplace, Ints, RandomSource
from streamgauge.noise.bernoulli import round_down_dyadic
from streamgauge.panprivate.collisions import CollisionEstimator
from streamgauge.panprivate.error_bounds import (
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
from streamgauge.panprivate.randomised_response import ResponseLaw, build_response_law, expm1_lower_bound
from streamgauge.panprivate.run import NoisyTable
from streamgauge.panprivate.users import PIECE_ITEMS, split_batch
from streamgauge.panprivate.validation import check_prediction

MAX_CYCLE_STEPS = 2**14  # c_x and the appearances of one piece add up in 15 bits
UINT16_TWO = np.uint16(2)
UINT16_ONE = np.uint16(1)

Entries = npt.NDArray[np.uint16]  # 2 c_x + b_x
assert PIECE_ITEMS + MAX_CYCLE_STEPS <= 2**15


@dataclass(frozen=True)
class Cycle:
    """Cycles of `length` steps, under the laws of `response`, for `epsilon` an entry."""

    length: int
    response: ResponseLaw
    epsilon: Fraction = field(repr=False)

    @cached_property
    def keep_probability(self) -> Fraction:
        """The chance of an entry to stay in the channel of announced intrusions."""
        rarest = min(self.response.present, 1 - self.response.present) / self.length
        odds = expm1_lower_bound(self.epsilon) * rarest
        return round_down_dyadic(odds / (1 + odds))

    def laws_after(self, intrusions: int) -> ResponseLaw:
        """Return the laws of a bit after so many announced intrusions.

        The channel moves them towards `present`.
        """
        present = self.response.present
        return ResponseLaw(present - self.keep_probability ** (2 * intrusions) * self.response.gap, present)

    def initial_table(self, entries: int, noise: RandomSource) -> NoisyTable:
        table = NoisyTable(np.empty(entries, np.uint16))
        for part in table.iterate_chunks():
            with WipedArrays() as secret:
                np.copyto(part, secret(self._draw_entries(self.response.absent, len(part), noise)))
        return table

    def _draw_entries(self, chance: Fraction, size: int, noise: RandomSource) -> Entries:
        """Return uniform cycles with bits of this chance."""
        with WipedArrays() as secret:
            bits = secret(noise.coins(chance, size))
            turns = secret(noise.uniform(self.length, size)).astype(np.uint16)
            turns *= UINT16_TWO
            turns += secret(bits.astype(np.uint16))
            return turns

    def advance(self, table: NoisyTable, places: Ints, noise: RandomSource) -> None:
        """Add at most PIECE_ITEMS appearances, repeated and in any order."""
        with WipedArrays() as secret:
            bits = secret(noise.coins(self.response.present, len(places)))  # before entries move, should it fail
            np.add.at(table.entries, places, UINT16_TWO)
            entries = secret(table.entries.take(places, mode="clip"))
            turns = secret(entries >> UINT16_ONE)
            laps = secret(turns // np.uint16(self.length))
            bits ^= secret(entries.astype(np.uint8))
            bits &= secret(np.minimum(laps, UINT16_ONE).astype(np.uint8))  # where it came round, what to change
            laps *= np.uint16(2 * self.length)
            entries -= laps
            entries ^= secret(bits.astype(np.uint16))
            table.entries[places] = entries

    def apply_channel(self, table: NoisyTable, noise: RandomSource) -> None:
        """Send every entry through the channel."""
        for part in table.iterate_chunks():
            with WipedArrays() as secret:
                fresh = secret(self._draw_entries(self.response.present, len(part), noise))
                lost = secret(noise.coins(1 - self.keep_probability, len(part)))
                np.copyto(part, fresh, where=lost.view(np.bool_))


@dataclass(frozen=True)
class CycleTableMechanism(TableMechanism[NoisyTable, PanPrivateEstimate]):
    """A mean over users of a function of their visit counts.

    `weights` define the function: T(n) = base + sum of w_j for j < min(n, t). See `cycle` for the promise.
    """

    ENTRY_SENSITIVITY: ClassVar[int] = 2  # the most that one entry moves a release
    VISITS_SETTING: ClassVar[str]  # the setting that is a number of visits
    EXTRA_STEPS: ClassVar[int] = 0  # steps of a cycle beyond that number

    def __post_init__(self) -> None:
        name, value = self.VISITS_SETTING, getattr(self, self.VISITS_SETTING)
        check_whole(name, value, 1 - self.EXTRA_STEPS)
        most = MAX_CYCLE_STEPS - self.EXTRA_STEPS
        if value > most:
            raise ValueError(f"{name} must be at most {most}, since an entry has two bytes, got {value}")
        super().__post_init__()

    @property
    def length(self) -> int:
        """t: further appearances make no difference."""
        return int(getattr(self, self.VISITS_SETTING)) + self.EXTRA_STEPS

    @property
    @abstractmethod
    def weights(self) -> Ints:
        """w_j in {-1, 0, 1} for j < t."""

    @property
    def base_value(self) -> int:
        """T(0)."""
        return 0

    def check_law(self) -> None:
        _ = self.cycle.keep_probability, self.noise

    @cached_property
    def cycle(self) -> Cycle:
        epsilon = self.entry_epsilon
        return Cycle(self.length, build_response_law(self.law, epsilon), epsilon)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.ENTRY_SENSITIVITY * self.entries_per_unit / self.output_loss.epsilon)

    def rough_stddev(self, intrusions: int) -> float:
        """Return the error of first order."""
        if self.hashed:
            return self.build_collision_estimator(intrusions).stddev_at(1.0, self.typical_visits)
        return self.stddev(intrusions=intrusions)

    def blank_table(self, width: int) -> NoisyTable:
        return NoisyTable(np.zeros(width, np.uint16))

    def initial(self, noise: RandomSource) -> NoisyTable:
        return self.cycle.initial_table(self.entries, noise)

    def add_users(self, state: NoisyTable, users: Any, intrusions: int, noise: RandomSource) -> None:
        for piece in split_batch(users):
            with WipedArrays() as secret:
                self.cycle.advance(state, self.users.find_places(piece, secret), noise)

    def rerandomize(self, state: NoisyTable, before: int, noise: RandomSource) -> None:
        self.cycle.apply_channel(state, noise)

    def release(self, state: NoisyTable, noise: RandomSource) -> Ints:
        """Release the weighted sum or, if users share cells, every s_j.

        An entry is in one of them.
        """
        with WipedArrays() as secret:
            counts = secret(state.count_values(2 * self.length))
            signed = secret(counts[1::2] - counts[::2])
            sums = signed if self.hashed else secret(self.weights[None] @ signed)
            return np.asarray(sums + secret(self.noise.draw(noise, len(sums))))

    def build_estimate(self, released: Ints, intrusions: int) -> PanPrivateEstimate:
        laws = self.cycle.laws_after(intrusions)
        if self.hashed:
            return self.build_collision_estimator(intrusions).estimate(released, self.universe)
        mean = Fraction(self.length * int(released[0]), self.entries) - self._absent_mean(laws)
        value = self.base_value + float(mean / (2 * laws.gap))
        stddev = self.stddev(min(max(value, 0.0), self.highest), intrusions)
        region = SymmetricRegion(value, self._deviations(intrusions))
        return PanPrivateEstimate(value, stddev, self.universe, region, highest=self.highest)

    def build_collision_estimator(self, intrusions: int) -> CollisionEstimator:
        laws = self.cycle.laws_after(intrusions)
        return CollisionEstimator(self.weights, self.entries, self.universe, laws, self.noise)

    @property
    def typical_visits(self) -> int:
        """The number of visits of users in predictions for shared cells."""
        return self.length

    def _absent_mean(self, laws: ResponseLaw) -> Fraction:
        """Return t times the mean part of a user who never came in a release."""
        return (2 * laws.absent - 1) * int(self.weights.sum())

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """Return the standard error if `value` is the truth; without one, the largest.

        Hashed: the larger of two cases, if all users came `typical_visits` times, and if all came once. Without a
        value, at 1. If first order says little, the most that an estimate can be off.
        """
        check_prediction(self, value, intrusions)
        if self.hashed:
            estimator = self.build_collision_estimator(intrusions)
            return estimator.predict_stddev(1.0 if value is None else value, self.typical_visits)
        ends = self._response_variance(0.0, intrusions), self._response_variance(self.highest, intrusions)
        bent = self.variance_gain + sampling_factor(self.entries, self.universe) * self.highest**2
        at = max_quadratic(*ends, bent) if value is None else value / self.highest
        return sqrt(ends[0] + (ends[1] - ends[0]) * at + bent * at * (1 - at))

    def _response_variance(self, end: float, intrusions: int) -> float:
        """Return the variance of entries and noise, if T is the same for all users."""
        laws, t = self.cycle.laws_after(intrusions), self.length
        mean = float(self._absent_mean(laws) + 2 * laws.gap * Fraction(end - self.base_value)) / t
        each = int(np.abs(self.weights).sum()) / t - mean**2
        return (each + self.noise.variance / self.entries) * (t / (2 * float(laws.gap))) ** 2 / self.entries

    @property
    def variance_gain(self) -> float:
        """Gain of the variance over the straight line between its ends.

        It is for users who came equally often.
        """
        return 0.0

    def _deviations(self, intrusions: int) -> list[Deviation]:
        """Return the parts of the error.

        An entry adds 1 or -1 with chances for users who came 0, 1, ..., t times.
        """
        laws, m = self.cycle.laws_after(intrusions), self.entries
        weight = self.length / (2 * float(laws.gap) * m)
        absent, present = float(laws.absent), float(laws.present)
        up, down = (self.weights > 0).astype(np.float64), (self.weights < 0).astype(np.float64)
        moved = np.concatenate([[0.0], np.cumsum((up - down) * (present - absent))])
        plus = ((up * absent + down * (1 - absent)).sum() + moved) / self.length
        minus = (up + down).sum() / self.length - plus
        sample = build_sampling_deviation(self.highest, m, self.universe)
        return [build_response_deviation(m, weight, plus, minus), NoiseDeviation(weight, self.noise), *sample]
