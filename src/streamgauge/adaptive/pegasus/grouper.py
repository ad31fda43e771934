"""Grouper: a private partition of a stream of counts by deviation.

Its groups are nearly constant.

A group G of n counts with sum S is as uneven as its deviation

    dev(G) = |c_1 - S/n| + ... + |c_n - S/n|,        n dev(G) = |n c_1 - S| + ... + |n c_n - S|

A group opens with one tick and its own noisy threshold. Each later tick is tested: is the group with it still
even enough? If floor(dev) + noise is below the threshold, the tick joins. If not, the group ends without it, and
the tick is a separate group that is closed at once:

    tick       1   2   3   4   5   6   7
    joins?     -   yes yes NO  -   yes yes        4 ends [1 2 3] and is alone; 5 opens a new group
    groups    [----------][--][-----------

Privacy
    Neighbours: one count of one column moves by 1. Public: the groups themselves, which ticks each column is
    `active` at, and the cap `max_group_ticks` on the ticks of a group.
    Promise: pure epsilon-DP over the whole stream, even if counts are chosen in view of past groups.
    Proof: a count that moves by 1 moves the deviation of n counts by at most 2(n-1)/n < 2, and so its floor,
    a whole number, by at most SENSITIVITY = 2. One group is one AboveThreshold over whole numbers: with q_i
    the floors, r the threshold's noise and v_i those of the tests, fix v_1 ... v_(k-1), and let g be the
    largest q_i + v_i before the test k that said no. Move r by as much as g moves (2 at most) and v_k by as
    much as g and q_k move (4 at most). That maps whole numbers one to one and preserves all answers. With r of
    scale 2 SENSITIVITY/epsilon and v of scale 4 SENSITIVITY/epsilon, it changes the chance by a factor of at
    most e^(epsilon/2 + epsilon/2). A group that is open, capped or ended by a gap has answered yes alone:
    moving r is enough. The tick that said no is used by that group alone, *because the group of its own is
    closed at once*. So each count is in the tests of one group, and the answers show which one.
    The number of draws follows from the groups, never from the counts.

    A count first passes `fold_counts` to +-2^62/max_group_ticks^2, so that n dev is exact in 64 bits. That is a
    fixed function of the count alone that moves by at most 1 if the count does, also where 64 bits wrap around:

    limit      .------------.               up to the limit unchanged, then the limit,
             .'              '.             the last ones before 2^63 down to 0 again
        0  .'                  '.           and below 0 the same

    All integers of this package live on the circle of 64 bits, on which 2^63 - 1 and -2^63 are neighbours. A
    clip would send them to opposite ends, and one event would show.

Error
    None: it only decides where groups begin. Time for each tick is in the sum of the lengths of open
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

from streamgauge.adaptive.pegasus.smoothers import MIN_BAND_ROWS, iterate_bands, resize_rows
from streamgauge.continual.validation import is_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.coerce import Bools

INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def fold_counts(values: Ints, limit: int) -> Ints:
    """Return counts up to +-limit unchanged, and larger ones as the limit.

    Near the ends of 64 bits they go back to 0.

    So neighbours are neighbours even if one has wrapped around.

    >>> fold_counts(np.array([-3, 7, 2**62 - 1, 2**63 - 1, -(2**63)]), 5).tolist()
    [-3, 5, 5, 0, 0]
    """
    up, down = np.maximum(values, 0), np.minimum(values, 0)
    turned = np.minimum(up, INT64_MAX - up) + np.maximum(down, INT64_MIN - down)
    return np.asarray(np.clip(turned, -limit, limit))


MAX_GROUP_TICKS = 2**16  # ticks of a group
MAX_THRESHOLD = 2**60  # a threshold, before its noise
MAX_NOISE_SCALE = 2**48  # a draw beyond 2^61, where sums could wrap, has a chance below e^-8000


@dataclass(slots=True)
class OpenGroups:
    """The open group of each column."""

    length: Ints  # noisy: the number of its ticks; 0 if none is open
    threshold: Ints = field(repr=False)  # exact: a secret, though made of noise
    total: Ints = field(repr=False)  # exact: the sum of its counts
    items: Ints = field(repr=False)  # exact: its counts, a row each; 0 in all rows from `length` on


@dataclass(frozen=True)
class Grouper:
    """A partition into groups of at most `max_group_ticks` ticks.

    The dev of a group stays below about `theta`/epsilon.

    `step` changes the state that `initial` made, and returns the columns that began a group at this tick.
    """

    SENSITIVITY: ClassVar[int] = 2
    epsilon: Fraction  # the loss of one count that moves by 1
    theta: Fraction
    max_group_ticks: int

    def __post_init__(self) -> None:
        if not is_whole(self.max_group_ticks) or self.max_group_ticks > MAX_GROUP_TICKS:
            rule = f"max_group_ticks must be a whole number of 1 to {MAX_GROUP_TICKS}"
            raise ValueError(f"{rule}, got {self.max_group_ticks!r}")
        if not 0 <= self.theta <= MAX_THRESHOLD * self.epsilon:
            raise ValueError(f"theta must be at least 0 and at most 2**60 epsilon, got {self.theta}")
        if not self.test_noise.scale <= MAX_NOISE_SCALE:
            raise ValueError(f"epsilon must leave noise of scale 2**48 at most, got {self.epsilon}")

    @cached_property
    def threshold_noise(self) -> DiscreteLaplace:
        """The noise of a threshold, half of epsilon."""
        return DiscreteLaplace(2 * self.SENSITIVITY / self.epsilon)

    @cached_property
    def test_noise(self) -> DiscreteLaplace:
        """The noise of a test, the other half."""
        return DiscreteLaplace(4 * self.SENSITIVITY / self.epsilon)

    @cached_property
    def max_deviation(self) -> int:
        """A whole number is below theta/epsilon if it is below this."""
        return ceil(self.theta / self.epsilon)

    @cached_property
    def max_count(self) -> int:
        """The largest count: n^2 of them, which n dev never exceeds, stay below 2^62."""
        return 2**62 // self.max_group_ticks**2

    def initial(self, width: int) -> OpenGroups:
        none = np.zeros((3, width), np.int64)
        return OpenGroups(none[0], none[1], none[2], np.zeros((MIN_BAND_ROWS, width), np.int64))

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        """Add one tick's count of every active column.

        All others end their groups, and draw nothing.
        """
        here = np.ones(len(values), np.bool_) if active is None else active
        began, tested = here & (state.length == 0), here & (state.length > 0)
        self._close_groups(state, ~here & (state.length > 0))
        self._append_counts(state, fold_counts(values, self.max_count), here)
        uneven = self._find_uneven(state, np.flatnonzero(tested), noise)
        state.threshold[began] = self.max_deviation + self.threshold_noise.draw(noise, int(began.sum()))
        self._close_groups(state, uneven | (state.length >= self.max_group_ticks))
        return np.asarray(began | uneven)

    def _append_counts(self, state: OpenGroups, items: Ints, here: Bools) -> None:
        """Append the counts to their columns' groups, and resize the array of counts."""
        state.items = resize_rows(state.items, int(state.length.max(initial=0)) + 1)
        columns = np.flatnonzero(here)
        state.items[state.length[columns], columns] = items[columns]
        state.total[columns] += items[columns]
        state.length[columns] += 1

    def _find_uneven(self, state: OpenGroups, columns: Ints, noise: Noise) -> Bools:
        """Return the columns whose newest count makes their group too uneven."""
        refused = np.zeros(len(state.length), np.bool_)
        noisy = deviations(state)[columns] + self.test_noise.draw(noise, len(columns))
        refused[columns] = noisy >= state.threshold[columns]
        return refused

    def _close_groups(self, state: OpenGroups, ended: Bools) -> None:
        """Close groups, and erase their counts."""
        for rows, columns in iterate_bands(np.where(ended, state.length, 0)):
            state.items[rows, columns] = 0
        state.length[ended] = state.total[ended] = state.threshold[ended] = 0


def deviations(state: OpenGroups) -> Ints:
    """Return floor(dev) of each open group; 0 if none is open.

    Rows beyond a group are 0, and add |S| each, which is subtracted again: all of it modulo 2^64.
    """
    n, total = state.length, state.total
    sums = np.zeros(len(n), np.int64)
    for rows, columns in iterate_bands(n):
        apart = state.items[rows, columns] * n[columns]
        apart -= total[columns]
        beyond = np.maximum(rows.stop - n[columns], 0)
        sums[columns] += np.abs(apart, out=apart).sum(axis=0) - beyond * np.abs(total[columns])
    return sums // np.maximum(n, 1)
