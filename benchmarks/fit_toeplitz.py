"""Fits the tables of `coefficients` and prints them. Needs SciPy; takes some minutes.

A bounded row minimises the mean squared error over its horizon: squared norm of C times mean squared
norm of the rows of A C^-1. A normalised row does so for columns scaled to the norm of the first, near the
bounded row. The unbounded row minimises the worst ratio, over powers of two up to 2^48,
of its root mean squared error to a line near that of Jacobsen and Fawaz's coefficients. From the real
optimum, rates are rounded to powers of 1/2 and moved while that helps, the weights following; it costs
0.3 % of error at most, and saves every run a multiplication.

    python benchmarks/fit_toeplitz.py > table.txt
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from streamgauge.continual.factorizations.coefficients import bounded_encoder
from streamgauge.continual.factorizations.encoder import (
    Encoder,
    Exponential,
    ExponentialTerms,
    NoiseResponse,
    decayed_share,
)
from streamgauge.continual.factorizations.normalisation import NormalisedResponse, list_short_numbers

Floats = npt.NDArray[np.float64]
Score = Callable[[ExponentialTerms], float]
FIRST = {2: 4, 3: 6, 4: 8, 6: 17}  # buffers -> log2 of the least horizon that has use for so many
NORMALISED = range(8, 17)  # log2 of the horizons at which 4 buffers are fitted to scaled columns
LAST = 48
FITTED_BITS = 3  # significant bits of the distances at which fitted pieces begin
UNBOUNDED = 8  # exponentials: with 12 the error is 3 % less, and a step half as slow again
SCALES = np.arange(2, LAST + 1, 2)
LINE = 2.5 + 0.2135 * SCALES  # near Jacobsen and Fawaz: 4.671, 5.976, 6.822 at 2^10, 2^16, 2^20


class Real:
    """An encoder with real parameters, which the optimiser may move."""

    def __init__(self, point: Floats) -> None:
        rates, weights = np.split(np.exp(point), 2)
        order = np.argsort(rates)
        self.rates = np.minimum(rates[order], 0.999)
        self.weights = weights[order]

    def sensible(self) -> bool:
        apart = self.rates[1:] > 1.001 * self.rates[:-1]
        return bool(self.weights.sum() < 0.98 and apart.all())


def norm_squared(encoder: ExponentialTerms, horizon: float) -> float:
    rates, weights = encoder.rates, encoder.weights
    lost = rates[:, None] + rates - np.outer(rates, rates)
    return float(1 + (np.outer(weights, weights) * decayed_share(lost, horizon - 1) / lost).sum())


def bounded(horizon: int) -> Score:
    """Half the logarithm of the mean squared error over `horizon` ticks, for noise that costs rho = 1/2."""

    def score(encoder: ExponentialTerms) -> float:
        return 0.5 * float(np.log(norm_squared(encoder, horizon) * NoiseResponse(encoder).mean_variance(horizon)))

    return score


class RealScales:
    """Scales in floating point, over fewer and longer pieces."""

    def __init__(self, encoder: ExponentialTerms, horizon: int) -> None:
        distances = np.array([horizon, *(n for n in reversed(list_short_numbers(horizon - 1, FITTED_BITS)) if n)])
        norms = np.array([norm_squared(encoder, distance) for distance in distances.tolist()])
        self.starts = tuple((horizon - distances).tolist())
        self.factors = np.sqrt(norms / norms[0])

    def find_piece(self, tick: int) -> int:
        return bisect_right(self.starts, tick - 1) - 1


def normalised(horizon: int) -> Score:
    """The same as `bounded`, under scaled columns."""

    def score(encoder: ExponentialTerms) -> float:
        response = NormalisedResponse(NoiseResponse(encoder), RealScales(encoder, horizon))
        return 0.5 * float(np.log(norm_squared(encoder, horizon) * response.mean_variance(horizon)))

    return score


def unbounded(sharpness: float) -> Score:
    """A smooth maximum of the logarithms of error over line."""

    def score(encoder: ExponentialTerms) -> float:
        norm, response = norm_squared(encoder, 2.0**LAST), NoiseResponse(encoder)
        errors = np.sqrt([norm * response.mean_variance(2**j) for j in SCALES.tolist()])
        logs = np.log(errors / LINE)
        return float(logs.max() + np.log(np.exp(sharpness * (logs - logs.max())).mean()) / sharpness)

    return score


def fitted(start: Floats, score: Score, method: str, rounds: int) -> Floats:
    def objective(point: Floats) -> float:
        real = Real(point)
        value = score(real) if real.sensible() else 50.0
        return value if np.isfinite(value) else 50.0

    for _ in range(rounds):
        start = minimize(objective, start, method=method, options={"maxiter": 3000}).x
    return start


class Shifting:
    """An encoder whose rates are powers of 1/2, so that a run shifts where it would multiply."""

    def __init__(self, shifts: tuple[int, ...], logs: Floats) -> None:
        self.shifts = shifts
        self.rates = 2.0 ** -np.array(shifts, np.float64)
        self.weights = np.exp(logs)

    @property
    def sensible(self) -> bool:
        return bool(self.weights.sum() < 0.98) and all(a > b >= 1 for a, b in pairwise(self.shifts))

    def refitted(self, score: Score) -> "Shifting":
        """The same rates with the best weights."""

        def objective(logs: Floats) -> float:
            moved = Shifting(self.shifts, logs)
            return score(moved) if moved.sensible else 50.0

        if not self.sensible:
            return self
        return Shifting(self.shifts, minimize(objective, np.log(self.weights), method="BFGS").x)

    def neighbours(self) -> "list[Shifting]":
        steps = [(i, by) for i in range(len(self.shifts)) for by in (1, -1)]
        moved = [(*self.shifts[:i], self.shifts[i] + by, *self.shifts[i + 1 :]) for i, by in steps]
        return [Shifting(shifts, np.log(self.weights)) for shifts in moved]


def rounded(point: Floats, score: Score) -> Encoder:
    """Near a real optimum: powers of 1/2 for the rates, moved while that helps, then small rationals."""
    real = Real(point)
    shifts = tuple(int(k) for k in np.maximum(np.rint(-np.log2(real.rates)), 1))
    return moved_while_better(Shifting(shifts, np.log(real.weights)).refitted(score), score)


def moved_while_better(best: Shifting, score: Score) -> Encoder:
    while True:
        moved = [other.refitted(score) for other in best.neighbours() if other.sensible]
        better = min(moved, key=score)
        if score(better) > score(best) - 1e-7:
            break
        best = better
    weights = [Exponential.from_floats(0.5, weight) for weight in best.weights.tolist()]
    return Encoder(
        tuple(Exponential(1, k, w.weight_top, w.weight_bits) for k, w in zip(best.shifts, weights, strict=True))
    )


def row(encoder: Encoder) -> str:
    parts = (f"{t.rate_bits}: {t.weight_top}/{t.weight_bits}" for t in encoder.terms)
    return ", ".join(parts)


def main() -> None:
    for buffers, first in FIRST.items():
        rates = np.geomspace(0.4 / 2**first, 0.5, buffers)
        point = np.log(np.append(rates, np.sqrt(rates) / 4))
        for scale in range(first, 41):
            score = bounded(2**scale)
            point = fitted(point, score, "Nelder-Mead", 1)
            point = fitted(point, score, "BFGS", 2)
            best = rounded(point, score)
            print(f"{buffers} {scale} {np.exp(score(best)):.4f} | {row(best)}", flush=True)
            point[0] -= 0.7
    for scale in NORMALISED:
        near, score = bounded_encoder(4, 2**scale), normalised(2**scale)
        shifts = tuple(term.rate_bits for term in near.terms)
        best = moved_while_better(Shifting(shifts, np.log(near.weights)).refitted(score), score)
        print(f"normalised 4 {scale} {np.exp(score(best)):.4f} | {row(best)}", flush=True)
    rates = np.geomspace(2.0**-46, 0.3, UNBOUNDED)
    weights = np.sqrt(rates) / np.sqrt(1 - np.log(rates))
    point = np.log(np.append(rates, 0.47 * weights / weights.sum()))
    for sharpness in (3.0, 10.0, 30.0, 90.0):
        point = fitted(point, unbounded(sharpness), "L-BFGS-B", 4)
    best = rounded(point, unbounded(90.0))
    print(f"unbounded {np.exp(unbounded(90.0)(best)):.4f} | {row(best)}")


if __name__ == "__main__":
    main()
