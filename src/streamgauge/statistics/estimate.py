"""Estimates: what a statistic releases, with the error that its noise has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real

import numpy as np

from streamgauge.noise import NoiseSum
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.statistics.noises import half_widths, spreads
from streamgauge.statistics.told import Columns

__all__ = ["Bools", "Estimate", "Floats", "Intervals", "check_confidence", "is_number", "linear", "stacked"]

Intervals = Callable[[float], tuple[Floats, Floats]]


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

    def told(self, confidence: float = 0.95) -> dict[str, Columns]:
        """All of it as columns, under the name "value"."""
        check_confidence(confidence)
        return {"value": Columns(confidence, lambda: self)}

    def of_tick(self, row: int) -> "Estimate":
        """The estimate of one of several ticks."""
        if self._rows is not None:
            return self._rows(slice(row, row + 1 or None))._row(0)
        return self._row(row)

    def of_ticks(self, part: slice) -> "Estimate":
        """The estimates of some of several ticks."""
        return self._rows(part) if self._rows is not None else self._row(part)

    def _row(self, row: int | slice) -> "Estimate":
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


def linear(
    value: Floats, noises: Sequence[NoiseSum], scale: float, weights: Sequence[int] = (1,)
) -> Estimate:
    """Sums as they are: unbiased, under noise of a known law.

    That is `scale` times the sum of independent draws of the tick's noise, one for each of `weights`.
    """
    axes = value.ndim

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        half = half_widths(noises, confidence, axes, weights) * scale
        return value - half, value + half

    def rows(part: slice) -> Estimate:
        return linear(value[part], noises[part], scale, weights)

    def error() -> Floats:
        return spreads(noises, axes, weights) * scale

    return Estimate(value, error, np.ones(value.shape, np.bool_), intervals, rows)
