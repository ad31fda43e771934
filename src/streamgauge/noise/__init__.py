"""Exact noise: entropy, discrete Laplace and Gaussian draws, sums, the grid.

entropy          AES-256-CTR keystream keyed by the operating system
source           `Noise`, the injected source of draws, and its real implementations
sampler          exact draws from a discrete law, vectorised
sampler_table    precomputed table of one law
bernoulli        exact Bernoulli and uniform integer draws
distributions    the two laws for users: draws, probabilities, tails, variances
noise_sum        sums of weighted draws and their error bars
terms            terms of such a sum
tail_bounds      Chernoff bounds, normal tails, exact inversion
grid             real numbers to integers, item by item
coerce           numbers from untyped input
"""

from streamgauge.noise.bernoulli import RandomSource, bernoulli_exp, exponential_coins
from streamgauge.noise.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    Distribution,
    gaussian_variance,
    laplace_variance,
)
from streamgauge.noise.entropy import Entropy, EntropyError, Keystream
from streamgauge.noise.grid import Grid, VectorGrid
from streamgauge.noise.noise_sum import NoiseSum
from streamgauge.noise.sampler_table import Ints
from streamgauge.noise.source import EphemeralNoise, Noise, SecureNoise
from streamgauge.noise.terms import Term

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Distribution",
    "Entropy",
    "EntropyError",
    "EphemeralNoise",
    "Grid",
    "Ints",
    "Keystream",
    "Noise",
    "NoiseSum",
    "RandomSource",
    "SecureNoise",
    "Term",
    "VectorGrid",
    "bernoulli_exp",
    "exponential_coins",
    "gaussian_variance",
    "laplace_variance",
]
