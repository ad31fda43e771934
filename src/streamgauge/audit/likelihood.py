"""The score that no other can beat, where it is known: the log-likelihood ratio of a linear view.

    draws seen one by one     log p(z - s) - log p(z), added up, where s is the shift that the two worlds need
    Gaussian noise            the linear score s' S^-1 (view - s/2), with S the covariance of the view
    anything else             the same linear score: least squares, which is best only where noise is Gaussian
    no noise in the way       the part of the view that no draw moves, which tells the two worlds exactly
    noise in large steps      whether draws are whole in one world or in the other, which tells as much

A run may be of several groups, which have noise of their own: a view has all numbers of the first group, then
all of the next. Streams may differ from run to run (see `adaptive`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.audit.exact import price
from streamgauge.audit.linear import NEAR, LinearView, Source, are_whole
from streamgauge.noise.numbers import Floats

BARE = 1e8  # what a bare truth weighs beside any noise
KNOWN = 2  # draws whose sum has a weight that is written down below
DIGITS = 9  # of a score: the same number of the lattice is the same score

Array = npt.NDArray[Any]
Streams = Callable[[Floats], tuple[Array, Array]]  # of views: both streams, (runs or 1, groups, ticks)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood ratio of a view under two worlds."""

    view: LinearView
    groups: int
    streams: Streams

    def __call__(self, views: Floats) -> Floats:
        one, other = self.streams(views)
        seen = views.reshape(len(views), self.groups, -1)
        without = seen - other @ self.view.by_data.T
        moved = (one - other) @ self.view.by_data.T
        told = (self._of_draws if self._draws_are_seen else self._of_sums)(without, moved)
        return np.asarray(np.round(told + BARE * self._bare(without, moved), DIGITS), np.float64)

    @property
    def name(self) -> str:
        """What it is: the ratio itself, or the linear score that is best by least squares."""
        known = not self.view.laplace or (
            self._draws_are_seen and all(source.draws <= KNOWN for source in self.view.sources)
        )
        return "likelihood ratio" if known else "best linear score"

    @property
    def _draws_are_seen(self) -> bool:
        return self.view.laplace and self.view.injective

    def _of_draws(self, without: Floats, moved: Floats) -> Floats:
        draws, shift = without @ self.view.inverse.T, moved @ self.view.inverse.T
        total = np.zeros(len(without))
        for place, source in enumerate(self.view.sources):
            z, s = draws[..., place], shift[..., place]
            if are_whole(s).all():
                z, s = np.rint(z), np.rint(s)
            if s.any():
                total += (log_weight(source, z - s) - log_weight(source, z)).sum(axis=1)
        return np.asarray(total + self._in_steps(draws, shift))

    def _of_sums(self, without: Floats, moved: Floats) -> Floats:
        variances = self.view.deviations**2
        draws, shift = without @ self.view.inverse.T, moved @ self.view.inverse.T
        told = ((draws - shift / 2) * shift / variances).sum(axis=(1, 2))
        return np.asarray(told + self._in_steps(draws, shift))

    def _in_steps(self, draws: Floats, shift: Floats) -> Floats | float:
        """Where a shift is not whole: how many draws are in the first world, less those in the other."""
        if not self.view.injective or are_whole(shift).all():
            return 0.0
        fits = [are_whole(seen).sum(axis=(1, 2), dtype=np.int64) for seen in (draws - shift, draws)]
        return np.asarray(BARE * (fits[0] - fits[1]), np.float64)

    def _bare(self, without: Floats, moved: Floats) -> Floats:
        """How much of the way to the first world the view has come where no draw moves it."""
        bare = moved - moved @ self.view.inverse.T @ self.view.by_noise.T
        size = np.abs(bare).max(axis=(1, 2), keepdims=True)
        bare = np.where(size > NEAR * np.abs(moved).max(axis=(1, 2), keepdims=True), bare, 0.0)
        square = (bare**2).sum(axis=(1, 2))
        return np.asarray((without * bare).sum(axis=(1, 2)) / np.where(square, square, 1.0))


def log_weight(source: Source, value: Floats) -> Floats:
    """The logarithm of the weight of a sum of Laplace draws, but for a constant; of many, nearly.

    Two draws of q = exp(-1/scale) weigh q^|k| (|k| + (1 + q^2)/(1 - q^2)).
    """
    size, rate = np.abs(value), float(price(source.law))
    if source.draws == 1:
        return -rate * size
    if source.draws == 2:
        q = exp(-2 * rate)
        return np.asarray(np.log(size + (1 + q) / (1 - q)) - rate * size)
    return -(size**2) / (2 * source.variance)


def fixed(one: Array, other: Array) -> Streams:
    """Two streams that are the same in all runs, (groups, ticks)."""
    both = one[None].astype(np.float64), other[None].astype(np.float64)
    return lambda views: both
