"""Exponentially decayed sums: F_t = sum_s a^(t-s) x_s at every tick, without end.

The loss selects the implementation:

    pure                 a tree of decayed p-sums, with the branching and levels of least error for this decay
                         (`streamgauge.continual.decay.tree`); for decays up to about 0.98, noisy items
    zCDP, approximate    noise that buffers correlate over time, as in `BufferedToeplitz`: C is the square
                         root of the workload, r_k a^k with r_k = binom(2k, k)/4^k, as exponentials
    pan-private          noisy items, whose memory is the last release, under any loss

The decay a is a rational in (0, 1), or comes from a half-life of h ticks: the float64 nearest to 2^(-1/h).

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`, and one event at most 1024 groups (or
    the coordinates of a Sensitivity). The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: that of the implementation. Correlated noise charges rounding over the horizon, or over 2^48 ticks
    without one. A run stops there.

Error
    Unbiased up to `deviation`. At rho = 1/2 and decays of 0.9, 0.99 and 0.999 the standard errors are 1.45,
    2.14 and 2.86 with correlated noise, and 2.29, 7.09 and 22.4 with noise on the items. At epsilon = 1 they
    are 3.11, 8.57 and 15.6; with noise on the items 3.11, 9.62 and 30.4.

Reference
    Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on streams, ICDT 2013. The
    square root of a decayed workload follows Henzinger, Upadhyay, Upadhyay: A unifying framework for
    differentially private sums under continual observation, SODA 2024.
"""

from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, inf, log1p
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.decay.tree import MAX_BLOCK_ITEMS, ROUNDING_ERROR, DecayTree, decode_sums
from streamgauge.continual.factorizations.coefficients import MAX_FITTED_TICKS, bounded_encoder
from streamgauge.continual.factorizations.correlated import CorrelatedMechanism
from streamgauge.continual.factorizations.encoder import Encoder, Exponential, Floats, NoiseBuffers
from streamgauge.continual.mechanism import DelegatingMechanism, LinearMechanism, Settings, shared_settings
from streamgauge.continual.validation import check_settings
from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Approx, Loss, Number, Pure, Zcdp, parse_rational

MAX_TICK = 2**48  # the last tick of correlated noise without a horizon
MIN_DECAY_RATE = Fraction(1, 2**40)  # the least that a tick may take away
MAX_BRANCHING = 64
BUFFER_COUNT = 4
FITTED_TIME_CONSTANTS = 4  # time constants of the decay that buffers are fitted to


@dataclass(frozen=True, kw_only=True)
class ExponentialDecay(Settings, DelegatingMechanism):
    """Sums that decay by `decay` a tick, or by half in `half_life` ticks.

    See the module's claim.
    """

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    decay: Number | None = None
    half_life: Number | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        if (self.decay is None) == (self.half_life is None):
            raise ValueError(
                f"decay must be given, or else half_life, got decay={self.decay}, half_life={self.half_life}"
            )
        for name in ("decay", "half_life"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, parse_rational(given, name))
        remaining = self.decay_factor
        if not 0 < remaining <= 1 - MIN_DECAY_RATE:
            raise ValueError(f"decay must be above 0 and at most 1 - 2**-40, got {float(remaining)}")
        _ = self.implementation

    @cached_property
    def decay_factor(self) -> Fraction:
        """The rest of an item after a tick, exactly."""
        if self.half_life is None:
            assert self.decay is not None
            return parse_rational(self.decay, "decay")
        half_life = parse_rational(self.half_life, "half_life")
        if half_life <= 0:
            raise ValueError(f"half_life must be positive, got {self.half_life}")
        with localcontext() as context:
            context.prec = 60
            ticks = Decimal(half_life.numerator) / Decimal(half_life.denominator)
            return Fraction(float(Decimal(2) ** (-1 / ticks)))

    @cached_property
    def implementation(self) -> LinearMechanism[Any]:
        same = {"decay": self.decay_factor, **shared_settings(self)}
        if self.pan_private:
            return DecayTree(self.loss, **same)
        if not isinstance(self.loss, Pure):
            return CorrelatedDecay(self.loss, **same)
        branching, levels = find_best_tree(self.decay_factor, self.horizon)
        trees = DecayTree(self.loss, **same), DecayTree(self.loss, **same, branching=branching, levels=levels)
        return min(trees, key=lambda tree: tree.mean_variance(self.horizon or MAX_TICK))


