"""Estimates of a statistic, with the error of their noise.

Every release can be laid out as named columns of numbers, the same five for all statistics.

    release.columns(0.95)      {"count": Columns, "mean": Columns, ...}; a lone `Estimate` is "value"

Each column is an array of (width,), or (ticks, width) for several ticks. A column is computed only if it is read.

**Adaptive counters.** A counter that adapts to its data gives an interval around its `centre` with each release,
valid for all data. Here the value, the standard error and the interval are those of the release, times
the size of one step of the grid. The standard error is NaN if none exists independently of the data.

**Noise of many ticks** is computed once for each distinct law. Ticks share their laws: over a tree there are as many
as a release can have blocks. A Toeplitz counter has one, on another scale at every tick. Draws identify a law. Its
scale is factored out if all draws have one weight. Half widths are rounded outwards after it is multiplied back.

Work over many ticks is split into pieces: NumPy is several times faster if arrays stay in the cache.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import inf
from numbers import Real
from typing import Any, ClassVar, Self, overload

import numpy as np

from streamgauge.adaptive import AdaptiveRelease, ErrorBound
from streamgauge.adaptive.estimate import Widths
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Ints, NoiseSum, Term
from streamgauge.noise.coerce import Bools, Floats

MAX_DISCRETE_STDDEV = 2.0  # steps of the grid: noise below it is far from any continuous law


@dataclass(frozen=True)
class TickNoises(Sequence[NoiseSum]):
    """Noise in the releases of some ticks, computed on access."""

    mechanism: LinearMechanism[Any]
    first_tick: int
    ticks: int
    window: int | None = None  # ticks, if it is not the mechanism's

    def __len__(self) -> int:
        return self.ticks

    @cached_property
    def _all(self) -> list[NoiseSum]:
        return [self._find(tick) for tick in range(self.first_tick, self.first_tick + self.ticks)]

    def _find(self, tick: int) -> NoiseSum:
        return self.mechanism.noise_at(tick) if self.window is None else self.mechanism.window_noise(self.window, tick)

    @cached_property
    def laws(self) -> "NoiseLaws":
        return NoiseLaws.find(self._all)

    def __iter__(self) -> Iterator[NoiseSum]:
        return iter(self._all)

    @overload
    def __getitem__(self, place: int) -> NoiseSum: ...

    @overload
    def __getitem__(self, place: slice) -> "TickNoises": ...

    def __getitem__(self, place: int | slice) -> "NoiseSum | TickNoises":
        ticks = range(self.first_tick, self.first_tick + self.ticks)[place]
        if isinstance(ticks, int):
            return self._find(ticks)
        return TickNoises(self.mechanism, ticks.start, len(ticks), self.window)


@dataclass(frozen=True, eq=False)
class NoiseLaws:
    """Distinct noise laws of some ticks, with the law and the scale of each tick."""

    distinct_laws: tuple[NoiseSum, ...]
    law_indices: Ints
    scales: Floats

    @classmethod
    def from_noises(cls, noises: Sequence[NoiseSum]) -> "NoiseLaws":
        known = getattr(noises, "laws", None)
        return known if isinstance(known, NoiseLaws) else cls.find(noises)

    @classmethod
    def find(cls, noises: Sequence[NoiseSum]) -> "NoiseLaws":
        places: dict[NoiseSum, int] = {}
        rows = [split_scale(noise) for noise in noises]
        which = [places.setdefault(law, len(places)) for law, _ in rows]
        return cls(tuple(places), np.array(which, np.int64), np.array([scale for _, scale in rows], float))

    def combine(self, weights: Sequence[int]) -> "NoiseLaws":
        """Return the laws of a sum of independent channels, each times its weight."""
        laws = [add_blocks(law, [(1, weight) for weight in weights]) for law in self.distinct_laws]
        return NoiseLaws(tuple(laws), self.law_indices, self.scales)

    def iterate_laws(self) -> Iterator[tuple[NoiseSum, Ints]]:
        """Yield every law with the ticks (rows) that have it."""
        for place, law in enumerate(self.distinct_laws):
            yield law, np.flatnonzero(self.law_indices == place)

    def map_scaled(self, number: Callable[[NoiseSum], float]) -> Floats:
        """Return a number of each tick's noise that grows with its scale."""
        return np.array([number(law) for law in self.distinct_laws], float)[self.law_indices] * self.scales

    def map_outwards(self, number: Callable[[NoiseSum], float]) -> Floats:
        """Return a bound of each tick's noise, rounded outwards."""
        return round_outwards(self.map_scaled(number), self.scales)


