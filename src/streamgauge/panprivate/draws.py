"""Several draws of one law as one part of an error."""

from dataclasses import dataclass

from streamgauge.noise import DiscreteLaplace
from streamgauge.panprivate.deviations import Noise


@dataclass(frozen=True)
class Draws:
    """So many draws of a discrete Laplace law, times `weight` each."""

    weight: float
    law: DiscreteLaplace
    count: int

    @property
    def _one(self) -> Noise:
        return Noise(self.weight, self.law)

    @property
    def variances(self) -> tuple[float, float]:
        least, most = self._one.variances
        return self.count * least, self.count * most

    @property
    def third(self) -> float:
        return self.count * self._one.third

    def log_mgf(self, tilt: float) -> float:
        return self.count * self._one.log_mgf(tilt)
