"""Terms of a sum of noise, and the moment generating function of their sum."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import frexp, gcd, inf, lcm, sqrt

import numpy as np

from streamgauge.noise.coerce import Floats
from streamgauge.noise.distributions import Distribution

MAX_LATTICE_PARTS = 64  # parts of the least weight that are tried as a lattice
MIN_PROBABILITY = 5e-324  # stands for every chance that is too small for a float


@dataclass(frozen=True)
class Term:
    """`count` independent draws of `distribution`, each times `weight`.

    With integer weights the sum stays on the integers.
    """

    count: int
    weight: float
    distribution: Distribution

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be at least 0, got {self.count}")
        if not abs(self.weight) < inf:
            raise ValueError(f"weight must be finite, got {self.weight}")

    @property
    def variance(self) -> float:
        return self.count * (float(self.weight) * float(self.weight)) * self.distribution.variance


@dataclass(frozen=True)
class TermBundle:
    """The terms that share a distribution, as arrays."""

    distribution: Distribution
    weights: Floats
    counts: Floats

    def log_mgf(self, x: float) -> float:
        return float(self.counts @ self.distribution.log_mgf(self.weights * x))


@dataclass(frozen=True)
class Summands:
    """Distinct terms, the widest first.

    Draws are symmetric, so signs of weights and order of terms do not matter.
    """

    terms: tuple[Term, ...]

    @cached_property
    def bundles(self) -> list[TermBundle]:
        by_law: dict[Distribution, list[Term]] = {}
        for term in self.terms:
            by_law.setdefault(term.distribution, []).append(term)
        return [
            TermBundle(law, np.array([float(t.weight) for t in same]), np.array([float(t.count) for t in same]))
            for law, same in by_law.items()
        ]

    @cached_property
    def stddev(self) -> float:
        return sqrt(sum(term.variance for term in self.terms))

    @cached_property
    def largest_weight(self) -> float:
        return max(float(term.weight) for term in self.terms)

    @cached_property
    def nonzero_bound(self) -> float:
        """Bound on P(S >= x) for every x > 0: some draw is not 0, and S is symmetric."""
        chance = sum(term.count * term.distribution.tail(1) for term in self.terms)
        return max(chance * (1 + 1e-12), MIN_PROBABILITY)

    @cached_property
    def draw_count(self) -> int:
        return sum(term.count for term in self.terms)

    @cached_property
    def is_integral(self) -> bool:
        return all(float(term.weight).is_integer() for term in self.terms)

    def log_mgf(self, x: float) -> float:
        """Return log E exp(x S)."""
        return sum(bundle.log_mgf(x) for bundle in self.bundles)


def merge_terms(terms: tuple[Term, ...]) -> Summands:
    """Return the same law with the fewest terms."""
    counts: Counter[tuple[float, Distribution]] = Counter()
    for term in terms:
        counts[abs(term.weight), term.distribution] += term.count
    distinct = [Term(count, weight, law) for (weight, law), count in counts.items() if count and weight]
    return Summands(tuple(sorted(distinct, key=lambda term: -term.variance)))


def scale_to_lattice(summands: Summands) -> tuple[Fraction, Summands]:
    """Return a unit, and the same sum counted in it.

    The sum is on the integers if the weights are on a lattice, else its weights are near 1. The division is exact
    but for weights below 1e-300 of the largest.
    """
    unit = find_lattice_unit([float(term.weight) for term in summands.terms])
    terms = [(Fraction(float(term.weight)) / unit, term) for term in summands.terms]
    return unit, Summands(tuple(Term(t.count, float(weight), t.distribution) for weight, t in terms))


def find_lattice_unit(weights: list[float]) -> Fraction:
    """Return the largest common divisor of the weights, if easily found.

    Otherwise return the power of two below the largest weight.
    """
    if all(weight.is_integer() for weight in weights):
        return Fraction(gcd(*map(int, weights)))
    least, parts = Fraction(min(weights)), 1
    for weight in weights:
        parts = lcm(parts, (Fraction(weight) / least).denominator)
        if parts > MAX_LATTICE_PARTS:
            return Fraction(2) ** (frexp(max(weights))[1] - 1)
    return least / parts
