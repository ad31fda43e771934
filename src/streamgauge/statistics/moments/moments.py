"""Increments of an event to a mean or a variance, and their sensitivity.

They are multiples of 1, u and u^2.
A value x on the grid becomes u = (x - c)/H in [-1, 1], c the middle of the bounds and H half their distance.
In whole numbers: with R places between the bounds, r = 2 x - lower - upper runs from -R to R in steps of
2, and u = r/R. An event adds to each channel of its group a row of whole numbers times (1, u, u^2) R^2:

    a R^2 + b R r + c r^2       for a row (a, b, c)

All channels have noise of one scale. Sums of 1, u and u^2 are decoded by the inverse of the rows. So the rows
determine how the channels share the loss, and channels that mix the moments can share it better than others.

Reach
    The joint one, computed over all values r. If |u| is large, a sum moves far and centred squares move
    little: in L1, the channels 1, u and u^2 - 7/8 move by 2.125, while the sum of the worst of each is 3.
    Without squares all moves are linear in r, and the farthest are at the bounds.
    Two values of one event in its place move u and u^2, the count not at all. All pairs are enumerated by
    their sum (see `replacement_sensitivity`). Channels u and u^2 have 2.25 in L1, and separately they have 3.

Reference
    "Private aggregates on streams", Algorithms 3 and 4: counters of the raw values and squares, without a
    range, with 0 for a missing value and a budget that is spent three times.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Grid, Ints, NoiseSum
from streamgauge.privacy import Sensitivity
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.estimate import Floats, add_blocks, noise_stddevs
from streamgauge.statistics.events import Column
from streamgauge.statistics.moments.intervals import ChannelRows, MomentSums, SquareSums
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, Weights, unit_sensitivity

MAX_SQUARED_PLACES = 2**12  # of a grid whose squares are counted: they fit 64 bits with 2^30 events to spare
R = TypeVar("R")
Objects = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Moments:
    """Channels that are whole multiples, `rows`, of powers of u from `first_power` on."""

    grid: Grid
    rows: ChannelRows
    first_power: int = 0  # 0, or 1 if counts are public

    @property
    def places(self) -> int:
        """R, the places between the bounds."""
        return self.grid.last - self.grid.first

    @property
    def middle_value(self) -> float:
        """c, the middle of the bounds."""
        return float(self.grid.lower + self.grid.upper) / 2

    @property
    def half_range(self) -> float:
        """H, half the distance of the bounds."""
        return float(self.grid.upper - self.grid.lower) / 2

    @property
    def top_power(self) -> int:
        """Highest power, whose multiple is counted as it is."""
        return self.first_power + len(self.rows) - 1

    def compute_amounts(self, integers: Ints | Objects) -> Ints | Objects:
        """Return the increments of values on the grid, one row per channel."""
        r = 2 * integers - self.grid.first - self.grid.last
        powers = range(self.first_power, self.top_power + 1)
        moments = [self.places ** (self.top_power - power) * r**power for power in powers]
        return np.array([sum(a * moment for a, moment in zip(row, moments, strict=True)) for row in self.rows])

    @cached_property
    def power_weights(self) -> Weights:
        """Increments as multiples of 1, i and i^2, for r = 2 i - (first + last)."""
        ends = self.grid.first + self.grid.last
        powers = [(1, 0, 0), (-ends, 2, 0), (ends**2, -4 * ends, 4)][: self.top_power + 1]
        scaled = [self.places ** (self.top_power - power) * np.array(row, object) for power, row in enumerate(powers)]
        made = [sum(a * moment for a, moment in zip(row, scaled[self.first_power :], strict=True)) for row in self.rows]
        return tuple(tuple(int(weight) for weight in channel[: self.top_power + 1]) for channel in made)

    @property
    def centre_place(self) -> int:
        """Place on the grid of an item that is not a number, if dropping it would leak."""
        return (self.grid.first + self.grid.last) // 2

    def build_increments(self, values: Column, groups: Ints, width: int) -> Increments:
        """Return the increments of a column.

        An item that is not a number is dropped or, if that would leak, is the middle.
        """
        there = self.grid.find_present(values)
        integers = np.where(there, self.grid.integers(values), self.centre_place)
        events = np.arange(len(integers)) if self.first_power else np.flatnonzero(there)
        places = groups[events][:, None] + width * np.arange(len(self.rows))
        return Increments(events, places, self.compute_amounts(integers[events]).T.astype(np.int64))

    @cached_property
    def decoder(self) -> Floats:
        """Matrix from channels to sums of the powers of u."""
        scale = float(self.places**self.top_power)
        return np.linalg.inv(np.array(self.rows, np.float64)) / scale

    @property
    def count(self) -> "ChannelCombination":
        """Number of events, if it is counted."""
        return self._combine_channels(self._integer_decoder[0], Fraction(1))

    @property
    def total(self) -> "ChannelCombination":
        """Sum of the values. If the number is public, minus as many values at the middle."""
        mean = self.places * self._integer_decoder[1 - self.first_power]
        ends = 0 if self.first_power else (self.grid.first + self.grid.last) * self._integer_decoder[0]
        return self._combine_channels(mean + ends, self.grid.step / 2)

    @cached_property
    def _integer_decoder(self) -> Objects:
        """Decoder in whole numbers: times R^top and the absolute determinant of the rows."""
        rows = np.array(self.rows, np.float64)
        whole: Objects = np.rint(np.linalg.inv(rows) * abs(np.linalg.det(rows))).astype(np.int64).astype(object)
        return whole

    def _combine_channels(self, weights: Objects, unit: Fraction) -> "ChannelCombination":
        common, determinant = gcd(*weights), round(abs(np.linalg.det(np.array(self.rows, np.float64))))
        scale = unit * common / (determinant * self.places**self.top_power)
        return ChannelCombination(tuple(weight // common for weight in weights), float(scale))

    def decode_sums(self, noisy: NoisySums) -> MomentSums:
        """Return noisy numbers and sums of u, each (ticks, width).

        Public numbers are exact.
        """
        found, covariance = self._decode(noisy)
        return MomentSums(found[0], found[1], np.sqrt(covariance[0, 0]), np.sqrt(covariance[1, 1]))

    def decode_squares(self, noisy: NoisySums) -> SquareSums:
        """Return the same with the sums of u^2."""
        found, covariance = self._decode(noisy)
        return SquareSums(self.decode_sums(noisy), found[2], np.sqrt(covariance[2, 2]), covariance[0, 2])

    def predict_sums(self, spread: float, count: float, mean: float) -> MomentSums:
        """Return the expected sums of `count` events of a mean, without their noise."""
        covariance = self._covariance() * spread**2
        known = np.array([count]), np.array([count * mean])
        return MomentSums(*known, np.sqrt(covariance[:1, 0]), np.sqrt(covariance[1:2, 1]))

    def predict_squares(self, spread: float, count: float, mean: float, variance: float) -> SquareSums:
        """Return the same with sums of u^2."""
        covariance = self._covariance() * spread**2
        square = np.array([count * (mean**2 + variance)])
        shared = covariance[:1, 2]
        return SquareSums(self.predict_sums(spread, count, mean), square, np.sqrt(covariance[2:3, 2]), shared)

    def _covariance(self) -> Floats:
        """Return the noise covariance of the sums of powers of u.

        Each channel has independent noise of variance 1.
        """
        full = np.zeros((self.top_power + 1, self.top_power + 1))
        full[self.first_power :, self.first_power :] = self.decoder @ self.decoder.T
        return full

    def _decode(self, noisy: NoisySums) -> tuple[list[Floats], Floats]:
        """Return sums of powers of u, and the covariance of their noise.

        The covariance is (powers, powers, ticks, 1).
        """
        found = [*np.einsum("pc,tcw->ptw", self.decoder, noisy.channels)]
        covariance = self._covariance()[:, :, None, None] * noise_stddevs(noisy.noises) ** 2
        return [noisy.counts, *found] if self.first_power else found, covariance

    @cached_property
    def event_sensitivity(self) -> Sensitivity:
        """Reach of an event's presence."""
        return max_sensitivity(self._extreme_amounts, len(self.rows))

    @cached_property
    def replacement_sensitivity(self) -> Sensitivity:
        """Reach of an event whose value changes in its place, from r' to r.

        A channel moves by (r - r') times a whole number that depends on r + r' alone. So among all pairs of
        one sum, the farthest apart move farthest: by 2 R - |r + r'|.
        """
        sums = range(-2 * self.places, 2 * self.places + 1, 2) if self.top_power == 2 else [0]
        both = np.array(sums, object)
        linear = [row[1 - self.first_power] * self.places ** (self.top_power - 1) for row in self.rows]
        square = [row[2 - self.first_power] if self.top_power == 2 else 0 for row in self.rows]
        rates = [b + c * both for b, c in zip(linear, square, strict=True)]
        return max_sensitivity((2 * self.places - abs(both)) * np.array(rates, object), len(self.rows))

    @property
    def _extreme_amounts(self) -> Objects:
        """Increments of every value on the grid, or of its ends if none is farther.

        They do not wrap.
        """
        values = range(self.grid.first, self.grid.last + 1, 1 if self.top_power == 2 else self.places)
        return self.compute_amounts(np.array(values, object)).astype(object)


