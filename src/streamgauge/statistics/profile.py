"""Noisy counts along one axis, from which ranks, quantiles and extremes are read.

A profile has the blocks of a tree (see `value_tree`) of some ticks and groups, and the law of the noise in
each. The noise of a rank is that of a signed sum of blocks, whose number is public: it is known, not fitted.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy import Reach, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.axis import Axis
from streamgauge.statistics.columns import Column
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.noises import Laws
from streamgauge.statistics.reaches import unit_reach
from streamgauge.statistics.statistic import Marks, Statistic, Told
from streamgauge.statistics.value_tree import ValueTree

R = TypeVar("R")
MOST = 2**26  # places of a vector that is read as a whole


@dataclass(frozen=True, eq=False)
class Profile:
    """The blocks of an axis, (ticks, nodes, width), and the noise of one block at each tick."""

    axis: Axis
    tree: ValueTree
    nodes: Floats
    noises: Sequence[NoiseSum]

    @cached_property
    def ranks(self) -> Floats:
        """The noisy number of events before every edge, (ticks, cells + 1, width)."""
        return self.tree.prefixes(self.nodes)

    @property
    def total(self) -> Floats:
        """The noisy number of events, (ticks, width): the rank of the last edge."""
        return self.ranks[:, -1]

    @cached_property
    def laws(self) -> Laws:
        """Those of the noise of one block: each is worked out once for all ticks that have it."""
        return Laws.of(self.noises)

    @property
    def variances(self) -> Floats:
        """Of the noise of one block, tick by tick."""
        return np.square(self.laws.each(lambda law: law.stddev))


def level_reach(unit: Unit, levels: int) -> Reach:
    """The reach of a unit whose events add 1 to a node of each level."""
    single, pair = Reach(levels, levels, levels), Reach(2 * levels, 2 * levels, 2 * levels)
    return unit_reach(unit, single, pair)


def level_marks(axis: Axis, tree: ValueTree, values: Column, groups: Ints, width: int) -> Marks:
    """What the events of a column add: 1 to a node of each level."""
    cells, present = axis.codes(values)
    events = np.flatnonzero(present)
    places = tree.nodes(cells[events]) * width + groups[events][:, None]
    return Marks(events, places, np.ones((1, 1), np.int64))


class AlongAxis(Statistic[R]):
    """What quantiles and extremes share: one tree over one axis, and how far one unit moves it."""

    lower: Number | None
    upper: Number | None
    step: Number | None

    @property
    @abstractmethod
    def tree(self) -> ValueTree: ...

    @cached_property
    def axis(self) -> Axis:
        return Axis(self.lower, self.upper, self.step)

    @property
    def channels(self) -> int:
        return self.tree.size

    @property
    def reach(self) -> Reach:
        return level_reach(self.unit, self.tree.levels)

    def size(self, width: int, memory: Any) -> int:
        return few_places("step", [self.channels, width], "take a larger one, or fewer groups")

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        return level_marks(self.axis, self.tree, rows[0], groups, width)

    def of_cells(  # noqa: PLR0917 - a table of events, and the shape of the vectors
        self,
        cells: Ints,
        places: Ints,
        counts: Ints,
        width: int,
        rows: Ints | None = None,
        ticks: int = 1,
    ) -> Ints:
        """The exact vectors of so many events in each cell of each group: (channels, width).

        With `rows`, the tick of each from 0 on: (ticks, channels, width). What lies outside is dropped; what
        comes more than once is added up.
        """
        when = np.zeros(len(cells), np.int64) if rows is None else rows
        inside = (cells >= 0) & (cells < self.axis.cells) & (places >= 0) & (places < width)
        inside &= (when >= 0) & (when < ticks)
        cells, places, counts, when = cells[inside], places[inside], counts[inside], when[inside]
        vectors = np.zeros(ticks * self.channels * width, np.int64)
        for first, size in self.tree.blocked:
            nodes = when * self.channels + first + cells // size
            np.add.at(vectors, nodes * width + places, counts)
        shape = (self.channels, width) if rows is None else (ticks, self.channels, width)
        return vectors.reshape(shape)

    def profile(self, told: Told) -> Profile:
        """The noisy blocks of all ticks told of."""
        return Profile(self.axis, self.tree, told.channels, told.noises)


def few_places(name: str, shape: Sequence[int], way: str) -> int:
    """The number of places of a vector; refuses more than can be read at every tick."""
    places = prod(shape)
    if places > MOST:
        shown = " x ".join(map(str, shape))
        raise ValueError(f"{name} must make at most 2**26 places ({way}), got {shown} = {places}")
    return places
