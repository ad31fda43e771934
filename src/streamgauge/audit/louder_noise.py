"""The noise of a run, several times louder: what a few runs can tell of a large loss.

Noise of k times the scale loses 1/k of the epsilon, 1/k^2 of the rho, and nothing else of a run is changed.

Promise
    All that is made of noisy numbers keeps the claim that is k times smaller. So what tells neighbours apart
    more surely than that was not made of them, and the claim is broken however large it is. (Discrete noise:
    a shift by s under Laplace noise of scale b costs s/b, under Gaussian noise of parameter v s^2/(2v).)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt

from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Loss, Pure, Zcdp
from streamgauge.query.planner import Planned

SMALL_EPSILON, SMALL_RHO = Fraction(1, 2), Fraction(1, 100)  # that a hundred runs can refute
SLACK = Fraction(1, 10)  # the delta at which a small rho is refuted


@dataclass(frozen=True)
class LouderNoise:
    """`inner`, so many times."""

    inner: Noise
    times: int

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self.inner.laplace(scale * self.times, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self.inner.gaussian(variance * self.times**2, size)


@dataclass(frozen=True)
class Louder:
    """How many times, and what is claimed then."""

    times: int
    loss: Loss

    @classmethod
    def of(cls, plans: Sequence[Planned], loss: Loss) -> "Louder":
        """Thresholds over which groups are discovered do not grow with the noise: there it stays as it is."""
        if any(plan.query.key is not None for plan in plans):
            return cls(1, loss)
        if isinstance(loss, Pure):
            times = max(1, ceil(loss.epsilon / SMALL_EPSILON))
            return cls(times, Pure(loss.epsilon / times))
        rho = loss.rho if isinstance(loss, Zcdp) else rho_of(plans)
        times = max(1, ceil(sqrt(rho / SMALL_RHO)))
        return cls(times, Zcdp(rho / times**2).as_approx(SLACK))


def rho_of(plans: Sequence[Planned]) -> Fraction:
    """What the counters of all releases lose together."""
    counters = [part.statistic.counter for plan in plans for part in plan.parts]
    return sum((counter.loss.kept_as.as_zcdp().rho for counter in counters), Fraction(0))