def split_scale(noise: NoiseSum) -> tuple[NoiseSum, float]:
    """Return a law and its scale: 1 unless all draws have one weight."""
    terms = noise.terms
    weight = abs(terms[0].weight) if terms else 0
    if weight in (0, 1) or any(abs(term.weight) != weight for term in terms):
        return noise, 1.0
    return NoiseSum(tuple(Term(term.count, 1, term.distribution) for term in terms), noise.is_bound), weight


def round_outwards(widths: Floats, scales: Floats) -> Floats:
    """Return products of widths and scales that are not below the exact ones."""
    return np.where((scales == 1) | (widths == 0), widths, np.nextafter(widths, inf))


def add_blocks(noise: NoiseSum, blocks: Sequence[tuple[int, float]], *, fast: bool = False) -> NoiseSum:
    """Return the noise of so many blocks, each times its weight.

    With `fast`, error bars are those of the Chernoff bound alone. They are still valid, wider by a tenth if chances
    are small, and ten times faster there.
    """
    terms = tuple(
        Term(term.count * int(count), float(term.weight * weight), term.distribution)
        for count, weight in blocks
        if count and weight
        for term in noise.terms
    )
    return NoiseSum(terms, noise.is_bound or fast)


def noise_stddevs(noises: Sequence[NoiseSum], axes: int = 2, weights: Sequence[int] = (1,)) -> Floats:
    """Return the stddev of each tick's noise, shaped to multiply arrays of `axes`."""
    found = NoiseLaws.from_noises(noises).combine(weights).map_scaled(lambda law: law.stddev)
    return found.reshape(-1, *[1] * (axes - 1))


def noise_half_widths(
    noises: Sequence[NoiseSum], confidence: float, axes: int = 2, weights: Sequence[int] = (1,)
) -> Floats:
    """Return the half width of each tick's noise, shaped alike."""
    found = NoiseLaws.from_noises(noises).combine(weights).map_outwards(lambda law: law.half_width(confidence))
    return found.reshape(-1, *[1] * (axes - 1))


def half_width_factors(noises: Sequence[NoiseSum], confidence: float, channels: int) -> Floats:
    """Return half widths in standard deviations, tick by tick.

    Noise that is 0 most of the time is not 0 in one of several channels. For it the half width is that of all channels
    at once.
    """
    laws = NoiseLaws.from_noises(noises)
    found = np.zeros(len(laws.law_indices))
    for law, rows in laws.iterate_laws():
        if law.stddev:
            narrow = law.stddev * laws.scales[rows] < MAX_DISCRETE_STDDEV
            found[rows[narrow]] = (
                law.simultaneous_half_width(confidence, channels) / law.stddev if narrow.any() else 0.0
            )
            found[rows[~narrow]] = 0.0 if narrow.all() else law.half_width(confidence) / law.stddev
    return found.reshape(-1, 1)


PIECE_NUMBERS = 2**15  # numbers of an array


def split_rows(rows: int, size: int) -> list[slice]:
    """Return all rows, of `size` numbers each, in pieces.

    >>> split_rows(5, PIECE_NUMBERS // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, PIECE_NUMBERS // max(1, size))
    return [slice(first, first + step) for first in range(0, max(1, rows), step)]


def concatenate_bounds(bounds: Iterable[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return the lower and the upper bounds of all pieces."""
    lows, highs = zip(*bounds, strict=True)
    return np.concatenate(lows), np.concatenate(highs)


