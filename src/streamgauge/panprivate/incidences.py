"""What one release of residues tells: a histogram of how often users came, and all that follows from it.

Every number is a sum of weights w(n_x) over users, over the universe. Residues with one weight are taken
together: `weights` are the different ones, `sizes` how many residues have each, and `shares` of the users do.
"""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.deviations import Around, Deviation, Drawn
from streamgauge.panprivate.draws import Draws
from streamgauge.panprivate.estimated import Estimated


@dataclass(frozen=True)
class Weighed:
    """`count` entries, each the weight of its residue less the mean: of the true one, or any."""

    count: int
    weight: float  # of one, in the units of the estimate
    values: Floats  # the different weights
    odds: Floats  # which part of all residues has each
    gap: float

    @property
    def _chances(self) -> Floats:
        """Of each weight, for each that a user may truly have."""
        return np.asarray(self.gap * np.eye(len(self.values)) + (1 - self.gap) * self.odds)

    @property
    def _apart(self) -> Floats:
        return np.asarray(self.values - (self._chances @ self.values)[:, None])

    def moments(self, power: int) -> Floats:
        """Of one entry, for each weight that its user may truly have; central and absolute."""
        return np.asarray((self._chances * np.abs(self._apart) ** power).sum(1)) * abs(self.weight) ** power

    @property
    def variances(self) -> tuple[float, float]:
        each = self.moments(2)
        return self.count * float(each.min()), self.count * float(each.max())

    @property
    def third(self) -> float:
        return self.count * float(self.moments(3).max())

    def log_mgf(self, tilt: float) -> float:
        return self.count * max(self._one(tilt * self.weight), self._one(-tilt * self.weight))

    def _one(self, tilt: float) -> float:
        exponents = tilt * self._apart
        top = exponents.max(1)
        return float((np.log((self._chances * np.exp(exponents - top[:, None])).sum(1)) + top).max())


@dataclass(frozen=True)
class Incidences:
    """Parts of the universe that came 0, 1, .., k-1 times modulo k: unbiased, and public, as all of it is.

    `exactly`, `at_least` and `cropped_mean` read residues as counts: they are right where nobody came k
    times.
    """

    released: tuple[int, ...]
    universe: int
    entries: int
    gap: float = field(repr=False)
    noise: DiscreteLaplace = field(repr=False)

    @property
    def modulus(self) -> int:
        return len(self.released)

    @property
    def value(self) -> Floats:
        """f_0, .., f_(k-1)."""
        bins = np.array(self.released, np.float64) / self.entries
        return np.asarray((bins - (1 - self.gap) / self.modulus) / self.gap)

    @property
    def stddev(self) -> Floats:
        """Of each, where the estimate is the truth."""
        return np.array([self.exactly(i).stddev for i in range(self.modulus)])

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds for each by itself."""
        found = [self.exactly(i).interval(confidence) for i in range(self.modulus)]
        return np.array([low for low, _ in found]), np.array([high for _, high in found])

    def exactly(self, times: int) -> Estimated:
        """The part that came so many times."""
        self._check("times", times, 0, self.modulus - 1)
        return self._estimated((np.arange(self.modulus) == times).astype(np.float64))

    def at_least(self, times: int) -> Estimated:
        """The part that came so many times or more."""
        self._check("times", times, 0, self.modulus - 1)
        return self._estimated((np.arange(self.modulus) >= times).astype(np.float64))

    def cropped_mean(self, limit: int) -> Estimated:
        """The mean over the universe of how often each came, those above the limit counted as that."""
        self._check("limit", limit, 1, self.modulus - 1)
        return self._estimated(np.minimum(np.arange(self.modulus), limit).astype(np.float64))

    def _check(self, name: str, value: int, least: int, most: int) -> None:
        check_whole(name, value, least)
        if value > most:
            raise ValueError(f"{name} must be at most {most} with a modulus of {self.modulus}, got {value}")

    def _estimated(self, by_residue: Floats) -> Estimated:
        weights, place, sizes = np.unique(by_residue, return_inverse=True, return_counts=True)
        value, found = float(by_residue @ self.value), np.clip(np.bincount(place, self.value), 0, None)
        shares: Floats = np.asarray(found / found.sum() if found.sum() > 0 else sizes / self.modulus)
        return Estimated(
            value,
            self.stddev_of(weights, sizes, shares),
            self.universe,
            Around(value, self._parts(weights, sizes)),
            highest=float(weights[-1]),
        )

    def stddev_of(self, weights: Floats, sizes: Ints, shares: Floats) -> float:
        """The standard error of a sum of weights, of which those shares of the users have each."""
        entries, *draws = self._parts(weights, sizes)[: 1 + len(weights)]
        assert isinstance(entries, Weighed)
        noise = sum(draw.variances[1] for draw in draws)
        spread = float(shares @ weights**2 - (shares @ weights) ** 2)
        return sqrt(
            self.entries * float(shares @ entries.moments(2)) + noise + self._sampled * max(spread, 0.0)
        )

    @property
    def _sampled(self) -> float:
        """What a variance in the universe is in the mean of a sample of it."""
        return (self.universe - self.entries) / (max(1, self.universe - 1) * self.entries)

    def _parts(self, weights: Floats, sizes: Ints) -> list[Deviation]:
        one = 1 / (self.entries * self.gap)
        parts: list[Deviation] = [Weighed(self.entries, one, weights, sizes / self.modulus, self.gap)]
        parts += [
            Draws(one * float(weight), self.noise, int(size))
            for weight, size in zip(weights, sizes, strict=True)
        ]
        if self.entries == self.universe:
            return parts
        reach = float(weights[-1] - weights[0])
        return [*parts, Drawn(reach, self.entries, self.universe, self._sampled * reach**2 / 4)]
