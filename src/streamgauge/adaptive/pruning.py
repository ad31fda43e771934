"""Pruning: nodes below one that has next to nothing are not read, but guessed, as its even parts.

    building   40   read
    floors     38   1             read; 1 is at most the threshold
    rooms      20 19   1/3 1/3 1/3      read; guessed: their noise would be larger than what they have

Whether the children of a node are read at a tick is decided by what the node has *released* for that tick,
and for its window: what is next to nothing at each of N ticks may be much at all of them together, where
noise has grown with sqrt(N) only. Below a node that was not read nothing is. What is guessed over a window
of ticks is kept here, for each node of the level above, since all its children share it.

Privacy
    None is spent: a decision is a function of releases. What a node that is not read could have lost at that
    tick stays unspent: it makes no other reading any sharper.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import NamedTuple

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy.exact import Number, not_negative

GRAIN = 2**20  # guesses are kept as whole numbers of this part of 1, so that sums over windows never drift
FARTHEST = 2**62  # such a number of grains, and of standard errors


class Seen(NamedTuple):
    """What the nodes of a level have shown at one tick. All of it is public."""

    read: Bools  # whether there is a reading
    noisy: Ints  # the reading, 0 if there is none
    started: Bools  # whether a group began
    newest: Floats  # the estimate of this tick
    ceiling: Ints  # the reading, or that of the nearest ancestor that has one
    value: Floats  # the estimate of the window
    centre: Ints  # the sum of all readings in the window
    unread: Ints  # how many ticks of the window have no reading
    ceilings: Ints  # the sum of `ceiling` over them
    length: Ints  # of the last group; 0 without a reading


ABOVE_ROOTS = (
    np.ones(1, np.bool_),
    np.full(1, np.inf),
    np.full(1, np.inf),
    np.zeros(1, np.int64),
)  # read, newest, value, ceiling


@dataclass(slots=True)
class Guessed:
    """What the children of each node were guessed from, in the window: ticks, ceilings and estimates."""

    rows: Ints  # noisy: (ticks, 3, nodes), tick t in row t mod their number; none where no tick ever leaves
    sums: Ints  # noisy: (3, nodes)


@dataclass(frozen=True, eq=False)
class Guessing:
    """Guesses from nodes of at most their `threshold`, in windows of `size` ticks, or 0 for all.

    Where counts may be negative (`signed`), a node far below 0 has as much to tell as one far above.
    """

    threshold: Floats
    size: int
    signed: bool = False

    def initial(self) -> Guessed:
        width = len(self.threshold)
        return Guessed(np.zeros((self.size, 3, width), np.int64), np.zeros((3, width), np.int64))

    def pruned(self, read: Bools, newest: Floats, value: Floats, ticks: int) -> Bools:
        """Below which nodes of the level above nothing is read at this tick, the last of so many."""
        size = np.stack([newest, value / sqrt(ticks)] if ticks > 1 else [newest])
        largest = (np.abs(size) if self.signed else size).max(axis=0)
        return np.asarray(~read | (largest <= self.threshold))

    def step(self, state: Guessed, pruned: Bools, newest: Floats, ceiling: Ints, tick: int) -> Ints:
        """The sums over the window that ends at `tick`."""
        whole = np.clip(newest * GRAIN, -float(FARTHEST), float(FARTHEST)).astype(np.int64)
        fresh = np.where(pruned, np.stack([np.ones_like(ceiling), ceiling, whole]), 0)
        state.sums += fresh
        if self.size:
            state.sums -= state.rows[tick % self.size]
            state.rows[tick % self.size] = fresh
        return state.sums


def prune_of(given: Number | None) -> Fraction:
    """Of how many standard errors the threshold is, exactly; 0, as None, if nothing is ever pruned."""
    errors = not_negative(0 if given is None else given, "prune")
    if errors > FARTHEST:
        raise ValueError(f"prune must be at most 2**62, got {given}")
    return errors
