"""The chance of an experiment: exact noise, uniform floats and coins over one stream of bits.

A seeded stream makes an audit repeatable; mechanisms in service never see one.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamgauge.noise import Entropy, Ints, Keystream
from streamgauge.noise.laws import GaussianLaw, LaplaceLaw
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.noise.source import sample
from streamgauge.testing import InsecureKeystream


@dataclass(frozen=True)
class Chance:
    """A source of noise for mechanisms, and of all else that an experiment draws."""

    entropy: Entropy = field(default_factory=Keystream)

    @classmethod
    def seeded(cls, label: str) -> "Chance":
        """The same every time, for an experiment that is to be repeated."""
        return cls(InsecureKeystream(label))

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return sample(LaplaceLaw(scale), self.entropy, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return sample(GaussianLaw(variance), self.entropy, size)

    def words(self, size: int) -> Ints:
        """Whole numbers below 2^53, all as likely."""
        raw = np.empty(8 * size, np.uint8)
        self.entropy.fill(raw)
        return (raw.view(np.uint64) >> np.uint64(11)).astype(np.int64)

    def uniforms(self, size: int) -> Floats:
        """Floats in [0, 1), as every textbook draws them: multiples of 2^-53."""
        return np.asarray(self.words(size) * 2.0**-53, np.float64)

    def coins(self, chance: float, size: int) -> Bools:
        return np.asarray(self.uniforms(size) < chance, np.bool_)
