"""Exact noise: entropy, discrete Laplace and Gaussian draws, sums of draws, and the integer grid."""

from streamgauge.noise.bernoulli import bernoulli_exp
from streamgauge.noise.chance import Chance
from streamgauge.noise.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    Distribution,
    gaussian_variance,
    laplace_variance,
)
from streamgauge.noise.entropy import Entropy, EntropyError, Keystream
from streamgauge.noise.grid import Grid
from streamgauge.noise.laws import Ints
from streamgauge.noise.source import EphemeralNoise, Noise, SecureNoise
from streamgauge.noise.sums import NoiseSum
from streamgauge.noise.terms import Term
from streamgauge.noise.vectors import VectorGrid

__all__ = [
    "Chance",
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
    "SecureNoise",
    "Term",
    "VectorGrid",
    "bernoulli_exp",
    "gaussian_variance",
    "laplace_variance",
]
