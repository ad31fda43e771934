"""What an event adds to a mean or a variance: whole multiples of 1, u and u^2, and how far that reaches.

A value x on the grid becomes u = (x - c)/H in [-1, 1], c the middle of the bounds and H half their distance.
In whole numbers: with R places between the bounds, r = 2 x - lower - upper runs from -R to R in steps of
2, and u = r/R. An event adds to each channel of its group a row of whole numbers times (1, u, u^2) R^2:

    a R^2 + b R r + c r^2       for a row (a, b, c)

All channels have noise of one scale. Sums of 1, u and u^2 are decoded by the inverse of the rows; so the rows
say how the loss is shared, and channels that mix the moments can share it better than any that do not.

Reach
    The joint one, by going through all values r: where |u| is large, a sum is moved far and squares that are
    centred are moved little: in L1, the channels 1, u and u^2 - 7/8 by 2.125, where 3 is the sum of the worst
    of each.
    Without squares all moves are linear in r, and the farthest are at the bounds.
    Two values of one event in its place move u and u^2, the count not at all; all pairs are gone through by
    their sum (see `pair`). Channels u and u^2 have 2.25 in L1, where by themselves they have 3.

Reference
    "Private aggregates on streams", Algorithms 3 and 4: counters of the raw values and squares, without a
    range, with 0 for a missing value and a budget that is spent three times.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Grid, Ints, NoiseSum
from streamgauge.privacy import Reach
from streamgauge.statistics.columns import Column
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.noises import added, spreads
from streamgauge.statistics.power_sums import Weights
from streamgauge.statistics.ratio import Rows, Sums
from streamgauge.statistics.reaches import unit_reach
from streamgauge.statistics.spread import Squares
from streamgauge.statistics.statistic import Marks, Statistic, Told

MOST_PLACES = 2**12  # of a grid whose squares are counted: they fit 64 bits with 2^30 events to spare
R = TypeVar("R")
Objects = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Moments:
    """Channels that are whole multiples, `rows`, of the powers `first`, first + 1, ... of u."""

    grid: Grid
    rows: Rows
    first: int = 0  # 0, or 1 where counts are public

    @property
    def places(self) -> int:
        """R."""
        return self.grid.last - self.grid.first

    @property
    def middle(self) -> float:
        """c."""
        return float(self.grid.lower + self.grid.upper) / 2

    @property
    def half(self) -> float:
        """H."""
        return float(self.grid.upper - self.grid.lower) / 2

    @property
    def top(self) -> int:
        """The highest power, whose multiple is counted as it is."""
        return self.first + len(self.rows) - 1

    def amounts(self, integers: Ints | Objects) -> Ints | Objects:
        """What values on the grid add to each channel, one row per channel."""
        r = 2 * integers - self.grid.first - self.grid.last
        powers = range(self.first, self.top + 1)
        moments = [self.places ** (self.top - power) * r**power for power in powers]
        return np.array(
            [sum(a * moment for a, moment in zip(row, moments, strict=True)) for row in self.rows]
        )

    @cached_property
    def power_weights(self) -> Weights:
        """The same as multiples of 1, i and i^2, for r = 2 i - (first + last)."""
        ends = self.grid.first + self.grid.last
        powers = [(1, 0, 0), (-ends, 2, 0), (ends**2, -4 * ends, 4)][: self.top + 1]
        scaled = [
            self.places ** (self.top - power) * np.array(row, object) for power, row in enumerate(powers)
        ]
        made = [
            sum(a * moment for a, moment in zip(row, scaled[self.first :], strict=True)) for row in self.rows
        ]
        return tuple(tuple(int(weight) for weight in channel[: self.top + 1]) for channel in made)

    @property
    def centre(self) -> int:
        """The place on the grid that what is no number has, where dropping it would tell."""
        return (self.grid.first + self.grid.last) // 2

    def marks(self, values: Column, groups: Ints, width: int) -> Marks:
        """What a column adds; what is no number is dropped or, if that would tell, is the middle."""
        there = self.grid.present(values)
        integers = np.where(there, self.grid.integers(values), self.centre)
        events = np.arange(len(integers)) if self.first else np.flatnonzero(there)
        places = groups[events][:, None] + width * np.arange(len(self.rows))
        return Marks(events, places, self.amounts(integers[events]).T.astype(np.int64))

    @cached_property
    def decoder(self) -> Floats:
        """From channels to sums of the powers of u."""
        scale = float(self.places**self.top)
        return np.linalg.inv(np.array(self.rows, np.float64)) / scale

    @property
    def count(self) -> "Combination":
        """The number of events, where it is counted."""
        return self._combined(self._whole[0], Fraction(1))

    @property
    def total(self) -> "Combination":
        """The sum of the values, less that of as many at the middle where the number is public."""
        mean = self.places * self._whole[1 - self.first]
        ends = 0 if self.first else (self.grid.first + self.grid.last) * self._whole[0]
        return self._combined(mean + ends, self.grid.step / 2)

    @cached_property
    def _whole(self) -> Objects:
        """The decoder in whole numbers: times R^top and the determinant of the rows, its sign left out."""
        rows = np.array(self.rows, np.float64)
        whole: Objects = (
            np.rint(np.linalg.inv(rows) * abs(np.linalg.det(rows))).astype(np.int64).astype(object)
        )
        return whole

    def _combined(self, weights: Objects, unit: Fraction) -> "Combination":
        common, determinant = gcd(*weights), round(abs(np.linalg.det(np.array(self.rows, np.float64))))
        scale = unit * common / (determinant * self.places**self.top)
        return Combination(tuple(weight // common for weight in weights), float(scale))

    def sums(self, told: Told) -> Sums:
        """Noisy numbers and sums of u, each (ticks, width); numbers as they are, where they are public."""
        found, covariance = self._decoded(told)
        return Sums(found[0], found[1], np.sqrt(covariance[0, 0]), np.sqrt(covariance[1, 1]))

    def squares(self, told: Told) -> Squares:
        """The same with the sums of u^2."""
        found, covariance = self._decoded(told)
        return Squares(self.sums(told), found[2], np.sqrt(covariance[2, 2]), covariance[0, 2])

    def expected(self, spread: float, count: float, mean: float) -> Sums:
        """Sums as they are to be expected of so many events of a mean, without their noise."""
        covariance = self._covariance() * spread**2
        known = np.array([count]), np.array([count * mean])
        return Sums(*known, np.sqrt(covariance[:1, 0]), np.sqrt(covariance[1:2, 1]))

    def expected_squares(self, spread: float, count: float, mean: float, variance: float) -> Squares:
        """The same with sums of u^2."""
        covariance = self._covariance() * spread**2
        square = np.array([count * (mean**2 + variance)])
        shared = covariance[:1, 2]
        return Squares(self.expected(spread, count, mean), square, np.sqrt(covariance[2:3, 2]), shared)

    def _covariance(self) -> Floats:
        """Of the noise in sums of the powers of u, under independent noise of variance 1 in each channel."""
        full = np.zeros((self.top + 1, self.top + 1))
        full[self.first :, self.first :] = self.decoder @ self.decoder.T
        return full

    def _decoded(self, told: Told) -> tuple[list[Floats], Floats]:
        """Sums of the powers of u, and the covariance of their noise: (powers, powers, ticks, 1)."""
        found = [*np.einsum("pc,tcw->ptw", self.decoder, told.channels)]
        covariance = self._covariance()[:, :, None, None] * spreads(told.noises) ** 2
        return [told.counts, *found] if self.first else found, covariance

    @cached_property
    def single(self) -> Reach:
        """The reach of an event's presence."""
        return farthest(self._all, len(self.rows))

    @cached_property
    def pair(self) -> Reach:
        """The reach of an event whose value changes in its place, from r' to r.

        A channel moves by (r - r') times a whole number that depends on r + r' alone, so that of all pairs of
        one sum the farthest apart move farthest: by 2 R - |r + r'|.
        """
        sums = range(-2 * self.places, 2 * self.places + 1, 2) if self.top == 2 else [0]
        both = np.array(sums, object)
        linear = [row[1 - self.first] * self.places ** (self.top - 1) for row in self.rows]
        square = [row[2 - self.first] if self.top == 2 else 0 for row in self.rows]
        rates = [b + c * both for b, c in zip(linear, square, strict=True)]
        return farthest((2 * self.places - abs(both)) * np.array(rates, object), len(self.rows))

    @property
    def _all(self) -> Objects:
        """What every value on the grid adds, or those at its ends if none is farther; without wrapping."""
        values = range(self.grid.first, self.grid.last + 1, 1 if self.top == 2 else self.places)
        return self.amounts(np.array(values, object)).astype(object)