@dataclass(frozen=True, eq=False)
class Columns:
    """One measure of a release: value, stddev, low, high and reliable, of one shape.

    `stddev` is NaN if there is none. `low` and `high` are always valid, with `confidence`.
    """

    confidence: float
    _build: "Callable[[], Estimate]" = field(repr=False)

    @cached_property
    def _estimate(self) -> "Estimate":
        return self._build()

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self._estimate.interval(self.confidence)

    @property
    def value(self) -> Floats:
        return self._estimate.value

    @property
    def stddev(self) -> Floats:
        return self._estimate.stddev

    @property
    def low(self) -> Floats:
        return np.broadcast_to(self._interval[0], self.value.shape)

    @property
    def high(self) -> Floats:
        return np.broadcast_to(self._interval[1], self.value.shape)

    @property
    def reliable(self) -> Bools:
        """True if the data sufficed; False if nothing is certain."""
        return np.broadcast_to(self._estimate.reliable, self.value.shape) & np.isfinite(self.high)


__all__ = ["Bools", "Estimate", "Floats", "Intervals", "build_linear_estimate", "check_confidence", "is_number"]

Array = np.ndarray[Any, Any]
Intervals = Callable[[float], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number per group, or a row per tick of several ticks, and its error.

    `reliable` says if there was enough data, judged from noisy counts alone. Otherwise the value is
    shrunk towards a value known without data, and its standard error does not say how far. Then use
    the interval.

    Kinds with more numbers per group name their fields in `ARRAYS`, and bounds for a confidence in `BOUNDS`.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = ("value", "reliable")
    BOUNDS: ClassVar[tuple[str, ...]] = ("_intervals",)
    value: Floats
    _compute_stddev: Callable[[], Floats] = field(repr=False)
    reliable: Bools
    _intervals: Intervals = field(repr=False)
    _rows: "Callable[[slice], Self] | None" = field(default=None, repr=False)

    @cached_property
    def stddev(self) -> Floats:
        """Standard error."""
        return np.broadcast_to(self._compute_stddev(), self.value.shape)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return bounds of the true value with `confidence`, per tick and group."""
        check_confidence(confidence)
        return self._intervals(confidence)

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return all columns, under the name "value"."""
        check_confidence(confidence)
        return {"value": Columns(confidence, lambda: self)}

    def split_columns(self, names: Iterable[str], confidence: float) -> dict[str, Columns]:
        """Return the columns of each part of the last axis but one, whose intervals are computed once."""
        check_confidence(confidence)
        shared = lru_cache(maxsize=1)(self._intervals)

        def select_part(place: int) -> Estimate:
            def part(array: Array) -> Array:
                return array[..., place, :]

            return Estimate(
                part(self.value), lambda: part(self.stddev), part(self.reliable), partial(map_bounds, shared, part)
            )

        return {name: Columns(confidence, partial(select_part, place)) for place, name in enumerate(names)}

    def select_tick(self, row: int) -> Self:
        """Return the estimate of one of several ticks."""
        if self._rows is not None:
            return self._rows(slice(row, row + 1 or None)).map_arrays(lambda array: array[0])
        return self.map_arrays(lambda array: array[row])

    def select_ticks(self, part: slice) -> Self:
        """Return the estimates of some of several ticks."""
        return self._rows(part) if self._rows is not None else self.map_arrays(lambda array: array[part])

    def map_arrays(self, change: Callable[[Array], Array]) -> Self:
        """Return the same kind of estimate, with each of its arrays changed."""
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in self.ARRAYS}
        changed |= {name: partial(map_bounds, getattr(self, name), change) for name in self.BOUNDS}
        return replace(self, _compute_stddev=lambda: change(self.stddev), _rows=None, **changed)

    @classmethod
    def stack(cls, estimates: Sequence[Self]) -> Self:
        """Return the estimates of several ticks, one row each."""
        changed: dict[str, Any] = {name: np.stack([getattr(each, name) for each in estimates]) for name in cls.ARRAYS}
        changed |= {name: partial(stack_bounds, [getattr(each, name) for each in estimates]) for name in cls.BOUNDS}
        changed["_compute_stddev"] = lambda: np.stack([each.stddev for each in estimates])
        return replace(estimates[0], _rows=None, **changed)

    def __repr__(self) -> str:
        return f"Estimate(value={self.value!r}, stddev={self.stddev!r}, reliable={self.reliable!r})"


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowEstimates(Estimate):
    """Number of every window in every group: (windows, width), by tick. The longest window is last."""

    windows: tuple[int, ...]  # ticks

    @classmethod
    def join(cls, windows: Sequence[int], parts: Sequence[Estimate]) -> "WindowEstimates":
        """Return the estimates of each window, of some ticks, as one."""

        def stack(arrays: Iterable[Array]) -> Array:
            return np.stack([*arrays], axis=1)

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            lows, highs = zip(*(part.interval(confidence) for part in parts), strict=True)
            return stack(lows), stack(highs)

        values, reliable = stack(part.value for part in parts), stack(part.reliable for part in parts)
        return cls(values, lambda: stack(part.stddev for part in parts), reliable, intervals, windows=tuple(windows))

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return each window as columns, by its name: "sliding 12", "sliding 288", ..."""
        return self.split_columns(map(name_window, self.windows), confidence)


def name_window(ticks: int) -> str:
    """Return the column of a window of so many ticks.

    >>> name_window(12)
    'sliding 12'
    """
    return f"sliding {ticks}"


def map_bounds(bounds: Intervals, change: Callable[[Array], Array], confidence: float) -> tuple[Floats, Floats]:
    """Return both bounds with their arrays changed."""
    low, high = bounds(confidence)
    return change(low), change(high)


def stack_bounds(bounds: Sequence[Intervals], confidence: float) -> tuple[Floats, Floats]:
    """Return the bounds of several ticks, one row each."""
    lows, highs = zip(*(each(confidence) for each in bounds), strict=True)
    return np.stack(lows), np.stack(highs)


def is_number(value: object) -> bool:
    """Return whether a value is a real number and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_confidence(confidence: object) -> None:
    if not (is_number(confidence) and 0 < confidence < 1):  # type: ignore[operator]  # a number by now
        raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}")


