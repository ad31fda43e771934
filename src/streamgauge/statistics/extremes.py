"""The running minimum and maximum of a column of numbers, as differential privacy can have them.

The values are placed in the cells of an axis and counted by a tree of blocks (see `value_tree`), as for
quantiles; an extreme is the outermost cell beyond which more events lie than noise could feign (see
`extremes_seen`). Over a running window the published maximum never falls and the minimum never rises.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream. Proof: an event adds
    1 to one block of each of the h levels, h in L1 and in squared L2. All else is post-processing, and so is
    holding on to what was published: the memory of that is public.

Error
    The exact maximum has unbounded sensitivity, and no private release comes near it on all data. The cell of
    this one is not above that of the true one, but for `doubt`, nor is the minimum's cell below, but for as
    much again: `doubt` is of each extreme, and up to twice that of both together. Each falls short by about
    `rank` events, which is in every release; `beyond` bounds how many, with confidence. Cells are told by the
    edges at which they begin, so that a published minimum may be less than the true one, by up to a step; and
    values beyond `lower` and `upper` count as those, so that extremes beyond the axis are told as its first
    and last cell. Over running windows `doubt` is for all ticks together, since a mistake would stay, equal
    parts of it up to the horizon or, without one, 6/(pi t)^2 of it at tick t; over other windows for each
    tick by itself.

Reference
    The usual advice is to ask for a count of three standard deviations. Held against every cell at every tick
    and kept for good, that overshoots almost surely; a count of five to six does not.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from math import ceil, nan, pi

import numpy as np

from streamgauge.noise import Ints
from streamgauge.privacy import Event, Loss, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.extremes_seen import (
    DOUBT,
    Cells,
    ExtremesSeen,
    check_doubt,
    extremes_of,
    kappa,
    stacked_extremes,
)
from streamgauge.statistics.profile import AlongAxis
from streamgauge.statistics.statistic import Expected, Told
from streamgauge.statistics.tuned import AskedMechanism
from streamgauge.statistics.value_tree import ValueTree, tree_for


@dataclass(slots=True)
class Published:
    """What a run has published so far."""

    tick: int
    low: Ints  # noisy: the cell of the minimum, the number of cells if there is none
    high: Ints  # noisy: the cell of the maximum, -1 if there is none


@dataclass(frozen=True)
class Extremes(AlongAxis[ExtremesSeen]):
    """The least and the largest value, as far as they can be told; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> claim = Extremes(Pure(1), lower=0, upper=50, step=1, horizon=24)
    >>> run = claim.start(noise=SilentNoise())
    >>> run.step([21.5] * 500 + [38] * 500).value.tolist()
    [[21.0], [38.0]]
    """

    loss: Loss
    _: KW_ONLY
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    doubt: float = DOUBT
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    branching: int = 0
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        check_doubt(self.doubt)
        self.size(1, None)

    @cached_property
    def tree(self) -> ValueTree:
        return tree_for(self.axis.cells, self.loss, self.branching)

    def memory(self, width: int) -> Published:
        none = np.full(width, -1, np.int64)
        return Published(0, none + 1 + self.axis.cells, none)

    @property
    def measures(self) -> tuple[str, ...]:
        return ("min", "max")

    def release(self, told: Told) -> ExtremesSeen:
        """Reads what was published before, and remembers what is now."""
        profile = self.profile(told)
        if self.window != "running":
            return extremes_of(profile, self.doubt)
        first, ticks = told.memory.tick, len(told.noises)
        told.memory.tick += ticks
        chances = [self.chances(tick) for tick in range(first + 1, first + ticks + 1)]
        return extremes_of(profile, self.doubt, chances, partial(held_on, told.memory))

    def chances(self, tick: int) -> int:
        """One over the part of `doubt` that a tick of a running window has."""
        return self.horizon if self.horizon is not None else ceil((pi * tick) ** 2 / 6)

    def joined(self, releases: Sequence[ExtremesSeen]) -> ExtremesSeen:
        return stacked_extremes(releases)

    def rank(self, tick: int) -> float:
        """The largest kappa at `tick`: with how many events beyond it any value would be published."""
        tree, noise = self.tree, self.linear.noise_at(self.linear.checked(tick))
        chances = self.chances(tick) if self.window == "running" else 1
        blocks = np.append(tree.below + tree.inside, tree.below + tree.top - tree.inside)
        return float(kappa(noise, np.unique(blocks), self.doubt, self.axis.cells * chances).max())

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        """There is no such thing: `rank` says how many events an extreme falls short by."""
        return nan


def held_on(published: Published, cells: Cells) -> Cells:
    """Maxima that never fall and minima that never rise, from what was published before."""
    low = np.minimum.accumulate(np.vstack([published.low, cells.low]), axis=0)[1:]
    high = np.maximum.accumulate(np.vstack([published.high, cells.high]), axis=0)[1:]
    if len(low):
        published.low, published.high = low[-1].copy(), high[-1].copy()
    return Cells(low, high)