@dataclass(frozen=True)
class Combination:
    """A sum of channels: `scale` times whole weights, so that the law of its noise is known exactly."""

    weights: tuple[int, ...]
    scale: float

    def value(self, told: Told) -> Floats:
        """(ticks, width)."""
        weights = np.array([float(weight) for weight in self.weights])
        return np.asarray(np.einsum("c,tcw->tw", weights, told.channels) * self.scale)

    def noise(self, channel: NoiseSum) -> NoiseSum:
        """The noise of the sum, from that of one channel."""
        return added(channel, [(1, weight) for weight in self.weights]).times(self.scale)


class OfMoments(Statistic[R]):
    """What means, variances and summaries share: the channels, and how far one unit moves them."""

    public_counts: bool

    @property
    @abstractmethod
    def moments(self) -> Moments: ...

    @property
    def grid(self) -> Grid:
        return self.moments.grid

    @property
    def absent(self) -> int | None:
        return self.moments.centre if self.public_counts else None

    @property
    def power_weights(self) -> Weights:
        return self.moments.power_weights

    @property
    def channels(self) -> int:
        return len(self.moments.rows)

    @property
    def counts_are_public(self) -> bool:
        return self.public_counts

    @cached_property
    def reach(self) -> Reach:
        return unit_reach(self.unit, self.moments.single, self.moments.pair, in_place=self.public_counts)

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        return self.moments.marks(rows[0], groups, width)


def farthest(moves: Objects, channels: int) -> Reach:
    """The farthest of all columns, in L1 and L2."""
    return Reach(int(abs(moves).sum(axis=0).max()), int((moves**2).sum(axis=0).max()), channels)
