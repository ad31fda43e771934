"""Estimates: what a statistic releases, with the error that its noise has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamgauge.noise import NoiseSum

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Intervals = Callable[[float], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number per group (a row per tick, if several ticks were fed), and how far it may be off.

    `enough` says where there was enough to go on, judged from noisy counts alone; elsewhere the value is
    shrunk towards what is known without data, and the interval is still valid.
    """

    value: Floats
    stddev: Floats  # the standard error
    enough: Bools
    _intervals: Intervals = field(repr=False)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds that hold the true value with `confidence`, at each tick and group by itself."""
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be above 0 and below 1, got {confidence}")
        return self._intervals(confidence)

    def of_tick(self, row: int) -> "Estimate":
        """The estimate of one of several ticks."""

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            low, high = self._intervals(confidence)
            return low[row], high[row]

        return Estimate(self.value[row], self.stddev[row], self.enough[row], intervals)


def stacked(estimates: Sequence[Estimate]) -> Estimate:
    """The estimates of several ticks, one row each."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        bounds = [estimate.interval(confidence) for estimate in estimates]
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    return Estimate(
        np.stack([estimate.value for estimate in estimates]),
        np.stack([estimate.stddev for estimate in estimates]),
        np.stack([estimate.enough for estimate in estimates]),
        intervals,
    )


def spreads(noises: Sequence[NoiseSum], axes: int = 2) -> Floats:
    """The standard deviation of each tick's noise, shaped to multiply arrays of so many axes."""
    return np.array([noise.stddev for noise in noises]).reshape(-1, *[1] * (axes - 1))


def half_widths(noises: Sequence[NoiseSum], confidence: float, axes: int = 2) -> Floats:
    """The half width of each tick's noise, shaped alike."""
    widths = {noise: noise.half_width(confidence) for noise in set(noises)}
    return np.array([widths[noise] for noise in noises]).reshape(-1, *[1] * (axes - 1))


def factors(noises: Sequence[NoiseSum], confidence: float, axes: int = 2) -> Floats:
    """How many standard deviations a half width is, tick by tick."""
    spread = spreads(noises, axes)
    return half_widths(noises, confidence, axes) / np.where(spread > 0, spread, 1.0)


def linear(value: Floats, noises: Sequence[NoiseSum], scale: float) -> Estimate:
    """Sums as they are: unbiased, under noise of a known law, times `scale`."""
    axes = value.ndim
    shape = np.broadcast_to(spreads(noises, axes) * scale, value.shape)

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        half = half_widths(noises, confidence, axes) * scale
        return value - half, value + half

    return Estimate(value, shape, np.ones(value.shape, np.bool_), intervals)
