"""Tree over the cells of an axis: counts of blocks that combine to any range.

Level i has blocks of b^i cells. An event counts in one block of every level. The top level is open: it has
as many blocks as all cells need.

    level 1   [    0    ][    1    ][    2    ]        b = 4, 10 cells, 2 levels
    level 0   0  1  2  3  4  5  6  7  8  9             [0, 7) = block 0 + block 1 - cell 7

A range is a signed sum of blocks. Each of its ends may be reached from the parent's edge before it, adding
blocks, or from the one after it, subtracting blocks. If the last block of a level is not full, its end is
that of the axis, at every level: nothing lies beyond, and rounding up to it costs nothing.

`find_blocks` is the signed sum of fewest blocks. Proof that the search is complete: the edges of a range are moved up
the levels, each to one of the two parent edges around it, until the difference is formed at one level directly.
There are only four states a level. (The tests compare it with all signed sums on small axes.)
`routes` are such sums for all prefixes at once, with the fewest blocks below the top level. The whole is the
sum of the top level, so that a prefix and its complement share their noise.

The best b and number of levels h have the least h^2 (pure privacy: the noise of every block is proportional
to the L1 reach h) or h (zCDP: to the square root of h) times the mean number of blocks.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, for dyadic ranges. The
    subtraction is that of Andersson, Pagh, Torkamani 2024, over values instead of time.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Loss, Pure
from streamgauge.statistics.estimate import Floats

MAX_BRANCHING = 65  # largest branching that is compared
MAX_COMPARED_PREFIXES = 1024  # prefixes over which trees are compared
GOLDEN_SECTION = (5**0.5 - 1) / 2


class BlockRange(NamedTuple):
    """Blocks `start` to `end` of a level, added or subtracted."""

    level: int
    start: int
    end: int
    sign: int


class EdgeRoute(NamedTuple):
    """Routes to the edges of a level from edges of the parents' level."""

    parents: Ints
    edges: Ints


