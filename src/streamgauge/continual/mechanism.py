"""What every linear mechanism is: a claim whose releases are under noise of a known law.

A mechanism's file holds the claim (settings, loss, error), its `State`, `initial` and `step`, and a
`feed` that does many ticks at once. What is the same for all of them is here: standard errors, intervals
and bands; starting and loading runs is that of every claim.
"""

from abc import abstractmethod
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual.claim import Claim, S
from streamgauge.continual.run import CHUNK
from streamgauge.continual.settings import check_short
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum

FEW = 128  # draws for which a group that slept is woken cheaply
AHEAD = 2**20  # ticks that streams without an end are judged by

Release = npt.NDArray[Any]  # int64 on the integers, float64 where decoding has weights


class Mechanism(Claim[S, Release]):
    """A continual mechanism: `start` it, `step` or `feed` it, read its `stddev` and `interval`."""

    @property
    def sleeps_cheaply(self) -> bool:
        """Whether `dormant` takes few draws a group, however many ticks the group has slept.

        One that does not feed zeros draws the noise of the next releases: on average FEW draws, at most.
        """
        if self.pan_private or type(self).dormant is Mechanism.dormant:
            return False
        return self.mean_variance(self.horizon or AHEAD) <= FEW * self.distribution.variance

    @abstractmethod
    def noise_at(self, tick: int) -> NoiseSum:
        """The noise in the release at `tick`: a sum of independent draws."""

    @abstractmethod
    def matrices(self, ticks: int) -> Strategy:
        """C and B over the first `ticks` ticks."""

    @abstractmethod
    def mean_variance(self, ticks: int) -> float:
        """The variance of a release, averaged over ticks 1 to `ticks`."""

    def strategy(self, ticks: int) -> Strategy:
        """The matrices C and B over the first `ticks` ticks, which must be few."""
        check_short(self.checked(ticks))
        return self.matrices(ticks)

    def joined(self, releases: Sequence[Release]) -> Release:
        return np.concatenate(releases) if len(releases) > 1 else releases[0]

    def narrowed(self, release: Release) -> Release:
        return release[:, 0]

    def noise_now(self, state: S) -> NoiseSum:
        """The noise in the newest release of a run, announced intrusions included."""
        return self.noise_at(state.tick)

    def stddev(self, tick: int) -> float:
        """The exact standard error of the release at `tick`."""
        return self.noise_at(self.checked(tick)).stddev

    def rmse(self, ticks: int | None = None) -> float:
        """The root of the mean squared error over ticks 1 to `ticks` (the horizon, if there is one)."""
        over = ticks if ticks is not None else self.horizon
        if over is None:
            raise ValueError("ticks must be given for a stream without an end, got None")
        return sqrt(self.mean_variance(self.checked(over)))

    def interval(
        self, value: npt.ArrayLike, tick: int, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds that hold the true value with at least `confidence`, at this tick by itself."""
        half = self.noise_at(self.checked(tick)).half_width(confidence)
        centre = np.asarray(value, np.float64)
        return centre - half, centre + half

    def band(
        self, values: npt.ArrayLike, first: int = 1, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds that hold the true values of all these ticks at once with at least `confidence`.

        `values` are the releases at ticks first, first + 1, ..., one group's or one row a tick; ticks and
        groups share the probability of failure equally (union bound).
        """
        centre = np.asarray(values, np.float64)
        if centre.ndim not in (1, 2):
            raise ValueError(f"values must be of shape (ticks,) or (ticks, width), got {centre.shape}")
        noises = (self.noise_at(self.checked(first + i)) for i in range(len(centre)))
        half = np.array([noise.simultaneous(confidence, centre.size) for noise in noises])
        half = half.reshape(-1, *[1] * (centre.ndim - 1))
        return centre - half, centre + half

    def by_steps(self, state: S, block: Ints, noise: Noise) -> Ints:
        """Many ticks, as so many steps: what `feed` gives."""
        steps = [self.step(state, values, noise) for values in block]
        return np.stack(steps) if steps else block.copy()

    def deviation(self, tick: int) -> float:
        """How far a release without noise may be off at `tick`, per unit of the sum of |x|."""
        return 0.0

    def room(self) -> int:
        """The sum of |x| from which 64 bits are too few, noise aside; a grid takes some of them."""
        return 2**63

    def wrap_probability(self, tick: int, largest: int | None = None) -> float:
        """A bound on the chance that sums have wrapped around at `tick`, so that the release is wrong.

        `largest` bounds the sum of |x|, half of `room()` unless told otherwise. Wrapping around is
        post-processing, and harms no one's privacy.
        """
        left = self.room() - (self.room() // 2 if largest is None else largest)
        if left <= 0:
            return 1.0
        return min(1.0, 2 * tick * self.noise_at(self.checked(tick)).upper_tail(float(left)))


def draw_rows(distribution: Distribution, noise: Noise, rows: int, width: int) -> Ints:
    """So many draws for every group, one row each."""
    return distribution.draw(noise, rows * width).reshape(rows, width)


def draw_sum(distribution: Distribution, noise: Noise, count: int, width: int) -> Ints:
    """The sum of so many draws for every group, in bounded memory."""
    total, size = np.zeros(width, np.int64), max(1, CHUNK // width)
    for done in range(0, count, size):
        total += draw_rows(distribution, noise, min(size, count - done), width).sum(axis=0)
    return total
