"""Releases of adaptive mechanisms, and bounds of their errors.

A mechanism that smooths, repeats or waits trades noise for a bias that only the data know. So a release has two
numbers a group. The `value` is usually nearer to the truth. The `centre` has an error bound that holds for all
data. Both are public. If they are equal, there is no bias.

An error bound states how far the truth is from the `centre`, and nothing that is not certain:
- If the error is noise of a known law, the bound is that law (`NoiseSum`).
- If a private test has bounded how far data have moved, it is that bound with the noise of the test.
- If nothing bounds the error, it is `UnknownErrorBound`.
A mechanism without a standard error apart from its data states NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf, nan
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from streamgauge.noise import NoiseSum
from streamgauge.noise.coerce import Floats

DRAW_COUNT_BITS = 7  # binary digits of a number of draws whose half width is worked out
Widths = float | Floats  # one number for all groups, or one for each


class ErrorBound(Protocol):
    """A bound of the distance between truth and centre of a release, at one tick."""

    @property
    def stddev(self) -> Widths:
        """The standard error of the centre; NaN if there is none apart from the data."""
        ...

    def half_width(self, confidence: float) -> Widths:
        """Return a distance that the truth keeps with at least `confidence`, for all data."""
        ...


@dataclass(frozen=True)
class UnknownErrorBound:
    """The bound of an error of which nothing is certain."""

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> float:
        return inf


@dataclass(frozen=True)
class ManyDrawsErrorBound:
    """The noise of windows that grow from tick to tick.

    Half widths are not computed at every tick. They are those of a few more draws, less than one in 64, so that one
    serves for many ticks. They are never too narrow: a sum of symmetric draws that are likelier near 0 only
    spreads with each draw.
    """

    noise: NoiseSum

    @property
    def stddev(self) -> float:
        return self.noise.stddev

    def half_width(self, confidence: float) -> float:
        more = (replace(term, count=round_up_to_few_bits(term.count)) for term in self.noise.terms)
        return NoiseSum(tuple(more)).half_width(confidence)


def round_up_to_few_bits(number: int) -> int:
    """Round up to a number of DRAW_COUNT_BITS binary digits followed by zeros.

    >>> [round_up_to_few_bits(number) for number in (1, 128, 129, 1000)]
    [1, 128, 130, 1000]
    """
    places = max(0, number.bit_length() - DRAW_COUNT_BITS)
    return -(-number >> places) << places


@dataclass(frozen=True)
class GroupErrorBound:
    """An error bound for one of its groups."""

    error_bound: ErrorBound
    column: int

    @property
    def stddev(self) -> Widths:
        return self._select_column(self.error_bound.stddev)

    def half_width(self, confidence: float) -> Widths:
        return self._select_column(self.error_bound.half_width(confidence))

    def _select_column(self, widths: Widths) -> Widths:
        return widths if np.ndim(widths) == 0 else float(np.asarray(widths)[self.column])


def chance_divisor(ordinal: int) -> int:
    """Return one over the i-th part of a chance: all parts add up to 1.

    Those of 2^(j-1) < i <= 2^j have 1/((j + 1)(j + 2)) together.

    >>> [chance_divisor(i) for i in (1, 2, 3, 4, 5, 8, 9)]
    [2, 6, 24, 24, 80, 80, 240]
    """
    j = (ordinal - 1).bit_length()
    return (j + 1) * (j + 2) * int(2 ** max(j - 1, 0))


Array = np.ndarray[Any, Any]
MAX_EXACT_FLOAT = 2.0**53  # below it all whole numbers are floats
RELATIVE_ROUNDING = 2.0**-50  # more than the rounding of a centre, a bound, and their sum together


@dataclass(frozen=True, eq=False)
class AdaptiveRelease:
    """The release of one tick, of several, or of one group at several.

    Its arrays are (width,), (ticks, width) or (ticks,).

    `error_bounds` has one for each tick. No truth is below `lowest`: 0 for counts that cannot be negative, else
    minus infinity.
    """

    value: Floats
    centre: Floats
    error_bounds: tuple[ErrorBound, ...]
    lowest: float = -np.inf

    @cached_property
    def stddev(self) -> Floats:
        """The exact standard error of the centre.

        NaN if there is none apart from the data.
        """
        return self._shape_widths([bar.stddev for bar in self.error_bounds])

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return bounds that contain the truth with at least `confidence`.

        They hold at each tick and group by itself.
        """
        half = self._shape_widths([bar.half_width(confidence) for bar in self.error_bounds])
        farthest = np.abs(self.centre) + half
        half = np.where(farthest > MAX_EXACT_FLOAT, half + farthest * RELATIVE_ROUNDING, half)  # rounded outwards
        return np.maximum(self.centre - half, self.lowest), np.maximum(self.centre + half, self.lowest)

    def _shape_widths(self, widths: list[Widths]) -> Floats:
        groups = self.value.size // max(1, len(self.error_bounds))
        rows = [np.broadcast_to(np.asarray(each, np.float64), (groups,)) for each in widths]
        return np.array(rows).reshape(self.value.shape)

    def select_tick(self, row: int) -> Self:
        """Return the release of one of several ticks."""
        return self.map_arrays(lambda array: array[row], (self.error_bounds[row],))

    def select_ticks(self, part: slice) -> Self:
        """Return the releases of some of several ticks."""
        return self.map_arrays(lambda array: array[part], self.error_bounds[part])

    def select_group(self, column: int) -> Self:
        """Return the releases of one of several groups at several ticks."""
        bars = tuple(GroupErrorBound(bar, column) for bar in self.error_bounds)
        return self.map_arrays(lambda array: array[:, column], bars)

    def map_arrays(self, change: Callable[[Array], Array], bars: tuple[ErrorBound, ...]) -> Self:
        """Return the same kind of release, with each of its arrays changed."""
        arrays: dict[str, Any] = {name: change(getattr(self, name)) for name in self.array_names}
        return replace(self, error_bounds=bars, **arrays)

    @property
    def array_names(self) -> list[str]:
        """Names of the fields that have a number for each tick and group."""
        return [each.name for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)]


R = TypeVar("R", bound=AdaptiveRelease)


def combine_releases(releases: Sequence[R], combine: Callable[[list[Array]], Array]) -> R:
    """Return releases as one block: blocks by `np.concatenate`, ticks by `np.stack`."""
    bars = tuple(bar for each in releases for bar in each.error_bounds)
    names = releases[0].array_names
    arrays: dict[str, Any] = {name: combine([getattr(each, name) for each in releases]) for name in names}
    return replace(releases[0], error_bounds=bars, **arrays)
