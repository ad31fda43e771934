"""Differential privacy generalises: an experiment (survey, Theorem 5).

A predicate is fitted to a sample of random questions and random answers. No predicate does better than 1/2 on fresh
data. Fitted exactly, it does far better on its own sample: it overfits. Fitted to noisy counts, of epsilon, its rate on
the sample is near its expectation. `PrivateMedian` uses this with seeds as the sample.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.noise import RandomSource, SecureNoise

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Generalisation:
    """Rate of a fitted predicate on its sample, and on fresh data."""

    sample_rate: float
    fresh_rate: float

    @property
    def gap(self) -> float:
        return self.sample_rate - self.fresh_rate


def measure_generalisation(
    people: int, features: int, epsilon: Fraction | int | None, noise: RandomSource | None = None
) -> Generalisation:
    """Return the rates of a predicate that guesses fair coins from fair coins.

    Args:
        people: Size of the sample.
        features: Coins known of each person.
        epsilon: Loss of the fit. None fits exactly.
        noise: Source of data and of noise.
    """
    check_whole("people", people)
    check_whole("features", features)
    source = noise if noise is not None else SecureNoise()
    signs = [
        1 - 2 * source.coins(HALF, people * (features + 1)).astype(np.int64).reshape(people, features + 1)
        for _ in range(2)
    ]
    known, answers = signs[0][:, 1:], signs[0][:, 0]
    agreement = known.T @ answers
    if epsilon is not None:
        agreement = agreement + source.laplace(Fraction(2 * features) / epsilon, features)  # one person: 2 a feature
    rates = [
        float((np.where(each[:, 1:] @ np.where(agreement > 0, 1, -1) > 0, 1, -1) == each[:, 0]).mean())
        for each in signs
    ]
    return Generalisation(*rates)
