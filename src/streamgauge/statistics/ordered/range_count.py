"""Counts of any box in several dimensions, at every tick, from one run.

    age > 50 AND salary >= 10 000 AND time <= t      release.count(age=(51, None), salary=(10_000, None))

Every axis has a name and a tree of blocks (see `value_tree`). An event counts in one block of every level of every
axis, together: a node of the product of the trees. A box is the product of one signed sum of blocks for each
axis. The release of tick t answers `time <= t` (or the window's ticks) for all boxes, now or later. An
interval of time is the difference of two releases. Its error is at most the sum of their half widths,
each at confidence 1 - beta/2 (union bound).

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all boxes that
    are ever queried. Proof: an event adds 1 to the H = product of `levels` nodes that contain it, H in L1 and
    in squared L2. A replaced one leaves as many and enters as many. Boxes are post-processing.

Error
    Unbiased. A box of k signed blocks has k times the variance of one, exactly, and its interval is that of
    the sum of their draws. `stddev` predicts it before there are data. Branching and levels are those of
    least predicted error over ranges that are open at one end.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, section on ranges:
    products of dyadic trees, with boxes as sums of blocks. Here the trees are broad ones, with subtraction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy import Sensitivity
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.estimate import Estimate, Floats, add_blocks, build_linear_estimate
from streamgauge.statistics.events import Column, to_column
from streamgauge.statistics.ordered.axis import Axis, AxisProfile, check_places_count, level_sensitivity
from streamgauge.statistics.ordered.extremes import DEFAULT_DOUBT, ExtremeEstimates, estimate_extremes
from streamgauge.statistics.ordered.quantile import QuantileEstimates, estimate_quantiles
from streamgauge.statistics.ordered.value_tree import ValueTree, choose_tree
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic
from streamgauge.statistics.validation import require_declared

Box = Mapping[str, Any]
SignedBlocks = tuple[Ints, Ints]  # nodes, and the sign of each


@dataclass(frozen=True)
class AxisSpace:
    """Axes by name, and the tree of each. The last axis of node numbers runs fastest."""

    axes: tuple[tuple[str, Axis], ...]
    trees: tuple[ValueTree, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes of each axis."""
        return tuple(tree.size for tree in self.trees)

    @property
    def levels(self) -> int:
        """Number of nodes that count one event."""
        return prod(tree.levels for tree in self.trees)

    def find_nodes(self, cells: Sequence[Ints]) -> Ints:
        """Return the nodes that count each event, (events, levels), from its cells."""
        own = [tree.find_nodes(codes) for tree, codes in zip(self.trees, cells, strict=True)]
        found = own[0]
        for nodes, size in zip(own[1:], self.shape[1:], strict=True):
            found = found[:, :, None] * size + nodes[:, None, :]
            found = found.reshape(len(nodes), found.shape[1] * found.shape[2])
        return found

    def check_box(self, box: Box | None, bounds: Box) -> dict[str, Any]:
        """Return the bounds of a box by axis; reject unknown and repeated names."""
        if box is not None and not isinstance(box, Mapping):
            raise ValueError(f"box must be a mapping of names to pairs (from, to), got {box!r}")
        requested = {**(box or {}), **bounds}
        if len(requested) < len(box or {}) + len(bounds):
            twice = next(name for name in bounds if name in (box or {}))
            raise ValueError(f"bounds must be given once for each axis, got {twice!r} twice")
        for name in requested:
            self.find_axis(name)
        return requested

    def find_axis(self, name: str) -> int:
        """Return the index of the axis of this name."""
        if name not in self.names:
            near = get_close_matches(str(name), self.names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"axis must be one of {', '.join(map(repr, self.names))}, got {name!r}{hint}")
        return self.names.index(name)

    def find_blocks(self, box: Box) -> list[SignedBlocks]:
        """Return the signed blocks of a box on every axis. No bounds mean the whole axis."""
        ends = [axis.find_edges(name, box.get(name, (None, None))) for name, axis in self.axes]
        return [tree.find_blocks(*end) for tree, end in zip(self.trees, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class RangeRelease:
    """Release of one or several ticks for all boxes. Queries of it cost no privacy.

    Bounds are half-open, in the units of the data: `age=(50, 65)` is 50 <= age < 65, None an open end. If
    an axis has the name of a setting, its bounds come as a mapping in the last place: `{"doubt": (50, 65)}`.
    """

    space: AxisSpace
    nodes: Floats = field(repr=False)  # noisy: (ticks, nodes, width), or (nodes, width)
    noises: tuple[NoiseSum, ...] = field(repr=False)

    def count(self, box: Box | None = None, /, **bounds: Any) -> Estimate:
        """Return the number of events in a box by group, or of all without bounds."""
        blocks = self.space.find_blocks(self.space.check_box(box, bounds))
        sums = self._contract_blocks(dict(enumerate(blocks)))
        size = prod(len(nodes) for nodes, _ in blocks)
        found = build_linear_estimate(sums, [add_blocks(noise, [(size, 1)]) for noise in self.noises], 1.0)
        return found.select_tick(0) if self._is_single_tick else found

    def quantile(
        self, q: Number | Sequence[Number], axis: str | None = None, box: Box | None = None, /, **bounds: Any
    ) -> QuantileEstimates:
        """Return quantiles along an axis, of the events in bounds on the others.

        See `Quantile`.
        """
        found = estimate_quantiles(self.build_profile(axis, self.space.check_box(box, bounds)), q)
        return found.select_tick(0) if self._is_single_tick else found

    def extremes(
        self, axis: str | None = None, box: Box | None = None, /, *, doubt: float = DEFAULT_DOUBT, **bounds: Any
    ) -> ExtremeEstimates:
        """Return the extremes along an axis, of the events in bounds on the others.

        They are for each tick by itself.
        """
        found = estimate_extremes(self.build_profile(axis, self.space.check_box(box, bounds)), doubt)
        return found.select_tick(0) if self._is_single_tick else found

    def build_profile(self, axis: str | None, box: Box) -> AxisProfile:
        """Return the blocks of one axis, of the events in bounds on the others."""
        if axis is None and len(self.space.axes) > 1:
            raise ValueError(f"axis must be one of {', '.join(map(repr, self.space.names))}, got None")
        place = 0 if axis is None else self.space.find_axis(axis)
        name, own_axis = self.space.axes[place]
        if name in box:
            raise ValueError(f"bounds must be on other axes than {name!r}, got {box[name]!r} on it")
        blocks = dict(enumerate(self.space.find_blocks(box)))
        del blocks[place]
        size = prod(len(nodes) for nodes, _ in blocks.values())
        noises = [add_blocks(noise, [(size, 1)]) for noise in self.noises]
        return AxisProfile(own_axis, self.space.trees[place], self._contract_blocks(blocks), noises)

    def select_tick(self, row: int) -> "RangeRelease":
        """Return the release of one of several ticks."""
        return RangeRelease(self.space, self.nodes[row], self.noises[row : row + 1])

    @classmethod
    def stack(cls, releases: Sequence["RangeRelease"]) -> "RangeRelease":
        """Return the releases of several ticks as one."""
        noises = tuple(noise for release in releases for noise in release.noises)
        return cls(releases[0].space, np.stack([release.nodes for release in releases]), noises)

    @property
    def _is_single_tick(self) -> bool:
        return self.nodes.ndim == 2

    def _contract_blocks(self, blocks: Mapping[int, SignedBlocks]) -> Floats:
        """Return the sums over signed blocks of some axes: (ticks, other nodes, width)."""
        width = self.nodes.shape[-1]
        nodes = self.nodes.reshape(len(self.noises), *self.space.shape, width)
        for place in sorted(blocks, reverse=True):
            chosen, signs = blocks[place]
            picked = np.take(nodes, chosen, axis=place + 1)
            nodes = np.tensordot(picked, signs.astype(np.float64), axes=([place + 1], [0]))
        return nodes


Axes = Mapping[str, Axis] | Sequence[tuple[str, Axis]]


@dataclass(frozen=True, kw_only=True)
class RangeCount(Statistic[RangeRelease]):
    """Number of events in any box of declared axes. See the module's claim.

    Events come as a table: a mapping or data frame with a column of numbers for every axis.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> axes = {"age": Axis(0, 120, 1), "salary": Axis(0, 200_000, 1000)}
    >>> run = RangeCount(Pure(1), axes=axes, horizon=24).start(noise=SilentNoise())
    >>> seen = run.step({"age": [51, 64, 70], "salary": [9000, 40_000, 10_000]})
    >>> seen.count(age=(51, None), salary=(10_000, None)).value.tolist()
    [2.0]
    """

    axes: Axes | None = None
    branching: int = 0
    open_ticks: bool = False

    def check(self) -> None:
        given = require_declared("axes", self.axes, "the axes that events are placed on, by name: an Axis each")
        object.__setattr__(self, "axes", parse_axes(given))
        self.vector_size(1, None)

    @cached_property
    def space(self) -> AxisSpace:
        """Axes and their trees, by default of least error for ranges open at one end."""
        axes = parse_axes(self.axes)
        return AxisSpace(axes, tuple(choose_tree(axis.cells, self.loss, self.branching) for _, axis in axes))

    @property
    def channels(self) -> int:
        return prod(self.space.shape)

    @property
    def columns(self) -> int:
        return len(self.space.axes)

    @property
    def tick_sensitivity(self) -> Sensitivity:
        return level_sensitivity(self.unit, self.space.levels)

    def vector_size(self, width: int, memory: Any) -> int:
        way = "take larger steps, fewer axes or fewer groups"
        return check_places_count("axes", [*self.space.shape, width], way)

    def read_columns(self, values: Any) -> list[Column]:
        return [to_column(name, find_table_column(values, name)) for name in self.space.names]

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        placed = [axis.encode(row) for (_, axis), row in zip(self.space.axes, rows, strict=True)]
        events = np.flatnonzero(np.logical_and.reduce([present for _, present in placed]))
        nodes = self.space.find_nodes([cells[events] for cells, _ in placed])
        return Increments(events, nodes * width + groups[events][:, None], np.ones((1, 1), np.int64))

    @property
    def measures(self) -> tuple[str, ...]:
        return ()

    def release(self, sums: NoisySums) -> RangeRelease:
        nodes = sums.sums.reshape(len(sums.sums), self.channels, sums.width)
        return RangeRelease(self.space, nodes, tuple(sums.noises))

    def stddev(  # type: ignore[override]  # any name may be that of an axis, "tick" too
        self, tick: int, box: Box | None = None, /, **bounds: Any
    ) -> float:
        """Return the exact standard error of a box at `tick`, before any data."""
        blocks = self.space.find_blocks(self.space.check_box(box, bounds))
        size = prod(len(nodes) for nodes, _ in blocks)
        return add_blocks(self.linear_counter.noise_at(self.linear_counter.check_tick(tick)), [(size, 1)]).stddev


def parse_axes(axes: Any) -> tuple[tuple[str, Axis], ...]:
    """Return names and axes as pairs, from pairs or a mapping."""
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


def find_table_column(values: Any, name: str) -> Any:
    """Return a column of any kind of table."""
    try:
        return values[name]
    except Exception:
        raise ValueError(f"values must be a table with a column {name!r}, got none") from None
