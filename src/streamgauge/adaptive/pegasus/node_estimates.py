"""Estimates of all nodes of a hierarchy that add up, from their readings.

Pruning: nodes below one that has next to nothing are not read, but guessed as its even parts:

    building   40   read
    floors     38   1             read; 1 is at most the threshold
    rooms      20 19   1/3 1/3 1/3      read; guessed: their noise would be larger than their counts

The decision to read the children of a node at a tick uses the *release* of the node for that tick, and for its
window. A count that is next to nothing at each of N ticks may be much at all of them together, while noise has
grown with sqrt(N) only. Below a node that was not read no node is read. Guesses over a window of ticks are stored
for each node of the level above, since all its children share them.

Estimates: least squares over the tree weigh each node by the number of readings behind its estimate, and a guess has
next to no weight. Then each node that was read throughout is brought to at most MAX standard errors from the sum of
its readings, unless a node above prevents that, and to at least `lowest`, with children that still add up
(`fit_to_bounds`). So smoothing may reduce the noise of a window, and adds no more than that to it.

Bounds: first, from the leaves upwards, bounds of a node are cut to the sums of its children's, so that the children
can add up to it. If both contradict, its own stay: of many bounds that hold by themselves some do not, and their
demands add up. Then, from the roots downwards, a node is cut to its bounds. If those of its children do not allow
it, all are relaxed by the same amount, down to `lowest` at most. The difference of the children to the node is
shared in proportion to the slack that each has left:

    node       12                  is 12; its children say 9 and 7, and may be 0 to 20 and 6 to 8
    children   9 -> 5.4   7 -> 6.6      they exceed it by 4, and have a slack of 9 and 1 downwards

    node       12                  is 12; its children are at least 10, 5 and 1, which is 16
    children   10 -> 8.5   5 -> 3.5   1 -> 0      all are relaxed by 1.5, the last by 1

Privacy
    None is spent: decisions and estimates are functions of releases. The loss of a node that is not read stays
    unspent at that tick. It makes no other reading any sharper.

Error
    Depends on data. Of a node that was read throughout: |value - truth| <= |centre - truth| + MAX standard
    errors of the centre: always of a root, else unless bounds of nodes above and next to it contradict its own. A
    bound is a convex set: if it contains the truth, an estimate that is brought into it by itself is no worse
    than before. If the truth obeys all bounds, so does every node that is returned. Roots obey theirs in any
    case.

    The centre of a node is the sum of its readings in the window, whose noise is as many draws of its level's
    law. At ticks at which it was not read, its truth is at least 0, if counts are declared to be, and at most
    that of any ancestor: the reading of the nearest one that was read, and the noise that may have reduced it.

        centre - own noise  <=  truth  <=  centre + own noise + max(0, ceilings + unread ticks * one reading's)

    The same holds for each ancestor, and its truth in the window is no less than the node's: the least of those
    upper bounds is one for the node. A root's, which is read at every tick, grows with sqrt(N) beyond its truth
    and not with N. The distances below and above the centre become one half width, the wider.

    The bound holds with the requested confidence, for each node and tick by itself, for all data, even if they
    are chosen in view of past releases. The chance to miss is shared, with APART = PARTIAL_MISS_SHARE. Proof,
    for a window of N ticks:
    - All of them read: the own noise is that of N draws, for which 1 - 2 APART is left.
    - Some read, some not: the choice may be in view of the own noise. A choice that stops reading when the
      noise is large makes a sum of few draws miss too often. But add draws for all unread ticks but one: by
      symmetry, they reduce the sum no more often than not, and the result is the noise of N - 1 draws.
      So the sum is beyond any width with twice the chance of N - 1 draws at most: APART is for that.
    - The readings of ancestors decide themselves whether they are used. So it is only certain that none is too
      low by more than the width, all d ancestors at all N ticks together. Half of APART is for the union of
      N d draws, and all of it for those that are too low, since too high does no harm.
    - The sums of ancestors' readings: for each of the d an even part of the other half, and of that, one half
      for the sum of N draws, if all were read, and one for the sum of some, as above; again for too low only.
    Roots are always read, and a window of one tick is read or not: no chance is set apart that they do not
    need. So at one tick all of APART is for the readings of ancestors, which are their sums.
    Without a declared lowest, nothing is certain if a tick was not read.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np

from streamgauge.adaptive.estimate import ManyDrawsErrorBound, round_up_to_few_bits
from streamgauge.noise import DiscreteLaplace, Distribution, Ints, NoiseSum, Term
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.postprocess import Hierarchy, HierarchyEstimator
from streamgauge.postprocess.hierarchy import Generation, NodeIndices
from streamgauge.privacy.rationals import Number, parse_nonnegative

PARTIAL_MISS_SHARE = 0.125  # of the chance to miss: for ancestors' readings, and again for windows read in part


@dataclass(frozen=True, eq=False)
class NodeErrorBound:
    """The error bounds of all nodes at one tick."""

    laws: tuple[Distribution, ...]  # of each level's readings
    depths: NodeIndices  # of each node
    parents: NodeIndices  # of each node; -1 of a root
    ticks: int  # of the window
    centres: Ints  # the sums of each node's readings
    unread_ticks: Ints  # of the ticks, for each node
    ceiling_sums: Ints  # the sums of ancestors' readings over them
    is_counting: bool  # True if nodes may go unread, and no truth is below 0

    @property
    def stddev(self) -> Floats:
        """The standard error of nodes that were read at every tick; NaN of others."""
        known = np.array([sqrt(self.ticks * law.variance) for law in self.laws])
        return np.where(self.unread_ticks == 0, known[self.depths], nan)

    def half_width(self, confidence: float) -> Floats:
        widths = np.zeros(len(self.depths))
        for depth, law in enumerate(self.laws):
            here = self.depths == depth
            widths[here] = self._level_half_widths(depth, law, np.flatnonzero(here), confidence)
        return widths

    def _level_half_widths(self, depth: int, law: Distribution, here: NodeIndices, confidence: float) -> Floats:
        guessing, unread, miss = bool(depth) and self.is_counting, self.unread_ticks[here], 1 - confidence
        apart = PARTIAL_MISS_SHARE * min(self.ticks, 2) if guessing else 0.0
        whole = self.draws_half_width(self.ticks, law, 1 - miss * (1 - apart) if apart else confidence)
        if not guessing or not unread.any():
            return np.where(unread > 0, inf, whole)
        partly = self.draws_half_width(self.ticks - 1, law, 1 - miss * PARTIAL_MISS_SHARE / 2)
        own = np.where(unread < self.ticks, partly, 0.0)
        most = own + self._max_unread_count(here, self.max_shortfall(depth, confidence))
        if self.ticks > 1:
            most = np.minimum(most, self._ancestor_upper_bound(depth, here, confidence) - self.centres[here])
        return np.where(unread > 0, np.maximum(own, most), whole)

    def _max_unread_count(self, here: NodeIndices, too_low: float) -> Floats:
        """Return the most that nodes can have had while they were not read."""
        return np.maximum(self.ceiling_sums[here] + self.unread_ticks[here] * too_low, 0)

    def _ancestor_upper_bound(self, depth: int, here: NodeIndices, confidence: float) -> Floats:
        """Return the least upper bound of all ancestors of nodes of this depth."""
        bounds = np.full(len(self.depths) + 1, inf)  # the last is what is above the roots
        for above in range(depth):
            these = np.flatnonzero(self.depths == above)
            own = self._upper_bound(above, depth, these, confidence)
            bounds[these] = np.minimum(own, bounds[self.parents[these]])
        return bounds[self.parents[here]]

    def _upper_bound(self, above: int, depth: int, these: NodeIndices, confidence: float) -> Floats:
        """Return upper bounds of nodes, as ancestors of nodes of some depth."""
        chance = (1 - confidence) * PARTIAL_MISS_SHARE / 2 / depth
        law, unread = self.laws[above], self.unread_ticks[these]
        whole = self.draws_half_width(self.ticks, law, 1 - chance)  # too low with half of that
        partly = self.draws_half_width(self.ticks - 1, law, 1 - chance / 2)  # a quarter, twice
        noise = np.where(unread > 0, np.where(unread < self.ticks, partly, 0.0), whole)
        return self.centres[these] + noise + self._max_unread_count(these, self.max_shortfall(depth, confidence))

    def draws_half_width(self, draws: int, law: Distribution, confidence: float) -> float:
        return ManyDrawsErrorBound(NoiseSum((Term(draws, 1, law),))).half_width(confidence)

    def max_shortfall(self, depth: int, confidence: float) -> float:
        """Bound how much any reading of any ancestor in the window may be too low.

        Too high is as likely.
        """
        chance = 1 - (1 - confidence) * 2 * PARTIAL_MISS_SHARE / min(self.ticks, 2)
        readings, draws = [NoiseSum((Term(1, 1, law),)) for law in self.laws[:depth]], round_up_to_few_bits(self.ticks)
        return max(reading.simultaneous_half_width(chance, draws * depth) for reading in readings)


UNBOUNDED = 2.0**100  # a bound that is none; its slack is shared evenly


def fit_to_bounds(hierarchy: Hierarchy, values: Floats, low: Floats, high: Floats, lowest: float = -np.inf) -> Floats:
    """Bring values (nodes,) that add up between bounds.

    If bounds contradict, those above win.

    >>> tree = Hierarchy([None, 0, 0])
    >>> fit_to_bounds(tree, np.array([12.0, 9.0, 7.0]), np.array([0.0, 0.0, 6.0]), np.array([99.0, 20.0, 8.0]))
    array([12. ,  5.4,  6.6])
    """
    nodes, least, most = (np.clip(each, -UNBOUNDED, UNBOUNDED)[hierarchy.order] for each in (values, low, high))
    for young in hierarchy.generations[::-1]:
        _tighten_parent_bounds(young, least, most)
    nodes = np.clip(nodes, least, most)
    for young in hierarchy.generations:
        here, wanted = young.children, nodes[young.parents]
        least[here] = _relax_child_bounds(young, least[here], wanted, lowest)
        most[here] = -_relax_child_bounds(young, -most[here], -wanted, -np.inf)
        nodes[here] = np.clip(nodes[here], least[here], most[here])
        _share_difference(young, nodes, least, most)
    return hierarchy.restore_order(nodes)


def _tighten_parent_bounds(young: Generation, least: Floats, most: Floats) -> None:
    """Cut bounds of parents to the sums of their children's, in place.

    Bounds that contradict stay.
    """
    up = young.parents
    low, high = np.maximum(least[up], young.sums(least)), np.minimum(most[up], young.sums(most))
    agree = low <= high
    least[up], most[up] = np.where(agree, low, least[up]), np.where(agree, high, most[up])


def _relax_child_bounds(young: Generation, least: Floats, wanted: Floats, lowest: float) -> Floats:
    """Return bounds of children, lowered evenly if they add up to more than is wanted.

    Newton's steps.
    """
    giving = least > lowest
    while True:
        excess = np.maximum(np.add.reduceat(least, young.starts) - wanted, 0)
        able = np.maximum(np.add.reduceat(giving, young.starts, dtype=np.intp), 1)
        least = np.maximum(least - (excess / able)[young.family], lowest)
        if np.array_equal(giving, still := least > lowest):
            return least
        giving = still


def _share_difference(young: Generation, nodes: Floats, least: Floats, most: Floats) -> None:
    """Make children add up to their parents, in place."""
    lacking = nodes[young.parents] - young.sums(nodes)
    here, up = nodes[young.children], (lacking > 0)[young.family]
    slack = np.where(up, most[young.children] - here, here - least[young.children])
    whole = np.add.reduceat(slack, young.starts)
    part = np.divide(lacking, whole, out=np.zeros_like(lacking), where=whole > 0)
    nodes[young.children] = here + slack * np.clip(part, -1, 1)[young.family]


GRAINS_PER_UNIT = 2**20  # guesses are whole numbers of this part of 1, so that sums over windows never drift
MAX_GRAINS = 2**62  # such a number of grains, and of standard errors


class LevelReadings(NamedTuple):
    """The readings and estimates of the nodes of a level at one tick.

    All of it is public.
    """

    was_read: Bools  # True if there is a reading
    noisy_counts: Ints  # the reading, 0 if there is none
    group_starts: Bools  # True if a group began
    newest: Floats  # the estimate of this tick
    ceiling: Ints  # the reading, or that of the nearest ancestor that has one
    value: Floats  # the estimate of the window
    centre: Ints  # the sum of all readings in the window
    unread_ticks: Ints  # ticks of the window without a reading
    ceiling_sums: Ints  # the sum of `ceiling` over them
    group_length: Ints  # of the last group; 0 without a reading


# read, newest, value, ceiling
ABOVE_ROOTS = (np.ones(1, np.bool_), np.full(1, np.inf), np.full(1, np.inf), np.zeros(1, np.int64))


@dataclass(slots=True)
class GuessState:
    """The sums behind guesses of each node's children, in the window.

    They are of ticks, ceilings and estimates.
    """

    rows: Ints  # noisy: (ticks, 3, nodes), tick t in row t mod their number; none if no tick ever expires
    sums: Ints  # noisy: (3, nodes)


@dataclass(frozen=True, eq=False)
class NodePruner:
    """Guesses from nodes of at most their `threshold`.

    Windows have `size` ticks, or 0 for all.

    If counts may be negative (`signed`), a node far below 0 is as informative as one far above.
    """

    threshold: Floats
    size: int
    signed: bool = False

    def initial(self) -> GuessState:
        width = len(self.threshold)
        return GuessState(np.zeros((self.size, 3, width), np.int64), np.zeros((3, width), np.int64))

    def find_pruned(self, read: Bools, newest: Floats, value: Floats, ticks: int) -> Bools:
        """Return the nodes of the level above whose children are not read.

        This tick is the last of so many.
        """
        size = np.stack([newest, value / sqrt(ticks)] if ticks > 1 else [newest])
        largest = (np.abs(size) if self.signed else size).max(axis=0)
        return np.asarray(~read | (largest <= self.threshold))

    def step(self, state: GuessState, pruned: Bools, newest: Floats, ceiling: Ints, tick: int) -> Ints:
        """Return the sums over the window that ends at `tick`."""
        whole = np.clip(newest * GRAINS_PER_UNIT, -float(MAX_GRAINS), float(MAX_GRAINS)).astype(np.int64)
        fresh = np.where(pruned, np.stack([np.ones_like(ceiling), ceiling, whole]), 0)
        state.sums += fresh
        if self.size:
            state.sums -= state.rows[tick % self.size]
            state.rows[tick % self.size] = fresh
        return state.sums


def parse_prune(given: Number | None) -> Fraction:
    """Return the exact number of standard errors of the threshold.

    0, as None, prunes nothing.
    """
    errors = parse_nonnegative(0 if given is None else given, "prune")
    if errors > MAX_GRAINS:
        raise ValueError(f"prune must be at most 2**62, got {given}")
    return errors


GUESS_WEIGHT_BITS = 60  # bits by which a guess weighs less than a reading, or than the guess above
MAX_GUESS_WEIGHT_BITS = 800  # the same, of all levels together
MAX_STANDARD_ERRORS = 1.95  # standard errors: sums of Laplace draws have more on each side at 95 %, unless mostly 0


@dataclass(frozen=True, eq=False)
class NodeEstimator:
    """Estimates of all nodes, by the laws of their levels' readings."""

    hierarchy: Hierarchy
    laws: tuple[DiscreteLaplace, ...]
    depths: NodeIndices  # the level of each node
    lowest: float  # no truth is below it

    def estimate(self, readings: LevelReadings, ticks: int, *, consistent: bool) -> Floats:
        """Return the published values of a window of so many ticks.

        If not `consistent`, of each node by itself.
        """
        low, high = self.compute_bounds(readings, ticks)
        if not consistent:
            return np.clip(readings.value, low, high)
        return fit_to_bounds(self.hierarchy, self.fit_consistent(readings, ticks), low, high, self.lowest)

    def fit_consistent(self, level: LevelReadings, ticks: int) -> Floats:
        """Return the least squares fit.

        Weights are the numbers of readings, up to a common factor.
        """
        widest = max(law.scale for law in self.laws)
        spread = np.array([float(law.scale / widest) ** 2 for law in self.laws])
        readings = np.maximum(ticks - level.unread_ticks, level.group_length)
        measured = spread[self.depths] / np.maximum(readings, 1)
        faint = np.ldexp(1.0, min(GUESS_WEIGHT_BITS, MAX_GUESS_WEIGHT_BITS // len(self.laws)) * self.depths)
        return HierarchyEstimator(self.hierarchy, np.where(readings > 0, measured, faint)).step(level.value)

    def compute_bounds(self, readings: LevelReadings, ticks: int) -> tuple[Floats, Floats]:
        """Return bounds near the sum of readings.

        If some tick has no reading, only from below.
        """
        reach = MAX_STANDARD_ERRORS * np.sqrt([ticks * law.variance for law in self.laws])[self.depths]
        known = (readings.unread_ticks == 0) | (self.lowest > -inf)
        low = np.where(known, readings.centre - reach, -inf)
        high = np.where(readings.unread_ticks == 0, readings.centre + reach, inf)
        return np.maximum(low, self.lowest), np.maximum(high, self.lowest)
