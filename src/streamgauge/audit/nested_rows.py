"""The dearest set of k ticks where rows are blocks that lie in each other, as of trees: exactly.

A row that is v over a block of ticks and 0 elsewhere costs c v^2 n^2 if n ticks of the set are in the block.
Blocks that are nested or disjoint make a tree, and what the dearest n ticks of a block cost is the most of
all ways to share n between its parts, plus its own c v^2 n^2: dynamic programming, O(T k^2).
"""

from dataclasses import dataclass, field

import numpy as np

from streamgauge.noise.numbers import Floats


@dataclass
class Block:
    """A row: its ticks, what the square of one sighting costs, and what is known of those inside."""

    first: int
    end: int
    cost: float
    best: Floats = field(default_factory=lambda: np.zeros(1), repr=False)  # of 0, 1, .. ticks seen so far
    done: int = 0  # ticks that are in it

    def add(self, best: Floats, size: int) -> None:
        """One more part, beside those before."""
        most = min(size, len(self.best) + len(best) - 2)
        ways = np.full((len(best), most + 1), -np.inf)
        for count, value in enumerate(best):
            kept = self.best[: most + 1 - count]
            ways[count, count : count + len(kept)] = kept + value
        self.best = ways.max(axis=0)

    def closed(self, size: int) -> Floats:
        """With ticks that no smaller block has, and its own cost."""
        alone = self.end - self.first - self.done
        best = np.concatenate([self.best, np.full(min(alone, max(0, size + 1 - len(self.best))), 0.0)])
        for count in range(1, len(best)):
            best[count] = self.best[max(0, count - alone) : count + 1].max()
        return np.asarray(best + self.cost * np.arange(len(best)) ** 2, np.float64)


def nested_most(moves: Floats, costs: Floats, size: int) -> float | None:
    """What the dearest set of so many ticks costs; None if rows are no nested blocks."""
    blocks = blocks_of(moves, costs)
    if blocks is None:
        return None
    open_blocks = [Block(0, moves.shape[1], 0.0)]
    for block in sorted(blocks, key=lambda each: (each.first, -each.end)):
        while block.first >= open_blocks[-1].end:
            close(open_blocks, size)
        if block.end > open_blocks[-1].end:
            return None
        open_blocks.append(block)
    while len(open_blocks) > 1:
        close(open_blocks, size)
    return float(open_blocks[0].closed(size)[min(size, moves.shape[1])])


def close(open_blocks: list[Block], size: int) -> None:
    """The innermost block is a part of the next."""
    inner = open_blocks.pop()
    open_blocks[-1].add(inner.closed(size), size)
    open_blocks[-1].done += inner.end - inner.first


def blocks_of(moves: Floats, costs: Floats) -> list[Block] | None:
    found = []
    for row, cost in zip(moves, costs, strict=True):
        ticks = np.flatnonzero(row)
        if not len(ticks):
            continue
        first, end = int(ticks[0]), int(ticks[-1]) + 1
        if not (row[first:end] == row[first]).all():
            return None
        found.append(Block(first, end, float(cost * row[first] ** 2)))
    return found
