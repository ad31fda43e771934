"""One level of a hierarchy at work: Perturber, Grouper and Smoother of all its nodes that are read.

Privacy
    Neighbours: one count of one node of the level moves by 1. Promise: the loss of its `pegasus`, even if
    which nodes are read at which ticks is chosen in view of all that was released.
    Proof: nodes have noise and groups of their own, and a node is read as `Pegasus` reads a column; where it
    is not read it draws nothing, shows nothing and ends its group, which the Grouper's claim allows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streamgauge.adaptive.group_windows import Smoothed
from streamgauge.adaptive.grouper import OpenGroups
from streamgauge.adaptive.levels import Level
from streamgauge.adaptive.pegasus import Pegasus
from streamgauge.adaptive.pruning import ABOVE_ROOTS, GRAIN, Guessed, Guessing, Seen
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Bools


@dataclass(slots=True)
class TierState:
    """All that is remembered of one level and, in it, of all those below."""

    groups: OpenGroups  # exact: the counts of the open groups
    smoothed: Smoothed  # noisy
    guessed: Guessed  # noisy
    below: "TierState | None"


def downwards(state: TierState | None) -> Iterator[TierState]:
    """A level's memory, and those of all below."""
    while state is not None:
        yield state
        state = state.below


@dataclass(frozen=True)
class Tier:
    """A level, what reads it, and what it is guessed from where it is not read."""

    level: Level
    pegasus: Pegasus
    guessing: Guessing

    def initial(self, below: TierState | None) -> TierState:
        groups = self.pegasus.grouper.initial(self.level.width)
        smoothed = self.pegasus.smoothing.initial(self.level.width)
        return TierState(groups, smoothed, self.guessing.initial(), below)

    def step(self, state: TierState, counts: Ints, above: Seen | None, tick: int, noise: Noise) -> Seen:
        """Takes one tick's count of every node, and what the level above has shown at this tick."""
        parents, siblings = self.level.parents, self.level.siblings
        shown = (above.read, above.newest, above.value, above.ceiling) if above else ABOVE_ROOTS
        had, newest, whole, ceiling = shown
        pruned = self.guessing.pruned(had, newest, whole, self.pegasus.smoothing.window.ticks(tick))
        read = ~pruned[parents]
        noisy = self.readings(counts, read, noise)
        started = self.pegasus.grouper.step(state.groups, counts, noise, read) | ~read
        value, centre = self.pegasus.smoothing.step(state.smoothed, noisy, started, tick)
        unread, ceilings, guess = self.guessing.step(state.guessed, pruned, newest, ceiling, tick)[:, parents]
        group = state.smoothed.group
        own = self.pegasus.smoothing.smoother.newest(group, noisy)
        return Seen(
            read=read,
            noisy=noisy,
            started=started,
            newest=np.where(read, own, newest[parents] / siblings),
            ceiling=np.where(read, noisy, ceiling[parents]),
            value=value + guess / GRAIN / siblings,
            centre=centre,
            unread=unread,
            ceilings=ceilings,
            length=np.where(read, group.length, 0),
        )

    def readings(self, counts: Ints, read: Bools, noise: Noise) -> Ints:
        """The Perturber: counts under noise where nodes are read, 0 elsewhere, where a group of 0 passes."""
        noisy = np.zeros_like(counts)
        noisy[read] = counts[read] + self.pegasus.perturber.draw(noise, int(read.sum()))
        return noisy
