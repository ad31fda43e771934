"""The terms of a sum of noise, and the moment generating function of their sum."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np

from streamgauge.noise.distributions import Distribution, Floats


@dataclass(frozen=True)
class Term:
    """`count` independent draws of `distribution`, each times `weight`; integer weights keep a sum on the
    integers."""

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
        return self.count * float(self.weight) ** 2 * self.distribution.variance


@dataclass(frozen=True)
class Bundle:
    """The terms that share a distribution, as arrays."""

    distribution: Distribution
    weights: Floats
    counts: Floats

    def log_mgf(self, x: float) -> float:
        return float(self.counts @ self.distribution.log_mgf(self.weights * x))


@dataclass(frozen=True)
class Summands:
    """Distinct terms, the widest first. Draws are symmetric: signs of weights and order of terms do not
    matter."""

    terms: tuple[Term, ...]

    @cached_property
    def bundles(self) -> list[Bundle]:
        by_law: dict[Distribution, list[Term]] = {}
        for term in self.terms:
            by_law.setdefault(term.distribution, []).append(term)
        return [
            Bundle(law, np.array([float(t.weight) for t in same]), np.array([float(t.count) for t in same]))
            for law, same in by_law.items()
        ]

    @cached_property
    def stddev(self) -> float:
        return sqrt(sum(term.variance for term in self.terms))

    @cached_property
    def draws(self) -> int:
        return sum(term.count for term in self.terms)

    @cached_property
    def integral(self) -> bool:
        return all(float(term.weight).is_integer() for term in self.terms)

    def log_mgf(self, x: float) -> float:
        """log E exp(x S)."""
        return sum(bundle.log_mgf(x) for bundle in self.bundles)


def merged(terms: tuple[Term, ...]) -> Summands:
    """The same law with the fewest terms."""
    counts: Counter[tuple[float, Distribution]] = Counter()
    for term in terms:
        counts[abs(term.weight), term.distribution] += term.count
    distinct = [Term(count, weight, law) for (weight, law), count in counts.items() if count and weight]
    return Summands(tuple(sorted(distinct, key=lambda term: -term.variance)))
