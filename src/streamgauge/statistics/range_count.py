"""Counts of ranges in several dimensions, at every tick: any box, from one run.

    age > 50 AND salary >= 10 000 AND time <= t      release.count(age=(51, None), salary=(10_000, None))

Every axis has a tree of blocks (see `value_tree`); an event counts in one block of every level of every
axis, together: a node of the product of the trees. A box is the product of one signed sum of blocks for each
axis. The release of tick t answers `time <= t` (or the window's ticks) for all boxes, now or later; an
interval of time is the difference of two releases, whose errors are within the sum of their half widths,
each taken at confidence 1 - beta/2 (union bound).

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all boxes that
    are ever asked for. Proof: an event adds 1 to the H = product of `levels` nodes that hold it, H in L1 and
    in squared L2; a replaced one leaves as many and enters as many. Boxes are post-processing.

Error
    Unbiased; a box of k signed blocks has k times the variance of one, exactly, and its interval is that of
    the sum of their draws. `stddev` predicts it before there are data. Branching and levels are those of
    least predicted error over ranges that are open at one end.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, section on ranges:
    products of dyadic trees, where boxes are sums of blocks; here of broad ones, with subtraction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.privacy import Event, Loss, Reach, Unit
from streamgauge.statistics.axis import Axis
from streamgauge.statistics.columns import Column, column
from streamgauge.statistics.noises import added
from streamgauge.statistics.profile import few_places, level_reach
from streamgauge.statistics.ranges import Box, Ranges, Space, stacked_ranges
from streamgauge.statistics.settings import declared
from streamgauge.statistics.statistic import Marks, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism
from streamgauge.statistics.value_tree import tree_for

Axes = Mapping[str, Axis] | Sequence[tuple[str, Axis]]


@dataclass(frozen=True)
class RangeCount(Statistic[Ranges]):
    """How many events lie in any box of declared axes; see the module's claim.

    Events come as a table: a mapping or data frame with a column of numbers for every axis.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> axes = {"age": Axis(0, 120, 1), "salary": Axis(0, 200_000, 1000)}
    >>> run = RangeCount(Pure(1), axes=axes, horizon=24).start(noise=SilentNoise())
    >>> seen = run.step({"age": [51, 64, 70], "salary": [9000, 40_000, 10_000]})
    >>> seen.count(age=(51, None), salary=(10_000, None)).value.tolist()
    [2.0]
    """

    loss: Loss
    _: KW_ONLY
    axes: Axes | None = None
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    branching: int = 0
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        given = declared("axes", self.axes, "the axes that events are placed on, by name: an Axis each")
        object.__setattr__(self, "axes", named_axes(given))
        self.size(1, None)

    @cached_property
    def space(self) -> Space:
        """The axes, and the tree of each: by default that of least error for ranges open at one end."""
        axes = named_axes(self.axes)
        return Space(axes, tuple(tree_for(axis.cells, self.loss, self.branching) for _, axis in axes))

    @property
    def channels(self) -> int:
        return prod(self.space.shape)

    @property
    def columns(self) -> int:
        return len(self.space.axes)

    @property
    def reach(self) -> Reach:
        return level_reach(self.unit, self.space.levels)

    def size(self, width: int, memory: Any) -> int:
        way = "take larger steps, fewer axes or fewer groups"
        return few_places("axes", [*self.space.shape, width], way)

    def read(self, values: Any) -> list[Column]:
        return [column(name, table_column(values, name)) for name in self.space.names]

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        placed = [axis.codes(row) for (_, axis), row in zip(self.space.axes, rows, strict=True)]
        events = np.flatnonzero(np.logical_and.reduce([present for _, present in placed]))
        nodes = self.space.nodes([cells[events] for cells, _ in placed])
        return Marks(events, nodes * width + groups[events][:, None], np.ones((1, 1), np.int64))

    @property
    def measures(self) -> tuple[str, ...]:
        return ()

    def release(self, told: Told) -> Ranges:
        nodes = told.sums.reshape(len(told.sums), self.channels, told.width)
        return Ranges(self.space, nodes, tuple(told.noises))

    def joined(self, releases: Sequence[Ranges]) -> Ranges:
        return stacked_ranges(releases)

    def stddev(  # type: ignore[override]  # any name may be that of an axis, "tick" too
        self, tick: int, box: Box | None = None, /, **bounds: Any
    ) -> float:
        """The exact standard error of a box at `tick`, known before there are data."""
        blocks = self.space.blocks(self.space.checked(box, bounds))
        size = prod(len(nodes) for nodes, _ in blocks)
        return added(self.linear.noise_at(self.linear.checked(tick)), [(size, 1)]).stddev


def named_axes(axes: Any) -> tuple[tuple[str, Axis], ...]:
    """Names and axes as pairs, from pairs or a mapping."""
    items = axes.items() if isinstance(axes, Mapping) else axes
    pairs = tuple(items) if isinstance(items, Collection) and not isinstance(items, str) else ()
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"axes must be a mapping of names to axes, got {axes!r}")
    for name, axis in pairs:
        if not isinstance(name, str) or not isinstance(axis, Axis):
            raise ValueError(f"axes must be a mapping of names to axes, got {name!r}: {axis!r}")
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"axes must have distinct names, got {[name for name, _ in pairs]}")
    return pairs


def table_column(values: Any, name: str) -> Any:
    """A column of a table, whatever kind of table it is."""
    try:
        return values[name]
    except Exception:
        raise ValueError(f"values must be a table with a column {name!r}, got none") from None