def build_linear_estimate(
    value: Floats, noises: Sequence[NoiseSum], scale: float, weights: Sequence[int] = (1,)
) -> Estimate:
    """Return the estimate of sums under noise of a known law. It is unbiased.

    The noise is `scale` times the sum of independent draws of the tick's noise, one for each of `weights`.
    """
    axes = value.ndim

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        half = noise_half_widths(noises, confidence, axes, weights) * scale
        return value - half, value + half

    def rows(part: slice) -> Estimate:
        return build_linear_estimate(value[part], noises[part], scale, weights)

    def error() -> Floats:
        return noise_stddevs(noises, axes, weights) * scale

    return Estimate(value, error, np.ones(value.shape, np.bool_), intervals, rows)


def build_adaptive_estimate(release: AdaptiveRelease, scale: float) -> Estimate:
    """Return the estimate of some ticks. Always reliable, since nothing is divided."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        low, high = release.interval(confidence)
        return low * scale, high * scale

    def rows(part: slice) -> Estimate:
        return build_adaptive_estimate(release.select_ticks(part), scale)

    reliable = np.ones(release.value.shape, np.bool_)
    return Estimate(release.value * scale, lambda: release.stddev * scale, reliable, intervals, rows)


@dataclass(frozen=True)
class ScaledErrorBound:
    """Error bound of a counter's releases in units of the data."""

    error_bound: ErrorBound
    scale: float

    @property
    def stddev(self) -> Widths:
        return self.error_bound.stddev * self.scale

    def half_width(self, confidence: float) -> Widths:
        return self.error_bound.half_width(confidence) * self.scale
