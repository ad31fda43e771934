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
    logarithm (`carried`). A coefficient beyond what half an empty cell would tell is cut there.

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
        return float(self.weights @ -np.cumsum(self.logarithm(tails)))

    def gradient(self, tails: Floats) -> Floats:
        """d value / d tails: with r = 1/g as a series, d l = r d g, so that all but one step cancel."""
        inverse, t = inverse_series(self.chances(tails)), len(tails)
        return np.array([float(inverse[: t - j] @ self.weights[j:]) for j in range(t)])

    def certain(self, tails: Floats) -> float:
        """Users per cell by the squares of their weights: what Poisson numbers of them would vary by."""
        logarithm = self.logarithm(tails)
        users = np.append(logarithm[1:], -logarithm.sum())
        return float(users @ np.cumsum(self.weights) ** 2)

    def near(self, tails: Floats) -> "Nearby":
        with np.errstate(all="ignore"):
            return Nearby(tails, self.chances(tails), self.gradient(tails), self.certain(tails))


class Nearby(NamedTuple):
    """Tails, and all that errors near them are made of."""

    tails: Floats
    chances: Floats
    gradient: Floats
    certain: float


@lru_cache(maxsize=16)
def near_expected(weights: bytes, entries: int, load: float, times: int) -> Nearby:
    """If so many users per cell came so many times each: the same for all laws, of which many are tried."""
    unfolded = Unfolded(np.frombuffer(weights, np.int64), entries)
    return unfolded.near(compounded(load, times, len(unfolded.weights)))


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
        value, stddev = self.unfolded.value(tails), self._stddev(self.unfolded.near(tails))
        within = Carried(value, self.weights, tails, self._of_a_tail(), self.cells)
        return Estimated(value, stddev, universe, within, highest=inf)

    def _of_a_tail(self) -> list[Deviation]:
        """What is between one tail and its mean: the bits of a t-th of the entries, noise, and which cells
        users fell into. The more users, the larger the count of a cell: which cells were met more than j
        times is negatively associated."""
        chances = np.array([float(self.laws.absent), float(self.laws.present)]) / len(self.weights)
        bits = Responses(self.entries, self._slope, chances, 1 / len(self.weights) - chances)
        cells = Drawn(1.0, self.entries, inf, 0.25 / self.entries)
        return [bits, Noise(self._slope, self.noise), cells]

    def stddev_at(self, value: float, times: int) -> float:
        """If as many users as make this value came so many times each."""
        reached = int(self.weights[:times].sum())
        weights = self.weights.astype(np.int64).tobytes()
        return self._stddev(near_expected(weights, self.entries, value / reached, times))

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
        bits = self.entries * np.maximum(scaled @ scaled / t - chances @ means**2, 0.0)
        reached = np.append(0.0, np.cumsum(gradient))
        spread = np.maximum(chances @ reached**2 - (chances @ reached) ** 2, 0.0) / self.entries
        return float(bits + self.noise.variance * (scaled @ scaled) + spread)


def log_series(series: Floats, most: float = inf) -> Floats:
    """The logarithm of a power series that begins above 0; coefficients beyond `most` are cut there."""
    found = np.zeros(len(series))
    found[0] = log(series[0])
    for j in range(1, len(series)):
        inner = np.arange(1, j) * found[1:j]
        exact = (series[j] - float(inner @ series[j - 1 : 0 : -1]) / j) / series[0]
        found[j] = min(max(exact, -most), most)
    return found


def inverse_series(series: Floats) -> Floats:
    """One over a power series."""
    found = np.zeros(len(series))
    found[0] = 1 / series[0]
    for j in range(1, len(series)):
        found[j] = -float(series[1 : j + 1] @ found[j - 1 :: -1][:j]) / series[0]
    return found


def compounded(load: float, times: int, length: int) -> Floats:
    """P(N > j) for j < length, if users come so many times each and a cell has a Poisson number of them."""
    users = np.arange(length) // times
    rate = log(max(load, 1e-300))
    chances = np.array([exp(n * rate - load - lgamma(n + 1)) for n in range(int(users[-1]) + 1)])
    return np.asarray(1 - np.cumsum(chances)[users])
