"""The best possible score, if it is known: the log-likelihood ratio of a linear view.

    draws visible one by one    log p(z - s) - log p(z), added up, where s is the shift between the two worlds
    Gaussian noise              the linear score s' S^-1 (view - s/2), with S the covariance of the view
    other noise                 the same linear score: least squares, which is best only under Gaussian noise
    no noise                    the part of the view that no draw moves, which separates the two worlds exactly
    noise in large steps        draws that are whole in one world only, which separate them as well

A run may have several groups, with noise of their own: a view has all numbers of the first group, then all of the
next. Streams may differ from run to run (see `subjects.adversaries`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.audit.exact.linear import VIEW_TOLERANCE, LinearView, NoiseTerm, are_whole
from streamgauge.audit.exact.worst_case import price
from streamgauge.noise.coerce import Floats

EXACT_WEIGHT = 1e8  # of exact numbers, compared with any noise
MAX_SUM_DRAWS = 2  # draws whose sum has a weight that is written down below
SCORE_DIGITS = 9  # of a score: the same number of the lattice is the same score

Array = npt.NDArray[Any]
StreamFunction = Callable[[Floats], tuple[Array, Array]]  # of views: both streams, (runs or 1, groups, ticks)


@dataclass(frozen=True, eq=False)
class LikelihoodRatio:
    """The log-likelihood ratio of a view under two worlds."""

    view: LinearView
    groups: int
    streams: StreamFunction

    def __call__(self, views: Floats) -> Floats:
        one, other = self.streams(views)
        seen = views.reshape(len(views), self.groups, -1)
        without = seen - other @ self.view.by_data.T
        moved = (one - other) @ self.view.by_data.T
        found = (self._score_draws if self._has_visible_draws else self._score_sums)(without, moved)
        return np.asarray(np.round(found + EXACT_WEIGHT * self._score_exact(without, moved), SCORE_DIGITS), np.float64)

    @property
    def name(self) -> str:
        """The ratio itself, or the linear score that is best by least squares."""
        known = not self.view.is_laplace or (
            self._has_visible_draws and all(source.draws <= MAX_SUM_DRAWS for source in self.view.sources)
        )
        return "likelihood ratio" if known else "best linear score"

    @property
    def _has_visible_draws(self) -> bool:
        return self.view.is_laplace and self.view.is_injective

    def _score_draws(self, without: Floats, moved: Floats) -> Floats:
        draws, shift = without @ self.view.inverse.T, moved @ self.view.inverse.T
        total = np.zeros(len(without))
        for place, source in enumerate(self.view.sources):
            z, s = draws[..., place], shift[..., place]
            if are_whole(s).all():
                z, s = np.rint(z), np.rint(s)
            if s.any():
                total += (log_weight(source, z - s) - log_weight(source, z)).sum(axis=1)
        return np.asarray(total + self._score_steps(draws, shift))

    def _score_sums(self, without: Floats, moved: Floats) -> Floats:
        variances = self.view.deviations**2
        draws, shift = without @ self.view.inverse.T, moved @ self.view.inverse.T
        found = ((draws - shift / 2) * shift / variances).sum(axis=(1, 2))
        return np.asarray(found + self._score_steps(draws, shift))

    def _score_steps(self, draws: Floats, shift: Floats) -> Floats | float:
        """Return the draws that are whole in the first world, less those in the other, if a shift is not whole."""
        if not self.view.is_injective or are_whole(shift).all():
            return 0.0
        fits = [are_whole(seen).sum(axis=(1, 2), dtype=np.int64) for seen in (draws - shift, draws)]
        return np.asarray(EXACT_WEIGHT * (fits[0] - fits[1]), np.float64)

    def _score_exact(self, without: Floats, moved: Floats) -> Floats:
        """Return the share of the move to the first world in those numbers that no draw moves."""
        bare = moved - moved @ self.view.inverse.T @ self.view.by_noise.T
        size = np.abs(bare).max(axis=(1, 2), keepdims=True)
        bare = np.where(size > VIEW_TOLERANCE * np.abs(moved).max(axis=(1, 2), keepdims=True), bare, 0.0)
        square = (bare**2).sum(axis=(1, 2))
        return np.asarray((without * bare).sum(axis=(1, 2)) / np.where(square, square, 1.0))


def log_weight(source: NoiseTerm, value: Floats) -> Floats:
    """Return the log-weight of a sum of Laplace draws up to a constant; of many draws, nearly.

    Two draws of q = exp(-1/scale) weigh q^|k| (|k| + (1 + q^2)/(1 - q^2)).
    """
    size, rate = np.abs(value), float(price(source.law))
    if source.draws == 1:
        return -rate * size
    if source.draws == 2:
        q = exp(-2 * rate)
        return np.asarray(np.log(size + (1 + q) / (1 - q)) - rate * size)
    return -(size**2) / (2 * source.variance)


def fix_streams(one: Array, other: Array) -> StreamFunction:
    """Return two streams, (groups, ticks), that are the same in all runs."""
    both = one[None].astype(np.float64), other[None].astype(np.float64)
    return lambda views: both
