"""How often users came, from how often cells were met that several of them may share.

The count of a cell is the sum of the counts of its users, of whom there are a Poisson number: with l_j the
users per cell who came j times, and g_j the part of the cells that were met j times,

    sum g_j z^j = exp(sum l_j z^j),  l_0 = -(users per cell)

as power series (up to 1/cells, since users are not quite Poisson). So g_0..g_(t-1), which are the steps of
the tails P(N > j) that a table of cycles asks for, give l_0..l_(t-1) by taking a logarithm: every count
below t is exact. The value is the users per cell, each weighed by the sum of w_j over j < min(n, t).

Error
    `stddev` is of first order (delta method): the gradient of the value, times the errors of the tails (bits,
    noise), and those of g among the cells that are looked at, less what is counted of users that are there
    for certain. It is infinite where the numbers end. An interval is that of all tails, carried through the
    logarithm (`carried`). A coefficient beyond what half an empty cell would tell is cut there. Errors of
    tails that are not small beside what is empty are bent by the logarithm, and now and then by very much: an
    estimate is then not `enough`, and a prediction (`expected`) the most that an estimate can be off.

Reference
    Buchmann, Gruebel: Decompounding, Annals of Statistics 31(4), 2003, for the inversion.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np

from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.carried import Carried
from streamgauge.panprivate.deviations import Deviation, Drawn, Noise, Responses
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.randomised_response import Response
from streamgauge.panprivate.series import inverse_series, log_series, together, weighed_ahead

SMALL = 0.2  # errors of tails, times what they are multiplied by: below it first order is right to a third


@dataclass(frozen=True, eq=False)
class Unfolded:
    """What tails tell, laws and noise aside: weights of users in a table of so many entries."""

    weights: Ints
    entries: int

    def chances(self, tails: Floats) -> Floats:
        """g_0..g_(t-1), the first of which is not less than that of half a cell."""
        steps = -np.diff(np.concatenate([[1.0], tails]))
        steps[0] = max(steps[0], 0.5 / self.entries)
        return steps

    def logarithm(self, tails: Floats) -> Floats:
        return log_series(self.chances(tails), most=log(2 * self.entries))

    def value(self, tails: Floats) -> float:
        """sum_j w_j (users per cell who came more than j times)."""
        return self.sum_of(self.logarithm(tails))

    def sum_of(self, logarithm: Floats) -> float:
        return float(self.weights @ -np.cumsum(logarithm))

    def gradient(self, tails: Floats) -> Floats:
        """d value / d tails: with r = 1/g as a series, d l = r d g, so that all but one step cancel."""
        return weighed_ahead(self.weights, inverse_series(self.chances(tails)))

    def certain(self, logarithm: Floats) -> float:
        """Users per cell by the squares of their weights: what Poisson numbers of them would vary by."""
        users = np.append(logarithm[1:], -logarithm.sum())
        return float(users @ np.cumsum(self.weights) ** 2)

    def near(self, tails: Floats) -> "Nearby":
        with np.errstate(all="ignore"):
            logarithm, chances = self.logarithm(tails), self.chances(tails)
            inverse = inverse_series(chances)
            gradient, certain = weighed_ahead(self.weights, inverse), self.certain(logarithm)
            return Nearby(
                self.sum_of(logarithm), tails, chances, gradient, certain, together(inverse, inverse)
            )

    @property
    def farthest(self) -> float:
        """How far from 0 a value is at most: each coefficient is cut."""
        return log(2 * self.entries) * float(np.abs(np.cumsum(self.weights[::-1])).sum())


class Nearby(NamedTuple):
    """A value, its tails, and all that errors near them are made of."""

    value: float
    tails: Floats
    chances: Floats
    gradient: Floats
    certain: float
    steep: float  # the squares of the coefficients of 1/g together


@lru_cache(maxsize=16)
def near_expected(weights: bytes, load: float, times: int) -> Nearby:
    """If so many users per cell came so many times each: the same for all laws, of which many are tried.

    The series g is exp(load (z^times - 1)), and 1/g the same of -load, however little of it is empty.
    """
    weighed = np.frombuffer(weights, np.int64)
    chances, inverse = np.zeros(len(weighed)), np.zeros(len(weighed))
    chances[::times] = poisson(load, (len(weighed) - 1) // times)
    reached = float(weighed[:times].sum())
    with np.errstate(all="ignore"):
        signs = (-1.0) ** np.arange(len(chances[::times]))
        inverse[::times] = chances[::times] * np.exp(2 * np.float64(load)) * signs
        gradient, steep = weighed_ahead(weighed, inverse), together(inverse, inverse)
    tails = compounded(load, times, len(weighed))
    return Nearby(load * reached, tails, chances, gradient, load * reached * reached, steep)


@dataclass(frozen=True, eq=False)
class Compound:
    """Weighed users per cell, from the noisy s_j of `entries` entries among `cells`."""

    weights: Ints
    entries: int
    cells: int
    laws: Response
    noise: DiscreteLaplace

    @property
    def _slope(self) -> float:
        """By how much a tail moves with s_j."""
        return len(self.weights) / (2 * float(self.laws.gap) * self.entries)

    def estimated(self, signed: Ints, universe: int) -> Estimated:
        resting = (1 - 2 * float(self.laws.absent)) / (2 * float(self.laws.gap))
        return self.told(np.asarray(signed * self._slope + resting, np.float64), universe)

    def told(self, tails: Floats, universe: int) -> Estimated:
        """What follows from tails as they were estimated."""
        near = self.unfolded.near(tails)
        within = Carried(near.value, self.weights, tails, self._of_a_tail(), self.cells)
        enough = self._is_straight(near)
        return Estimated(near.value, self._stddev(near), universe, within, highest=inf, enough=enough)

    def _of_a_tail(self) -> list[Deviation]:
        """What is between one tail and its mean: the bits of a t-th of the entries, noise, and which cells
        users fell into. The more users, the larger the count of a cell: which cells were met more than j
        times is negatively associated."""
        chances = np.array([float(self.laws.absent), float(self.laws.present)]) / len(self.weights)
        bits = Responses(self.entries, self._slope, chances, 1 / len(self.weights) - chances)
        cells = Drawn(1.0, self.entries, inf, 0.25 / self.entries)
        return [bits, Noise(self._slope, self.noise), cells]

    def stddev_at(self, value: float, times: int) -> float:
        """To first order, if as many users as make this value came so many times each."""
        return self._stddev(self._near(value / self._reached(times), times))

    def expected(self, value: float, times: int) -> float:
        """The larger of what is to be expected of users who came so many times and of users who came once: as
        many as make this value or, if those make none, as many."""
        once = value / (self._reached(1) or self._reached(times))
        return max(self._off(self._near(value / self._reached(times), times)), self._off(self._near(once, 1)))

    def _near(self, load: float, times: int) -> Nearby:
        return near_expected(self.weights.astype(np.int64).tobytes(), load, times)

    def _reached(self, times: int) -> int:
        return int(self.weights[:times].sum())

    def _off(self, near: Nearby) -> float:
        """Of first order, unless errors of the tails are so large beside what is empty that this says little:
        then an estimate may be as far off as it can be."""
        first = self._stddev(near)
        if self._is_straight(near):
            return first
        return max(first, self.unfolded.farthest + abs(near.value))

    def _is_straight(self, near: Nearby) -> bool:
        """Whether errors of the tails are small beside what is empty."""
        t = len(self.weights)
        tail = self._slope * sqrt(self.entries / t + self.noise.variance)
        return bool(tail * sqrt(t * near.steep) <= SMALL)

    @property
    def unfolded(self) -> Unfolded:
        return Unfolded(self.weights, self.entries)

    def _stddev(self, near: Nearby) -> float:
        with np.errstate(all="ignore"):
            variance = self._variance(near) - max(near.certain, 0.0) / self.cells
        return sqrt(max(variance, 0.0)) if isfinite(variance) else inf

    def _variance(self, near: Nearby) -> float:
        """Of bits and noise, and of which cells are looked at."""
        gradient, t = near.gradient, len(near.tails)
        chances = np.append(near.chances, near.tails[-1]).clip(0, 1)
        chances /= chances.sum()
        scaled = gradient * self._slope
        absent, gap = float(self.laws.absent), float(self.laws.gap)
        means = np.append(0.0, np.cumsum(scaled)) * 2 * gap / t + (2 * absent - 1) * scaled.sum() / t
        squares = together(scaled, scaled)
        bits = self.entries * np.maximum(squares / t - together(chances, means**2), 0.0)
        reached = np.append(0.0, np.cumsum(gradient))
        centre = together(chances, reached)
        spread = np.maximum(together(chances, reached**2) - centre * centre, 0.0) / self.entries
        return float(bits + self.noise.variance * squares + spread)


def compounded(load: float, times: int, length: int) -> Floats:
    """P(N > j) for j < length, if users come so many times each and a cell has a Poisson number of them."""
    users = np.arange(length) // times
    return np.asarray(1 - np.cumsum(poisson(load, int(users[-1])))[users])


def poisson(load: float, most: int) -> Floats:
    """The chances of 0..most users."""
    rate = log(max(load, 1e-300))
    return np.array([exp(n * rate - load - lgamma(n + 1)) for n in range(most + 1)])
