"""Estimates: what a statistic releases, with the error that its noise has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from streamgauge.continual import Mechanism
from streamgauge.noise import NoiseSum

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
NARROW = 2.0  # steps of the grid: noise below it is far from any continuous law
Intervals = Callable[[float], tuple[Floats, Floats]]


@dataclass(frozen=True)
class NoisesOf(Sequence[NoiseSum]):
    """The noise in each of some ticks' releases, worked out when it is asked for."""

    mechanism: Mechanism[Any]
    first: int
    ticks: int

    def __len__(self) -> int:
        return self.ticks

    @overload
    def __getitem__(self, place: int) -> NoiseSum: ...

    @overload
    def __getitem__(self, place: slice) -> "NoisesOf": ...

    def __getitem__(self, place: int | slice) -> "NoiseSum | NoisesOf":
        ticks = range(self.first, self.first + self.ticks)[place]
        if isinstance(ticks, int):
            return self.mechanism.noise_at(ticks)
        return NoisesOf(self.mechanism, ticks.start, len(ticks))


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number per group (a row per tick, if several ticks were fed), and how far it may be off.

    `enough` says where there was enough to go on, judged from noisy counts alone; elsewhere the value is
    shrunk towards what is known without data, its standard error does not say how far, and the interval is
    what to look at.
    """

    value: Floats
    _spread: Callable[[], Floats] = field(repr=False)
    enough: Bools
    _intervals: Intervals = field(repr=False)
    _rows: "Callable[[slice], Estimate] | None" = field(default=None, repr=False)

    @cached_property
    def stddev(self) -> Floats:
        """The standard error."""
        return np.broadcast_to(self._spread(), self.value.shape)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds that hold the true value with `confidence`, at each tick and group by itself."""
        check_confidence(confidence)
        return self._intervals(confidence)

    def of_tick(self, row: int) -> "Estimate":
        """The estimate of one of several ticks."""
        if self._rows is not None:
            return self._rows(slice(row, row + 1 or None))._row(0)
        return self._row(row)

    def _row(self, row: int) -> "Estimate":
        def intervals(confidence: float) -> tuple[Floats, Floats]:
            low, high = self._intervals(confidence)
            return low[row], high[row]

        return Estimate(self.value[row], lambda: self.stddev[row], self.enough[row], intervals)

    def __repr__(self) -> str:
        return f"Estimate(value={self.value!r}, stddev={self.stddev!r}, enough={self.enough!r})"


def is_number(value: object) -> bool:
    """Whether it is a real number, and no switch."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_confidence(confidence: object) -> None:
    if not (is_number(confidence) and 0 < confidence < 1):  # type: ignore[operator]  # a number by now
        raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}")


def stacked(estimates: Sequence[Estimate]) -> Estimate:
    """The estimates of several ticks, one row each."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        bounds = [estimate.interval(confidence) for estimate in estimates]
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    return Estimate(
        np.stack([estimate.value for estimate in estimates]),
        lambda: np.stack([estimate.stddev for estimate in estimates]),
        np.stack([estimate.enough for estimate in estimates]),
        intervals,
    )


def spreads(noises: Sequence[NoiseSum], axes: int = 2) -> Floats:
    """The standard deviation of each tick's noise, shaped to multiply arrays of so many axes."""
    return np.array([noise.stddev for noise in noises]).reshape(-1, *[1] * (axes - 1))


def half_widths(noises: Sequence[NoiseSum], confidence: float, axes: int = 2) -> Floats:
    """The half width of each tick's noise, shaped alike."""
    all_of_them = list(noises)
    widths = {noise: noise.half_width(confidence) for noise in set(all_of_them)}
    return np.array([widths[noise] for noise in all_of_them]).reshape(-1, *[1] * (axes - 1))


def factors(noises: Sequence[NoiseSum], confidence: float, channels: int) -> Floats:
    """How many standard deviations a half width is, tick by tick.

    Noise that is 0 most of the time is not so in one of several channels: there, that of all at once.
    """
    kinds = {noise: _factor(noise, confidence, channels) for noise in set(noises)}
    return np.array([kinds[noise] for noise in noises]).reshape(-1, 1)


def _factor(noise: NoiseSum, confidence: float, channels: int) -> float:
    if not noise.stddev:
        return 0.0
    narrow = noise.stddev < NARROW
    half = noise.simultaneous(confidence, channels) if narrow else noise.half_width(confidence)
    return half / noise.stddev


def linear(value: Floats, noises: Sequence[NoiseSum], scale: float) -> Estimate:
    """Sums as they are, times `scale`: unbiased, under noise of a known law."""
    axes = value.ndim

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        half = half_widths(noises, confidence, axes) * scale
        return value - half, value + half

    def rows(part: slice) -> Estimate:
        return linear(value[part], noises[part], scale)

    enough = np.ones(value.shape, np.bool_)
    return Estimate(value, lambda: spreads(noises, axes) * scale, enough, intervals, rows)
