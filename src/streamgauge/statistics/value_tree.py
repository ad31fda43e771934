"""A tree over the cells of an axis: counts of blocks, from which any range is put together.

Level i has blocks of b^i cells; an event counts in one block of every level. The top level is open: it has
as many blocks as it takes to hold all cells.

    level 1   [    0    ][    1    ][    2    ]        b = 4, 10 cells, 2 levels
    level 0   0  1  2  3  4  5  6  7  8  9             [0, 7) = block 0 + block 1 - cell 7

A range is a signed sum of blocks: each of its ends may be reached from the parent's edge before it, adding
blocks, or from the one after it, taking blocks away. Where the last block of a level is not full, its end is
that of the axis, at every level: nothing lies beyond, and to round up to it costs nothing.

`blocks` is the signed sum of fewest blocks. Proof of what is searched: the edges of a range are moved up the
levels, each to one of the two parent edges around it, until the difference is taken at one level directly;
four states a level are all that there are. (The tests compare it with all signed sums on small axes.)
`routes` are such sums for all prefixes at once, with the fewest blocks below the top level; the whole is the
sum of the top level, so that a prefix and its complement share their noise.

The best b and number of levels h have the least h^2 (pure privacy: the noise of every block is proportional
to the L1 reach h) or h (zCDP: to the square root of h) times the mean number of blocks.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, for dyadic ranges; the
    subtraction is that of Andersson, Pagh, Torkamani 2024, over values instead of time.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Loss, Pure
from streamgauge.statistics.estimate import Floats

BROADEST = 65  # branching that is tried
JUDGED = 1024  # prefixes over which trees are compared
GOLDEN = (5**0.5 - 1) / 2


class Piece(NamedTuple):
    """The blocks `start` to `end` of a level, added or taken away."""

    level: int
    start: int
    end: int
    sign: int


class Route(NamedTuple):
    """How the edges of a level are reached: from which edge of the parents' level, which lies where below."""

    parents: Ints
    edges: Ints


@dataclass(frozen=True)
class ValueTree:
    """Blocks of b^i cells for i below `levels`; nodes are numbered from the cells upwards.

    >>> tree = ValueTree(cells=10, branching=4, levels=2)
    >>> tree.nodes(np.array([0, 9]))
    array([[ 0, 10],
           [ 9, 12]])
    >>> tree.blocks(0, 7)
    (array([ 7, 10, 11]), array([-1,  1,  1]))
    """

    cells: int
    branching: int
    levels: int

    def __post_init__(self) -> None:
        check_whole("branching", self.branching, least=2)
        check_whole("levels", self.levels)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks of each level."""
        return tuple(-(-self.cells // self.branching**level) for level in range(self.levels))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The number of each level's first node."""
        return tuple(sum(self.counts[:level]) for level in range(self.levels))

    @property
    def blocked(self) -> list[tuple[int, int]]:
        """The first node of each level, and how many cells a block of it has."""
        return [(first, self.branching**level) for level, first in enumerate(self.firsts)]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return sum(self.counts)

    @property
    def top(self) -> int:
        """The number of blocks of the top level, whose sum is the whole."""
        return self.counts[-1]

    def nodes(self, cells: Ints) -> Ints:
        """The nodes that count an event of each cell, one of every level."""
        firsts, sizes = np.array(self.blocked).T
        places: Ints = firsts + cells[:, None] // sizes
        return places

    def blocks(self, start: int, end: int) -> tuple[Ints, Ints]:
        """The nodes and signs of the range from edge `start` to edge `end`: the fewest that there are."""
        return _blocks(self, start, end)

    def level(self, nodes: Floats, level: int) -> Floats:
        """The sums of the first blocks of a level, from none to all; nodes are (..., nodes, width)."""
        first = self.firsts[level]
        own = nodes[..., first : first + self.counts[level], :]
        sums = np.zeros((*own.shape[:-2], own.shape[-2] + 1, own.shape[-1]))
        np.cumsum(own, axis=-2, out=sums[..., 1:, :])
        return sums

    def prefixes(self, nodes: Floats) -> Floats:
        """The number of events before every edge, (..., cells + 1, width), from (..., nodes, width)."""
        reached = self.level(nodes, self.levels - 1)
        for level, (parents, edges) in zip(range(self.levels - 2, -1, -1), self.routes, strict=True):
            sums = self.level(nodes, level)
            reached = reached[..., parents, :] + sums - sums[..., edges, :]
        return reached

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """From the level below the top down to the cells."""
        return self._routed[0]

    @property
    def below(self) -> Ints:
        """How many blocks below the top level the route to every edge takes."""
        return self._routed[1]

    @property
    def inside(self) -> Ints:
        """How many blocks of the top level it begins with."""
        return self._routed[2]

    @cached_property
    def _routed(self) -> tuple[tuple[Route, ...], Ints, Ints]:
        routes = []
        inside = np.arange(self.top + 1)
        below = np.zeros(self.top + 1, np.int64)
        for level in range(self.levels - 2, -1, -1):
            route, extra = self._nearest(level, below)
            routes.append(route)
            below, inside = below[route.parents] + extra, inside[route.parents]
        return tuple(routes), below, inside

    def _nearest(self, level: int, below: Ints) -> tuple[Route, Ints]:
        """The parents' edge from which each edge is reached with fewer blocks, and how many it takes."""
        count, edges = self.counts[level], np.arange(self.counts[level] + 1)
        down, up = edges // self.branching, -(-edges // self.branching)
        down[-1] = up[-1]
        low = np.minimum(down * self.branching, count)
        high = np.minimum(up * self.branching, count)
        rises = below[up] + high - edges < below[down] + edges - low
        route = Route(np.where(rises, up, down), np.where(rises, high, low))
        return route, np.abs(edges - route.edges)


