"""Sums of discrete Gaussian draws against the normal law.

Lemma. Let N be normal of variance v >= 16. For every integer k, P(X = k) <= (1 + 1/(12 v)) P(round(N) = k).
    Proof. P(X = k) is at most the normal density at k, since the theta sum is at least sqrt(2 pi v). With t
    = k/sqrt(v), the mean over |u| <= 1/2 of the density at k + u is the density at k times the mean of
    exp(-u^2/(2 v)) cosh(t u/sqrt(v)), at least the mean of 1 - u^2/(2 v) = 1 - 1/(24 v), and 1/(1 - 1/(24
    v)) <= 1 + 1/(12 v).

So for any event the probability under n draws is at most exp(sum of 1/(12 v)) times that under rounded
normals; and sum w round(N) = sum w N + sum w R with |R| <= 1/2, the R independent and symmetric, so that by
Hoeffding P(sum w R >= d) <= exp(-2 d^2 / sum w^2), and it is 0 beyond half the sum of |w|.
"""

from math import erfc, exp, inf, log, pi, sqrt

from streamgauge.noise.distributions import DiscreteGaussian
from streamgauge.noise.terms import Summands

LEAST = 16
SHARE = 1e-3  # of the tail that is given to the rounding
OUTWARDS = 1 + 1e-9
STEPS = 8  # of Newton's, each of which doubles the digits


def normal_width(summands: Summands, need: float) -> float:
    """A point x with P(S >= x) <= exp(-need); infinite where the lemma does not reach."""
    bundles, laws = summands.bundles, [bundle.distribution for bundle in summands.bundles]
    parameters = [float(law.parameter) for law in laws if isinstance(law, DiscreteGaussian)]
    if len(parameters) < len(bundles) or min(parameters) < LEAST:
        return inf
    pairs = list(zip(bundles, parameters, strict=True))
    squares = [float(bundle.counts @ bundle.weights**2) for bundle in bundles]
    excess = need + sum(float(bundle.counts.sum()) / (12 * v) for bundle, v in pairs)
    stddev = sqrt(sum(square * v for square, v in zip(squares, parameters, strict=True)))
    worst = sum(float(bundle.counts @ bundle.weights) for bundle in bundles) / 2
    likely = sqrt(sum(squares) * (excess - log(SHARE)) / 2)
    return (stddev * normal_quantile(excess, SHARE) + min(worst, likely)) * OUTWARDS


def normal_quantile(need: float, share: float) -> float:
    """z with P(N >= z) <= (1 - share) exp(-need), 0 if that is above one half."""
    tail = (1 - share) * exp(-need)
    return normal_point(tail) if 0 < tail < 0.5 else 0.0 if tail >= 0.5 else inf


def normal_point(tail: float) -> float:
    """z with P(N >= z) = tail, for a tail below one half, to the last digits.

    Newton's steps for log P(N >= z), which is concave, from a point that is not below: the tail of a
    normal is at most exp(-z^2/2)/2.

    >>> round(normal_point(0.025), 12)
    1.95996398454
    """
    z = sqrt(-2 * log(2 * tail))
    for _ in range(STEPS):
        above = erfc(z / sqrt(2)) / 2
        if above <= 0:
            return z
        z += log(above / tail) * above * sqrt(2 * pi) * exp(z * z / 2)
    return z