@dataclass(frozen=True)
class ValueTree:
    """Blocks of b^i cells for i below `levels`. Nodes are numbered from the cells up.

    >>> tree = ValueTree(cells=10, branching=4, levels=2)
    >>> tree.find_nodes(np.array([0, 9]))
    array([[ 0, 10],
           [ 9, 12]])
    >>> tree.find_blocks(0, 7)
    (array([ 7, 10, 11]), array([-1,  1,  1]))
    """

    cells: int
    branching: int
    levels: int

    def __post_init__(self) -> None:
        check_whole("branching", self.branching, least=2)
        check_whole("levels", self.levels)

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """Number of blocks of each level."""
        return tuple(-(-self.cells // self.branching**level) for level in range(self.levels))

    @cached_property
    def level_starts(self) -> tuple[int, ...]:
        """Number of each level's first node."""
        return tuple(sum(self.level_sizes[:level]) for level in range(self.levels))

    @property
    def level_blocks(self) -> list[tuple[int, int]]:
        """First node of each level, and the number of cells in its blocks."""
        return [(first, self.branching**level) for level, first in enumerate(self.level_starts)]

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(self.level_sizes)

    @property
    def top_blocks(self) -> int:
        """Number of blocks of the top level, whose sum is the whole."""
        return self.level_sizes[-1]

    def find_nodes(self, cells: Ints) -> Ints:
        """Return the nodes that count an event of each cell, one of every level."""
        firsts, sizes = np.array(self.level_blocks).T
        places: Ints = firsts + cells[:, None] // sizes
        return places

    def find_blocks(self, start: int, end: int) -> tuple[Ints, Ints]:
        """Return the fewest nodes and signs of the range from edge `start` to edge `end`."""
        return _find_signed_blocks(self, start, end)

    def level_prefixes(self, nodes: Floats, level: int) -> Floats:
        """Return the sums of the first blocks of a level, from none to all.

        Nodes are (..., nodes, width).
        """
        first = self.level_starts[level]
        own = nodes[..., first : first + self.level_sizes[level], :]
        sums = np.zeros((*own.shape[:-2], own.shape[-2] + 1, own.shape[-1]))
        np.cumsum(own, axis=-2, out=sums[..., 1:, :])
        return sums

    def prefixes(self, nodes: Floats) -> Floats:
        """Return the number of events before every edge, (..., cells + 1, width).

        Nodes are (..., nodes, width).
        """
        reached = self.level_prefixes(nodes, self.levels - 1)
        for level, (parents, edges) in zip(range(self.levels - 2, -1, -1), self.routes, strict=True):
            sums = self.level_prefixes(nodes, level)
            reached = reached[..., parents, :] + sums - sums[..., edges, :]
        return reached

    @cached_property
    def routes(self) -> tuple[EdgeRoute, ...]:
        """Routes from the level below the top down to the cells."""
        return self._find_routes[0]

    @property
    def blocks_below_top(self) -> Ints:
        """Number of blocks below the top level on the route to every edge."""
        return self._find_routes[1]

    @property
    def blocks_before(self) -> Ints:
        """Blocks in the number of events before every edge, counted from below."""
        return self.blocks_below_top + self.top_blocks_before

    @property
    def blocks_after(self) -> Ints:
        """Blocks in the number of events after every edge, counted from above."""
        return self.blocks_below_top + self.top_blocks - self.top_blocks_before

    @property
    def top_blocks_before(self) -> Ints:
        """Number of top-level blocks with which the route to every edge begins."""
        return self._find_routes[2]

    @cached_property
    def _find_routes(self) -> tuple[tuple[EdgeRoute, ...], Ints, Ints]:
        routes = []
        inside = np.arange(self.top_blocks + 1)
        below = np.zeros(self.top_blocks + 1, np.int64)
        for level in range(self.levels - 2, -1, -1):
            route, extra = self._find_nearest(level, below)
            routes.append(route)
            below, inside = below[route.parents] + extra, inside[route.parents]
        return tuple(routes), below, inside

    def _find_nearest(self, level: int, below: Ints) -> tuple[EdgeRoute, Ints]:
        """Return the nearest parents' edge of each edge, and its number of blocks.

        Nearest means the fewest blocks.
        """
        count, edges = self.level_sizes[level], np.arange(self.level_sizes[level] + 1)
        down, up = edges // self.branching, -(-edges // self.branching)
        down[-1] = up[-1]
        low = np.minimum(down * self.branching, count)
        high = np.minimum(up * self.branching, count)
        rises = below[up] + high - edges < below[down] + edges - low
        route = EdgeRoute(np.where(rises, up, down), np.where(rises, high, low))
        return route, np.abs(edges - route.edges)


@lru_cache(maxsize=4096)
def _find_signed_blocks(tree: ValueTree, start: int, end: int) -> tuple[Ints, Ints]:
    pieces = find_fewest_blocks(tree, start, end)
    runs = [np.arange(tree.level_starts[p.level] + p.start, tree.level_starts[p.level] + p.end) for p in pieces]
    signs = [np.full(len(run), piece.sign) for run, piece in zip(runs, pieces, strict=True)]
    none = np.zeros(0, np.int64)
    found = np.concatenate([none, *runs]), np.concatenate([none, *signs])
    for array in found:
        array.flags.writeable = False  # shared by all callers
    return found


def find_fewest_blocks(tree: ValueTree, start: int, end: int) -> tuple[BlockRange, ...]:
    """Return the pieces of the range.

    Each of its two ends is at one of two edges of every level.
    """
    states: dict[tuple[int, int], tuple[BlockRange, ...]] = {(start, end): ()}
    best: tuple[BlockRange, ...] | None = None
    for level in range(tree.levels):
        above: dict[tuple[int, int], tuple[BlockRange, ...]] = {}
        for (first, last), pieces in states.items():
            direct = (*pieces, *build_block_range(level, first, last))
            best = direct if best is None or count_blocks(direct) < count_blocks(best) else best
            for left, right in product(find_parent_edges(tree, level, first), find_parent_edges(tree, level, last)):
                ends = build_block_range(level, first, left[1]) + build_block_range(level, right[1], last)
                longer = (*pieces, *ends)
                key = left[0], right[0]
                if key[0] < key[1] and (key not in above or count_blocks(longer) < count_blocks(above[key])):
                    above[key] = longer
        states = above
    return best or ()


def find_parent_edges(tree: ValueTree, level: int, edge: int) -> list[tuple[int, int]]:
    """Return the parents' edges on both sides of an edge, and their own-level places."""
    if level + 1 == tree.levels:
        return []
    if edge == tree.level_sizes[level]:
        return [(tree.level_sizes[level + 1], edge)]
    parents = {edge // tree.branching, -(-edge // tree.branching)}
    return [(parent, min(parent * tree.branching, tree.level_sizes[level])) for parent in sorted(parents)]


def build_block_range(level: int, start: int, end: int) -> tuple[BlockRange, ...]:
    """Return the blocks from one edge to another, subtracted if it lies before."""
    if start == end:
        return ()
    return (BlockRange(level, min(start, end), max(start, end), 1 if start < end else -1),)


def count_blocks(pieces: tuple[BlockRange, ...]) -> int:
    return sum(piece.end - piece.start for piece in pieces)


def choose_tree(cells: int, loss: Loss, branching: int = 0, share: float = 0.5) -> ValueTree:
    """Return the tree of least predicted error; `share` is the top level's weight.

    With `branching`, only the number of levels is chosen, with at most so many blocks at the top.

    >>> from streamgauge import Pure, Zcdp
    >>> choose_tree(256, Pure(1)), choose_tree(256, Zcdp(1))
    (ValueTree(cells=256, branching=24, levels=2), ValueTree(cells=256, branching=8, levels=3))
    """
    power = 2 if isinstance(loss.additive_loss, Pure) else 1
    if branching:
        check_whole("branching", branching, least=2)
    return _find_best_tree(cells, power, branching, share)


@lru_cache(maxsize=256)
def _find_best_tree(cells: int, power: int, branching: int, share: float) -> ValueTree:
    tried = [branching] if branching else range(2, MAX_BRANCHING + 1)
    found = [
        (levels**power * (below + share * -(-cells // b ** (levels - 1))), b, levels)
        for b in tried
        for levels, below in enumerate(mean_blocks_below(cells, b), start=1)
        if not branching or cells <= b**levels
    ]
    _, best, levels = min(found)
    return ValueTree(cells, best, levels)


def mean_blocks_below(cells: int, branching: int) -> list[float]:
    """Return the mean number of blocks below the top level, for 1, 2, ... levels.

    The mean is over prefixes of the whole axis.
    """
    ends = sample_prefixes(cells)
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


def sample_prefixes(cells: int) -> Ints:
    """Return all prefixes of the axis, or many at steps of the golden section.

    Those steps are not aligned with any b.
    """
    if cells <= MAX_COMPARED_PREFIXES:
        return np.arange(1, cells + 1)
    return 1 + (np.arange(MAX_COMPARED_PREFIXES) * GOLDEN_SECTION % 1 * cells).astype(np.int64)