@lru_cache(maxsize=4096)
def _blocks(tree: ValueTree, start: int, end: int) -> tuple[Ints, Ints]:
    pieces = fewest(tree, start, end)
    runs = [np.arange(tree.firsts[p.level] + p.start, tree.firsts[p.level] + p.end) for p in pieces]
    signs = [np.full(len(run), piece.sign) for run, piece in zip(runs, pieces, strict=True)]
    none = np.zeros(0, np.int64)
    found = np.concatenate([none, *runs]), np.concatenate([none, *signs])
    for array in found:
        array.flags.writeable = False  # shared by all who ask
    return found


def fewest(tree: ValueTree, start: int, end: int) -> tuple[Piece, ...]:
    """The pieces of the range: two ends, each at one of two edges of every level."""
    states: dict[tuple[int, int], tuple[Piece, ...]] = {(start, end): ()}
    best: tuple[Piece, ...] | None = None
    for level in range(tree.levels):
        above: dict[tuple[int, int], tuple[Piece, ...]] = {}
        for (first, last), pieces in states.items():
            direct = (*pieces, *between(level, first, last))
            best = direct if best is None or cost(direct) < cost(best) else best
            for left, right in product(around(tree, level, first), around(tree, level, last)):
                ends = between(level, first, left[1]) + between(level, right[1], last)
                longer = (*pieces, *ends)
                key = left[0], right[0]
                if key[0] < key[1] and (key not in above or cost(longer) < cost(above[key])):
                    above[key] = longer
        states = above
    return best or ()


def around(tree: ValueTree, level: int, edge: int) -> list[tuple[int, int]]:
    """The edges of the parents' level on both sides of an edge, and where they lie on its own level."""
    if level + 1 == tree.levels:
        return []
    if edge == tree.counts[level]:
        return [(tree.counts[level + 1], edge)]
    parents = {edge // tree.branching, -(-edge // tree.branching)}
    return [(parent, min(parent * tree.branching, tree.counts[level])) for parent in sorted(parents)]


def between(level: int, start: int, end: int) -> tuple[Piece, ...]:
    """The blocks from one edge to another, taken away if it lies before."""
    if start == end:
        return ()
    return (Piece(level, min(start, end), max(start, end), 1 if start < end else -1),)


def cost(pieces: tuple[Piece, ...]) -> int:
    return sum(piece.end - piece.start for piece in pieces)


def tree_for(cells: int, loss: Loss, branching: int = 0, share: float = 0.5) -> ValueTree:
    """The tree of least predicted error; `share` is the weight that the top level's blocks have in it.

    With `branching`, only the number of levels is chosen, with at most so many blocks at the top.

    >>> from streamgauge import Pure, Zcdp
    >>> tree_for(256, Pure(1)), tree_for(256, Zcdp(1))
    (ValueTree(cells=256, branching=24, levels=2), ValueTree(cells=256, branching=8, levels=3))
    """
    power = 2 if isinstance(loss.kept_as, Pure) else 1
    if branching:
        check_whole("branching", branching, least=2)
    return _best(cells, power, branching, share)


@lru_cache(maxsize=256)
def _best(cells: int, power: int, branching: int, share: float) -> ValueTree:
    tried = [branching] if branching else range(2, BROADEST + 1)
    found = [
        (levels**power * (below + share * -(-cells // b ** (levels - 1))), b, levels)
        for b in tried
        for levels, below in enumerate(mean_below(cells, b), start=1)
        if not branching or cells <= b**levels
    ]
    _, best, levels = min(found)
    return ValueTree(cells, best, levels)


def mean_below(cells: int, branching: int) -> list[float]:
    """The mean number of blocks below the top level, of prefixes all over the axis, for 1, 2, ... levels."""
    ends = spread_out(cells)
    low, high, costs = ends, ends, (0 * ends, 0 * ends)
    means, size = [0.0], 1
    while size < cells:
        count, size = -(-cells // size), size * branching
        down, up = ends // size, -(-ends // size)
        edge = np.minimum(up * branching, count)
        to_down = np.minimum(costs[0] + low, costs[1] + high) - down * branching
        to_up = np.minimum(costs[0] - low, costs[1] - high) + edge
        low, high, costs = down, up, (to_down, to_up)
        means.append(float(np.minimum(to_down, to_up).mean()))
    return means


def spread_out(cells: int) -> Ints:
    """Prefixes all over the axis: all of them, or many at steps of the golden section, in tune with no b."""
    if cells <= JUDGED:
        return np.arange(1, cells + 1)
    return 1 + (np.arange(JUDGED) * GOLDEN % 1 * cells).astype(np.int64)