@dataclass(frozen=True)
class ChannelCombination:
    """Sum of channels: `scale` times whole weights, so its noise law is known exactly."""

    weights: tuple[int, ...]
    scale: float

    def value(self, noisy: NoisySums) -> Floats:
        """Return the values, (ticks, width)."""
        weights = np.array([float(weight) for weight in self.weights])
        return np.asarray(np.einsum("c,tcw->tw", weights, noisy.channels) * self.scale)

    def noise(self, channel: NoiseSum) -> NoiseSum:
        """Return the noise of the sum, from that of one channel."""
        return add_blocks(channel, [(1, weight) for weight in self.weights]).scale(self.scale)


@dataclass(frozen=True, kw_only=True)
class MomentStatistic(Statistic[R]):
    """Base of means, variances and summaries: channels and their sensitivity."""

    CAN_SPAN_GROUPS: ClassVar[bool] = True
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    public_counts: bool = False
    open_ticks: bool = False

    @property
    @abstractmethod
    def moments(self) -> Moments: ...

    @property
    def grid(self) -> Grid:
        return self.moments.grid

    @property
    def absent_place(self) -> int | None:
        return self.moments.centre_place if self.public_counts else None

    @property
    def power_weights(self) -> Weights:
        return self.moments.power_weights

    @property
    def channels(self) -> int:
        return len(self.moments.rows)

    @property
    def has_public_counts(self) -> bool:
        return self.public_counts

    @cached_property
    def tick_sensitivity(self) -> Sensitivity:
        single, pair = self.moments.event_sensitivity, self.moments.replacement_sensitivity
        return unit_sensitivity(self.unit, single, pair, in_place=self.public_counts, groups=self.groups_per_event)

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        return self.moments.build_increments(rows[0], groups, width)


def max_sensitivity(moves: Objects, channels: int) -> Sensitivity:
    """Return the largest sensitivity of all columns, in L1 and L2."""
    return Sensitivity(int(abs(moves).sum(axis=0).max()), int((moves**2).sum(axis=0).max()), channels)
