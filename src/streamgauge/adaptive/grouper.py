"""The deviation-based Grouper: cuts a stream of counts, privately, into groups that are nearly constant.

A group G of n counts with sum S is as uneven as its deviation

    dev(G) = |c_1 - S/n| + ... + |c_n - S/n|,        n dev(G) = |n c_1 - S| + ... + |n c_n - S|

A group opens with one tick and a noisy threshold of its own. Each later tick is asked for: with it, is the
group still even enough? If floor(dev) + noise is below the threshold, the tick joins. If not, the group ends
without it, and the tick is a group of its own that is closed at once:

    tick       1   2   3   4   5   6   7
    joins?     -   yes yes NO  -   yes yes        4 ends [1 2 3] and is alone; 5 opens anew
    groups    [----------][--][-----------

Privacy
    Neighbours: one count of one column moves by 1. Public: the groups themselves, which ticks each column is
    `active` at, and the cap `longest` on the ticks of a group.
    Promise: pure epsilon-DP over the whole stream, even if counts are chosen in view of past groups.
    Proof: a count that moves by 1 moves the deviation of n counts by at most 2(n-1)/n < 2, and so its floor,
    a whole number, by at most SENSITIVITY = 2. One group is one AboveThreshold over whole numbers: with q_i
    the floors, r the threshold's noise and v_i those of the asks, fix v_1 ... v_(k-1), let g be the largest
    q_i + v_i before the ask k that said no, and move r by as much as g moves (2 at most) and v_k by as much
    as g and q_k move (4 at most). That maps whole numbers one to one and keeps all answers; with r of scale
    2 SENSITIVITY/epsilon and v of scale 4 SENSITIVITY/epsilon, it changes the chance by a factor of at most
    e^(epsilon/2 + epsilon/2). A group that is open, capped or ended by a gap has answered yes alone: moving
    r is enough. The tick that said no is used by that group alone, *because the group of its own is closed at
    once*; so each count is in the asks of one group, and which one that is shows in the answers.
    Noise is drawn as often as the groups say, never as the counts do.

    A count is first `folded` to +-2^62/longest^2, so that n dev is exact in 64 bits: a fixed function of the
    count alone that moves by at most 1 if the count does, also where 64 bits wrap around.

Error
    None of its own: it only says where groups begin. Time for each tick is in the sum of the lengths of open
    groups, which are public.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, Algorithm 2, with scales 4/epsilon and 8/epsilon.
    Ours differs in floor(dev), so that noise is exact, in the cap, and in columns that may pause.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.folding import folded
from streamgauge.adaptive.ragged import SHALLOW, bands, with_room
from streamgauge.continual.settings import is_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Bools

LONGEST = 2**16  # ticks of a group
FARTHEST = 2**60  # a threshold, before its noise
WIDEST = 2**48  # a scale: that a draw is beyond 2^61, where sums could wrap, has a chance below e^-8000


@dataclass(slots=True)
class OpenGroups:
    """The open group of each column."""

    length: Ints  # noisy: how many ticks it has; 0 where none is open
    threshold: Ints = field(repr=False)  # exact: a secret, though made of noise
    total: Ints = field(repr=False)  # exact: the sum of its counts
    items: Ints = field(repr=False)  # exact: its counts, a row each; 0 in all rows from `length` on


@dataclass(frozen=True)
class Grouper:
    """Groups of at most `longest` ticks; opens one where dev stays below about `theta`/epsilon.

    `step` changes the state that `initial` made, and says which columns began a group at this tick.
    """

    SENSITIVITY: ClassVar[int] = 2
    epsilon: Fraction  # what one count that moves by 1 may lose
    theta: Fraction
    longest: int

    def __post_init__(self) -> None:
        if not is_whole(self.longest) or self.longest > LONGEST:
            raise ValueError(f"longest must be a whole number of 1 to {LONGEST}, got {self.longest!r}")
        if not 0 <= self.theta <= FARTHEST * self.epsilon:
            raise ValueError(f"theta must be at least 0 and at most 2**60 epsilon, got {self.theta}")
        if not self.asking.scale <= WIDEST:
            raise ValueError(f"epsilon must leave noise of scale 2**48 at most, got {self.epsilon}")

    @cached_property
    def opening(self) -> DiscreteLaplace:
        """The noise of a threshold, half of epsilon."""
        return DiscreteLaplace(2 * self.SENSITIVITY / self.epsilon)

    @cached_property
    def asking(self) -> DiscreteLaplace:
        """The noise of an ask, the other half."""
        return DiscreteLaplace(4 * self.SENSITIVITY / self.epsilon)

    @cached_property
    def level(self) -> int:
        """A whole number is below theta/epsilon if it is below this."""
        return ceil(self.theta / self.epsilon)

    @cached_property
    def limit(self) -> int:
        """The largest count: n^2 of them, which n dev never exceeds, are within 2^62."""
        return 2**62 // self.longest**2

    def initial(self, width: int) -> OpenGroups:
        none = np.zeros((3, width), np.int64)
        return OpenGroups(none[0], none[1], none[2], np.zeros((SHALLOW, width), np.int64))

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        """Takes one tick's count of every active column; all others end their groups, and draw nothing."""
        here = np.ones(len(values), np.bool_) if active is None else active
        began, asked = here & (state.length == 0), here & (state.length > 0)
        self._forget(state, ~here & (state.length > 0))
        self._take(state, folded(values, self.limit), here)
        refused = self._refused(state, np.flatnonzero(asked), noise)
        state.threshold[began] = self.level + self.opening.draw(noise, int(began.sum()))
        self._forget(state, refused | (state.length >= self.longest))
        return np.asarray(began | refused)

    def _take(self, state: OpenGroups, items: Ints, here: Bools) -> None:
        """Puts the counts at the ends of their columns' groups, for which it makes room."""
        state.items = with_room(state.items, int(state.length.max(initial=0)) + 1)
        columns = np.flatnonzero(here)
        state.items[state.length[columns], columns] = items[columns]
        state.total[columns] += items[columns]
        state.length[columns] += 1

    def _refused(self, state: OpenGroups, asked: Ints, noise: Noise) -> Bools:
        """Which columns' newest count makes their group too uneven."""
        refused = np.zeros(len(state.length), np.bool_)
        noisy = deviations(state)[asked] + self.asking.draw(noise, len(asked))
        refused[asked] = noisy >= state.threshold[asked]
        return refused

    def _forget(self, state: OpenGroups, ended: Bools) -> None:
        """Closes groups, and keeps nothing of their counts."""
        for rows, columns in bands(np.where(ended, state.length, 0)):
            state.items[rows, columns] = 0
        state.length[ended] = state.total[ended] = state.threshold[ended] = 0


def deviations(state: OpenGroups) -> Ints:
    """floor(dev) of each open group; 0 where none is.

    Rows beyond a group hold 0, and add |S| each, which is taken off again: all of it modulo 2^64.
    """
    n, total = state.length, state.total
    sums = np.zeros(len(n), np.int64)
    for rows, columns in bands(n):
        apart = state.items[rows, columns] * n[columns]
        apart -= total[columns]
        beyond = np.maximum(rows.stop - n[columns], 0)
        sums[columns] += np.abs(apart, out=apart).sum(axis=0) - beyond * np.abs(total[columns])
    return sums // np.maximum(n, 1)
