"""What an adaptive mechanism releases: a value, and what is certain of its error.

A mechanism that smooths, repeats or waits trades noise for a bias that only the data know. So a release has
two numbers a group: the `value`, which is usually nearer to the truth, and the `centre`, from which the truth
is no farther than its bar says, whatever the data are. Both are public; where they are one, no bias is there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from streamgauge.adaptive.bars import Bar, OneGroup, Widths, rows_of
from streamgauge.noise.numbers import Floats

Array = np.ndarray[Any, Any]
EXACT = 2.0**53  # below which all whole numbers are floats
ROUNDED = 2.0**-50  # more than what floats take from a centre, a bound, and their sum together


@dataclass(frozen=True, eq=False)
class Released:
    """The release of one tick (width,), of several (ticks, width), or of one group at several (ticks,).

    `bars` has one for each tick.

    `lowest` is what no truth is below: 0 where what is counted cannot be negative, else minus infinity.
    """

    value: Floats
    centre: Floats
    bars: tuple[Bar, ...]
    lowest: float = -np.inf

    @cached_property
    def stddev(self) -> Floats:
        """The standard error of the centre, exactly; NaN where there is none apart from the data."""
        return self._shaped([bar.stddev for bar in self.bars])

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds that hold the truth with at least `confidence`, at each tick and group by itself."""
        half = outwards(self.centre, self._shaped([bar.half_width(confidence) for bar in self.bars]))
        return np.maximum(self.centre - half, self.lowest), np.maximum(self.centre + half, self.lowest)

    def _shaped(self, widths: list[Widths]) -> Floats:
        several = self.value.size // max(1, len(self.bars))
        return rows_of(widths, several).reshape(self.value.shape)

    def of_tick(self, row: int) -> Self:
        """The release of one of several ticks."""
        return self.changed(lambda array: array[row], (self.bars[row],))

    def of_ticks(self, part: slice) -> Self:
        """The releases of some of several ticks."""
        return self.changed(lambda array: array[part], self.bars[part])

    def of_group(self, column: int) -> Self:
        """The releases of one of several groups at several ticks."""
        return self.changed(lambda array: array[:, column], tuple(OneGroup(bar, column) for bar in self.bars))

    def changed(self, change: Callable[[Array], Array], bars: tuple[Bar, ...]) -> Self:
        """The same kind of release, each of its arrays changed."""
        arrays: dict[str, Any] = {name: change(getattr(self, name)) for name in self.arrays}
        return replace(self, bars=bars, **arrays)

    @property
    def arrays(self) -> list[str]:
        """The names of all that has a number for each tick and group."""
        return [each.name for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)]


def outwards(centre: Floats, half: Floats) -> Floats:
    """Half widths with room for what floats have rounded, where there are whole numbers between them."""
    farthest = np.abs(centre) + half
    return np.asarray(np.where(farthest > EXACT, half + farthest * ROUNDED, half))


R = TypeVar("R", bound=Released)


def one_after_the_other(releases: Sequence[R]) -> R:
    """The releases of blocks of ticks as one block."""
    return together(releases, np.concatenate)


def stacked(releases: Sequence[R]) -> R:
    """The releases of single ticks as one block."""
    return together(releases, np.stack)


def together(releases: Sequence[R], put: Callable[[list[Array]], Array]) -> R:
    bars = tuple(bar for each in releases for bar in each.bars)
    arrays: dict[str, Any] = {
        name: put([getattr(each, name) for each in releases]) for name in releases[0].arrays
    }
    return replace(releases[0], bars=bars, **arrays)
