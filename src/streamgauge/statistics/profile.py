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

from streamgauge.noise import Ints, NoiseSum, Term
from streamgauge.privacy import Reach, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.axis import Axis
from streamgauge.statistics.columns import Column
from streamgauge.statistics.estimate import Floats
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

    @property
    def variances(self) -> Floats:
        """Of the noise of one block, tick by tick."""
        return np.array([noise.variance for noise in self.noises])

    def by_noise(self) -> dict[NoiseSum, list[int]]:
        """The ticks (rows) of each kind of noise: laws are worked out once for all of them."""
        rows: dict[NoiseSum, list[int]] = {}
        for row, noise in enumerate(self.noises):
            rows.setdefault(noise, []).append(row)
        return rows


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


def added(noise: NoiseSum, blocks: Sequence[tuple[int, float]], *, fast: bool = False) -> NoiseSum:
    """The noise of so many blocks, each times its weight.

    With `fast`, error bars are those of the Chernoff bound alone: still valid, wider by a tenth where chances
    are small, and ten times sooner there.
    """
    terms = tuple(
        Term(term.count * int(count), float(term.weight * weight), term.distribution)
        for count, weight in blocks
        if count and weight
        for term in noise.terms
    )
    return NoiseSum(terms, noise.bounding or fast)
