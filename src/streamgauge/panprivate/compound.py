"""How often users came, from how often cells were met that several of them may share.

The count of a cell is the sum of the counts of its users, of whom there are a Poisson number: with l_j the
users per cell who came j times, and g_j the part of the cells that were met j times,

    sum g_j z^j = exp(sum l_j z^j),  l_0 = -(users per cell)

as power series (up to 1/cells, since users are not quite Poisson). So g_0..g_(t-1), which are the steps of
the tails P(N > j) that a table of cycles asks for, give l_0..l_(t-1) by taking a logarithm: every count
below t is exact. The value is the users per cell, each weighed by the sum of w_j over j < min(n, t).

Error
    Of first order (delta method): the gradient of the value, times the errors of the tails (bits, noise),
    and those of g among the cells that are looked at, less what is counted of users that are there for
    certain.

Reference
    Buchmann, Gruebel: Decompounding, Annals of Statistics 31(4), 2003, for the inversion.
"""

from dataclasses import dataclass
from math import exp, inf, lgamma, log, sqrt

import numpy as np

from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.deviations import Around, Bounded, Deviation, Noise
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.randomised_response import Response


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
        tails = np.asarray(signed * self._slope + resting, np.float64)
        value, within = self.value(tails), Around(self.value(tails), self._parts(tails))
        return Estimated(value, self._stddev(tails), universe, within, highest=inf)

    def stddev_at(self, value: float, times: int) -> float:
        """If as many users as make this value came so many times each."""
        reached = int(self.weights[:times].sum())
        return self._stddev(compounded(value / reached, times, len(self.weights)))

    def _stddev(self, tails: Floats) -> float:
        variance = sum(part.variances[1] for part in self._parts(tails))
        return sqrt(max(variance - max(self._certain(tails), 0.0) / self.cells, 0.0))

    def _certain(self, tails: Floats) -> float:
        """Users per cell by the squares of their weights: what Poisson numbers of them would vary by."""
        logarithm = log_series(self._chances(tails))
        users = np.append(logarithm[1:], -logarithm.sum())
        return float(users @ np.cumsum(self.weights) ** 2)

    def _chances(self, tails: Floats) -> Floats:
        """g_0..g_(t-1), the first of which is not less than that of half a cell."""
        steps = -np.diff(np.concatenate([[1.0], tails]))
        steps[0] = max(steps[0], 0.5 / self.entries)
        return steps

    def value(self, tails: Floats) -> float:
        """sum_j w_j (users per cell who came more than j times)."""
        logarithm = log_series(self._chances(tails))
        more = -np.cumsum(logarithm)
        return float(self.weights @ more)

    def gradient(self, tails: Floats) -> Floats:
        """d value / d tails: with r = 1/g as a series, d l = r d g."""
        inverse = inverse_series(self._chances(tails))
        beyond = np.cumsum(self.weights[::-1])[::-1].astype(np.float64)
        length = len(tails)
        steps = np.array([-(beyond[i:] @ inverse[: length - i]) for i in range(length)])
        return np.asarray(np.append(steps[1:], 0.0) - steps)

    def _parts(self, tails: Floats) -> list[Deviation]:
        gradient, t = self.gradient(tails), len(tails)
        chances = np.append(self._chances(tails), tails[-1]).clip(0, 1)
        chances /= chances.sum()
        scaled = gradient * self._slope
        absent, gap = float(self.laws.absent), float(self.laws.gap)
        means = np.append(0.0, np.cumsum(scaled)) * 2 * gap / t + (2 * absent - 1) * scaled.sum() / t
        bits = self.entries * max(float(scaled @ scaled) / t - float(chances @ means**2), 0.0)
        reached = np.append(0.0, np.cumsum(gradient))
        spread = float(chances @ reached**2 - (chances @ reached) ** 2) / self.entries
        return [
            Bounded(2 * float(np.abs(scaled).max()), bits),
            *(Noise(float(weight), self.noise) for weight in scaled if weight),
            Bounded(float(np.ptp(reached)) / self.entries, max(spread, 0.0)),
        ]


def log_series(series: Floats) -> Floats:
    """The logarithm of a power series that begins above 0."""
    found = np.zeros(len(series))
    found[0] = log(series[0])
    for j in range(1, len(series)):
        inner = np.arange(1, j) * found[1:j]
        found[j] = (series[j] - float(inner @ series[j - 1 : 0 : -1]) / j) / series[0]
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
