"""The error of a correlated release: what each draw weighs in it, and the sums of squares of that.

Let C be an encoder and A the workload, with generating functions c(x) and 1/(1 - a x): running sums
have a = 1, decayed sums a < 1. The noise of a release is L z with L = A C^-1, whose coefficients

    l_k = sum_p amplitude_p (1 - pole_p)^k

come from the partial fractions of 1/((1 - a x) c(x)). One pole is 1 - a. The others are the roots of
1 = sum_i weight_i / (pole - rate_i): one between each pair of neighbouring rates, and one above all.
Where 1 - a is below all rates all amplitudes are positive, so that nothing cancels.

Variances are those of draws of variance 1. All numbers here are floats of deterministic quantities
that no promise of privacy rests on.
"""

from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FLAT = 1e-2  # below it, a series instead of a difference that cancels


class Terms(Protocol):
    """What an encoder is to its error."""

    @property
    def rates(self) -> Floats: ...

    @property
    def weights(self) -> Floats: ...


class Response:
    """How the draws of a run weigh in its releases."""

    def __init__(self, encoder: Terms, rate: float = 0.0) -> None:
        order = np.argsort(encoder.rates)
        self.rates = encoder.rates[order]
        self.weights = encoder.weights[order]
        self.rate = rate  # 1 - a

    @cached_property
    def poles(self) -> Floats:
        """The roots, by bisection in the logit of their place in the gap."""
        rates, weights = self.rates, self.weights
        gaps = np.append(rates[1:], rates[-1:] + weights.sum() * (1 + 1e-9)) - rates
        low, high = np.full(len(rates), -36.0), np.full(len(rates), 36.0)
        offsets = gaps / 2
        for _ in range(64):
            middle = (low + high) / 2
            offsets = gaps / (1 + np.exp(-middle))
            above = (weights / (rates[:, None] - rates + offsets[:, None])).sum(axis=1) < 1
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return rates + offsets

    @cached_property
    def amplitudes(self) -> Floats:
        """First that of the pole 1 - a."""
        poles, rates = self.poles, self.rates
        others = poles - poles[:, None] + np.eye(len(poles))
        inner = np.prod((rates - poles[:, None]) / others, axis=1) / (self.rate - poles)
        outer = np.prod((rates - self.rate) / (poles - self.rate))
        return np.append(outer, inner)

    @cached_property
    def _pairs(self) -> tuple[Floats, Floats]:
        """Products of amplitudes, and 1 minus the products of what remains of two poles after a tick."""
        poles = np.append(self.rate, self.poles)
        return np.outer(self.amplitudes, self.amplitudes), poles[:, None] + poles - np.outer(poles, poles)

    def coefficients(self, ticks: int) -> Floats:
        """l_0 to l_(ticks - 1)."""
        poles = np.append(self.rate, self.poles)
        return np.asarray((1 - gone(poles, np.arange(float(ticks))[:, None])) @ self.amplitudes)

    def variance(self, tick: int) -> float:
        """sum_(k < tick) l_k^2."""
        products, lost = self._pairs
        still = lost == 0
        sums = gone(lost, float(tick)) / np.where(still, 1.0, lost)
        return float((products * np.where(still, float(tick), sums)).sum())

    def mean_variance(self, ticks: int) -> float:
        """The mean of `variance` over ticks 1 to `ticks`."""
        products, lost = self._pairs
        return float((products * mean_sum(lost, float(ticks))).sum())


def gone(lost: Floats, ticks: Floats | float) -> Floats:
    """1 - (1 - lost)^ticks, also where `lost` is tiny or above 1."""
    near = -np.expm1(ticks * np.log1p(-np.minimum(lost, 0.5)))
    far = 1 - np.power(np.where(lost > 0.5, 1 - lost, 1.0), ticks)
    return np.asarray(np.where(lost > 0.5, far, near))


def mean_sum(lost: Floats, ticks: float) -> Floats:
    """The mean over t = 1..ticks of sum_(k < t) q^k, q = 1 - lost.

    That is (1 - q (1 - q^T)/(T lost))/lost; where T lost is small, its series
    (T + 1)/2 (1 - (T - 1) lost/3 (1 - (T - 2) lost/4 (1 - ...))).
    """
    flat = lost * ticks < FLAT
    series = np.ones_like(lost)
    for j in range(7, 0, -1):
        series = 1 - (ticks - j) * lost / (j + 2) * series
    x = np.where(flat, 1.0, lost)
    return np.asarray(
        np.where(flat, (ticks + 1) / 2 * series, (1 - (1 - x) * gone(x, ticks) / (ticks * x)) / x)
    )
