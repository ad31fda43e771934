"""The space of a range count: named axes with a tree each, and what readers ask of a release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy.exact import Number
from streamgauge.statistics.axis import Axis
from streamgauge.statistics.estimate import Estimate, Floats, linear
from streamgauge.statistics.extremes_seen import DOUBT, ExtremesSeen, extremes_of
from streamgauge.statistics.noises import added
from streamgauge.statistics.profile import Profile
from streamgauge.statistics.quantiles import Quantiles, quantiles_of
from streamgauge.statistics.value_tree import ValueTree

Box = Mapping[str, Any]
Signed = tuple[Ints, Ints]  # nodes, and the sign of each


@dataclass(frozen=True)
class Space:
    """Axes by name, and the tree of each; nodes are numbered with the last axis fastest."""

    axes: tuple[tuple[str, Axis], ...]
    trees: tuple[ValueTree, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of nodes of each axis."""
        return tuple(tree.size for tree in self.trees)

    @property
    def levels(self) -> int:
        """How many nodes count one event."""
        return prod(tree.levels for tree in self.trees)

    def nodes(self, cells: Sequence[Ints]) -> Ints:
        """The nodes that count each event, (events, levels), from its cell on every axis."""
        own = [tree.nodes(codes) for tree, codes in zip(self.trees, cells, strict=True)]
        found = own[0]
        for nodes, size in zip(own[1:], self.shape[1:], strict=True):
            found = found[:, :, None] * size + nodes[:, None, :]
            found = found.reshape(len(nodes), found.shape[1] * found.shape[2])
        return found

    def checked(self, box: Box | None, bounds: Box) -> dict[str, Any]:
        """The bounds of a box by the name of their axis; refuses names that no axis has, and any twice."""
        if box is not None and not isinstance(box, Mapping):
            raise ValueError(f"box must be a mapping of names to pairs (from, to), got {box!r}")
        asked = {**(box or {}), **bounds}
        if len(asked) < len(box or {}) + len(bounds):
            twice = next(name for name in bounds if name in (box or {}))
            raise ValueError(f"bounds must be given once for each axis, got {twice!r} twice")
        for name in asked:
            self.place(name)
        return asked

    def place(self, name: str) -> int:
        """Which axis has this name."""
        if name not in self.names:
            near = get_close_matches(str(name), self.names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"axis must be one of {', '.join(map(repr, self.names))}, got {name!r}{hint}")
        return self.names.index(name)

    def blocks(self, box: Box) -> list[Signed]:
        """The signed blocks of a box on every axis; an axis without bounds is taken whole."""
        ends = [axis.interval(name, box.get(name, (None, None))) for name, axis in self.axes]
        return [tree.blocks(*end) for tree, end in zip(self.trees, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class Ranges:
    """What one tick (or several, a row each) tells of all boxes; nothing that is asked of it costs privacy.

    Bounds are half-open, in the units of the data: `age=(50, 65)` is 50 <= age < 65, None an open end. Where
    an axis has the name of a setting, bounds come as a mapping in the last place: `{"doubt": (50, 65)}`.
    """

    space: Space
    nodes: Floats = field(repr=False)  # noisy: (ticks, nodes, width), or (nodes, width)
    noises: tuple[NoiseSum, ...] = field(repr=False)

    def count(self, box: Box | None = None, /, **bounds: Any) -> Estimate:
        """The number of events in a box, in every group; of all events, if nothing is said."""
        blocks = self.space.blocks(self.space.checked(box, bounds))
        sums = self._contracted(dict(enumerate(blocks)))
        size = prod(len(nodes) for nodes, _ in blocks)
        found = linear(sums, [added(noise, [(size, 1)]) for noise in self.noises], 1.0)
        return found.of_tick(0) if self._one else found

    def quantile(
        self,
        q: Number | Sequence[Number],
        axis: str | None = None,
        box: Box | None = None,
        /,
        **bounds: Any,
    ) -> Quantiles:
        """Quantiles along an axis, of the events within bounds on the others; see `Quantile`."""
        found = quantiles_of(self.along(axis, self.space.checked(box, bounds)), q)
        return found.of_tick(0) if self._one else found

    def extremes(
        self, axis: str | None = None, box: Box | None = None, /, *, doubt: float = DOUBT, **bounds: Any
    ) -> ExtremesSeen:
        """The extremes along an axis, of the events within bounds on the others; each tick by itself."""
        found = extremes_of(self.along(axis, self.space.checked(box, bounds)), doubt)
        return found.of_tick(0) if self._one else found

    def along(self, axis: str | None, box: Box) -> Profile:
        """The blocks of one axis, of the events within bounds on the others."""
        if axis is None and len(self.space.axes) > 1:
            raise ValueError(f"axis must be one of {', '.join(map(repr, self.space.names))}, got None")
        place = 0 if axis is None else self.space.place(axis)
        name, kept = self.space.axes[place]
        if name in box:
            raise ValueError(f"bounds must be on other axes than {name!r}, got {box[name]!r} on it")
        blocks = dict(enumerate(self.space.blocks(box)))
        del blocks[place]
        size = prod(len(nodes) for nodes, _ in blocks.values())
        noises = [added(noise, [(size, 1)]) for noise in self.noises]
        return Profile(kept, self.space.trees[place], self._contracted(blocks), noises)

    def of_tick(self, row: int) -> "Ranges":
        """One of several ticks."""
        return Ranges(self.space, self.nodes[row], self.noises[row : row + 1])

    @property
    def _one(self) -> bool:
        return self.nodes.ndim == 2

    def _contracted(self, blocks: Mapping[int, Signed]) -> Floats:
        """The sums over signed blocks of some axes: (ticks, nodes of the others, width)."""
        width = self.nodes.shape[-1]
        nodes = self.nodes.reshape(len(self.noises), *self.space.shape, width)
        for place in sorted(blocks, reverse=True):
            chosen, signs = blocks[place]
            picked = np.take(nodes, chosen, axis=place + 1)
            nodes = np.tensordot(picked, signs.astype(np.float64), axes=([place + 1], [0]))
        return nodes


def stacked_ranges(releases: Sequence[Ranges]) -> Ranges:
    """The releases of several ticks as one."""
    noises = tuple(noise for release in releases for noise in release.noises)
    return Ranges(releases[0].space, np.stack([release.nodes for release in releases]), noises)
