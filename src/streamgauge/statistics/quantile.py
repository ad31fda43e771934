"""Quantiles of a column of numbers, at every tick: the median, or several at once, from one tree.

The values are placed in the cells of an axis, `lower` to `upper` by `step`; every level of a tree of blocks
(see `value_tree`) counts them, and the ranks of all cells are read off the noisy blocks (see `quantiles`).

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all quantiles.
    Proof: an event adds 1 to one block of each of the h levels, h in L1 and in squared L2; a replaced one
    leaves as many and enters as many. All else is post-processing.

Error
    In ranks, known beforehand: see `rank_stddev`. In units of the data it depends on how dense they are where
    the quantile lies: the interval says. Ranks are monotone in the value and quantiles in q, at every tick;
    over time a quantile may rise and fall, as the true one may.

Reference
    The tree over values under a counter over time is folklore; see Qardaji, Yang, Li, VLDB 2013, for broad
    trees. Here ranks are reached from either side, and intervals are proved from the exact noise.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import sqrt

from streamgauge.privacy import Event, Loss, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.profile import AlongAxis
from streamgauge.statistics.quantiles import (
    Quantiles,
    fractions,
    quantiles_of,
    stacked_quantiles,
    variance_blocks,
)
from streamgauge.statistics.statistic import Expected, Told
from streamgauge.statistics.tuned import AskedMechanism
from streamgauge.statistics.value_tree import ValueTree, tree_for


@dataclass(frozen=True)
class Quantile(AlongAxis[Quantiles]):
    """The value below which a part q of the events lies, for one q or several; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> claim = Quantile(Pure(1), q=(0.25, 0.5), lower=0, upper=120, step=1, horizon=24)
    >>> run = claim.start(noise=SilentNoise())
    >>> run.step([31, 44, 58, 70]).value.tolist()
    [[31.0], [44.0]]
    """

    loss: Loss
    _: KW_ONLY
    q: Number | Sequence[Number] = 0.5
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    branching: int = 0
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        fractions(self.q)
        if isinstance(self.q, list):
            object.__setattr__(self, "q", tuple(self.q))
        self.size(1, None)

    @cached_property
    def tree(self) -> ValueTree:
        """The tree of least predicted rank error: of the top level's blocks, q (1 - q) count."""
        parts = fractions(self.q)
        share = float(sum(part * (1 - part) for part in parts) / len(parts))
        return tree_for(self.axis.cells, self.loss, self.branching, share)

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(str(place) for place in range(len(fractions(self.q))))

    def release(self, told: Told) -> Quantiles:
        return quantiles_of(self.profile(told), self.q)

    def joined(self, releases: Sequence[Quantiles]) -> Quantiles:
        return stacked_quantiles(releases)

    def rank_stddev(self, tick: int) -> float:
        """The largest standard error of a rank at `tick`, over all values and all q, in events."""
        worst = max(float(variance_blocks(self.tree, part).max()) for part in fractions(self.q))
        return sqrt(worst) * self.linear.stddev(tick)

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        """Of values that are spread evenly over the axis, half the axis at most."""
        part = fractions(self.q)[int(measure)]
        ranks = sqrt(float(variance_blocks(self.tree, part).max())) * self.linear.stddev(tick)
        length = float(self.axis.upper - self.axis.lower)
        return length * min(ranks / max(expected.count, 1.0), 0.5)
