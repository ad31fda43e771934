"""What an adaptive mechanism releases: a value, and what is certain of its error.

A mechanism that smooths, repeats or waits trades noise for a bias that only the data know. So a release has
two numbers a group: the `value`, which is usually nearer to the truth, and the `centre`, from which the truth
is no farther than its bar says, whatever the data are. Both are public; where they are one, no bias is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamgauge.adaptive.bars import Bar, Widths, rows_of
from streamgauge.noise.numbers import Floats


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
        half = self._shaped([bar.half_width(confidence) for bar in self.bars])
        return np.maximum(self.centre - half, self.lowest), np.maximum(self.centre + half, self.lowest)

    def _shaped(self, widths: list[Widths]) -> Floats:
        several = self.value.size // max(1, len(self.bars))
        return rows_of(widths, several).reshape(self.value.shape)

    def of_tick(self, row: int) -> "Released":
        """The release of one of several ticks."""
        return Released(self.value[row], self.centre[row], (self.bars[row],), self.lowest)

    def of_ticks(self, part: slice) -> "Released":
        """The releases of some of several ticks."""
        return Released(self.value[part], self.centre[part], self.bars[part], self.lowest)


def one_after_the_other(releases: Sequence[Released]) -> Released:
    """The releases of blocks of ticks as one block."""
    return Released(
        np.concatenate([each.value for each in releases]),
        np.concatenate([each.centre for each in releases]),
        tuple(bar for each in releases for bar in each.bars),
        releases[0].lowest,
    )


def stacked(releases: Sequence[Released]) -> Released:
    """The releases of single ticks as one block."""
    return Released(
        np.stack([each.value for each in releases]),
        np.stack([each.centre for each in releases]),
        tuple(bar for each in releases for bar in each.bars),
        releases[0].lowest,
    )