@dataclass(slots=True)
class CorrelatedDecayState:
    """All that a run remembers, one column per group."""

    tick: int
    releases: Floats  # noisy: one row, the last release
    buffers: NoiseBuffers = field(repr=False)  # secret: see `NoiseBuffers`


@dataclass(frozen=True, kw_only=True)
class CorrelatedDecay(Settings, CorrelatedMechanism[CorrelatedDecayState]):
    """Decayed sums under correlated noise: `ExponentialDecay` under zCDP."""

    decay: Fraction

    def __post_init__(self) -> None:
        self.check()

    @property
    def decay_factor(self) -> Fraction:
        return self.decay

    @property
    def last_tick(self) -> int:
        return self.horizon or MAX_TICK

    @cached_property
    def encoder(self) -> Encoder:
        """Exponentials fitted to the square root of running sums, each decaying by `decay`.

        Exponentials that the decay makes equal are one.
        """
        lasting = min(int(FITTED_TIME_CONSTANTS / (1 - self.decay)), self.last_tick, MAX_FITTED_TICKS)
        merged: dict[tuple[int, int], Fraction] = {}
        for term in bounded_encoder(BUFFER_COUNT, lasting).terms:
            rate, weight = 1 - self.decay * (1 - term.rate), self.decay * term.weight
            near = Exponential.from_floats(float(rate), float(weight))
            key = near.rate_top, near.rate_bits
            merged[key] = merged.get(key, Fraction(0)) + weight
        pairs = ((Fraction(top, 1 << bits), weight) for (top, bits), weight in merged.items())
        return Encoder(tuple(Exponential.from_floats(float(rate), float(weight)) for rate, weight in pairs))

    def deviation(self, tick: int) -> float:
        return ROUNDING_ERROR

    def initial(self, width: int, noise: Noise) -> CorrelatedDecayState:
        return CorrelatedDecayState(0, np.zeros((1, width)), NoiseBuffers.empty(self.encoder, width))

    def decode(self, state: CorrelatedDecayState, columns: slice, block: Ints, correlated: Ints, out: Floats) -> None:
        np.multiply(correlated & ((1 << self.grid_bits) - 1), 2.0**-self.grid_bits, out=out)
        out += block + (correlated >> self.grid_bits)
        levels = np.zeros(len(block), np.int64)
        decode_sums(out, levels, [float(self.decay)], state.releases[:, columns])


def find_best_tree(decay: Fraction, horizon: int | None) -> tuple[int, int]:
    """Return branching and levels of least mean variance, with at least two levels.

    The mean is over the horizon, or for ever.
    """
    shapes = [(k, h) for h in range(2, 8) for k in range(2, MAX_BRANCHING + 1) if k ** (h - 1) <= MAX_BLOCK_ITEMS]
    return min(shapes, key=lambda shape: predict_variance(decay, shape, horizon))


def predict_variance(decay: Fraction, shape: tuple[int, int], horizon: int | None) -> float:
    """Return the mean variance of a tree relative to that of noisy items.

    The mean is over whole blocks of the top level. The mean over ticks of a^(2 (t mod s)) is (1 - a^(2s))/s times a
    constant. A level of blocks of s items has (1 - a^(2s d))/(1 - a^(2s)) of them, faded, for the digit d.
    """
    log_, (branching, levels) = log1p(-float(1 - decay)), shape
    sizes = [float(branching**level) for level in range(levels)]
    gone = [-expm1(2 * size * log_) for size in [*sizes, sizes[-1] * branching]]
    below = sum((1 - gone[i + 1] / gone[i] / branching) / sizes[i] for i in range(levels - 1))
    blocks = max(1.0, horizon / sizes[-1]) if horizon else inf
    top = (1 + expm1(2 * blocks * sizes[-1] * log_) / (blocks * gone[levels - 1])) / sizes[-1]
    reach = 1 + sum(exp(sum(sizes[:i]) * log_) for i in range(1, levels))
    return reach * reach * (below + top)
