"""A continual mechanism under audit: readers see all its releases, from the first tick to the last.

Many runs are the groups of one run, since groups share nothing but the code; where one unit moves several
numbers of a tick's vector, a run is as many groups.

Neighbours: the dearest pattern of the unit (see `exact`), in a stream of nothing and in a busy one; the one
that the code loses most to, as tried; and units that come first, last, in the middle and around a power of
two, which a mechanism that is not what it says may treat otherwise. Evidence is the exact log-likelihood
ratio where releases tell all draws, else the best linear score (see `likelihood`).

What is computed is what is written down and, over the first ticks (LONG), also what is done: each event and
each draw is fed to the code by itself. Later ticks are believed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, Worst, patterns, worst_neighbour, worst_of
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView, View, tried, written
from streamgauge.audit.probing import tried_at_once
from streamgauge.audit.subject import Pair
from streamgauge.audit.tick_sets import DearestSet, by_squares, can_be_listed, largest
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss, Reach, Unit

SPREAD = 64  # that one unit is spread over: a run needs as many
SHORT = 16  # ticks up to which the code is tried draw by draw
LONG = 256  # and up to which all at once
MANY, FEW = 20_000, 300  # patterns that are gone through, and where each is a linear program


@dataclass(frozen=True)
class MechanismSubject:
    """All releases of the first ticks; `noise` is the system's unless told otherwise."""

    mechanism: Mechanism[Any]
    ticks: int
    noise: Noise | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.mechanism!r}"

    @property
    def loss(self) -> Loss:
        """What the noise is calibrated to, from which the claim follows."""
        return self.mechanism.loss.kept_as

    @cached_property
    def view(self) -> LinearView:
        return written(self.mechanism.strategy(self.ticks))

    def worst(self) -> Worst:
        """As written down and, over the first ticks, as tried: code that is not its matrices loses more."""
        return self._worst

    @cached_property
    def _worst(self) -> Worst:
        read, ticks = worst_neighbour(self.mechanism, self.ticks), min(self.ticks, LONG)
        linear = tried(self._released, ticks) if ticks <= SHORT else tried_at_once(self._fed, ticks)
        how = f"matrices of {self.ticks} ticks"
        if linear is None:
            return replace(read, how=f"{how}; the code was not tried")
        agrees = ticks > SHORT and linear.agrees(written(self.mechanism.strategy(ticks)))
        if agrees and not (linear.laplace and linear.quick):  # covariances say all, or programs take too long
            return replace(read, how=f"{how}; the code of {ticks} agrees")
        found = worst_in(linear, self.mechanism)
        later = [read] if agrees and ticks < self.ticks else []
        both = replace(worst_of([found, *later]), amount=max(read.amount, found.amount))
        return replace(both, how=f"{how}; the code of {ticks} was tried")

    def _released(self, values: Ints, noise: Noise) -> Floats:
        return self._fed(values[:, None], noise)[:, 0]

    def _fed(self, values: Ints, noise: Noise) -> Floats:
        return np.asarray(self.mechanism.start(values.shape[1], noise).feed(values), np.float64)

    def pairs(self) -> Sequence[Pair]:
        worst = worst_neighbour(self.mechanism, self.ticks).pattern
        return list(neighbours(self.mechanism, self.ticks, self.view, [worst, self._worst.pattern]))

    def views(self, data: Ints, runs: int) -> Floats:
        return released(self.mechanism, data, runs, self.noise)


def released(mechanism: Mechanism[Any], data: Ints, runs: int, noise: Noise | None) -> Floats:
    """Of streams (groups, ticks): all releases of a run's first group, then of the next."""
    run = mechanism.start(runs * len(data), noise)
    releases = run.feed(np.tile(data.T, (1, runs)))
    return np.ascontiguousarray(releases.T, np.float64).reshape(runs, -1)


def neighbours(
    mechanism: Mechanism[Any], ticks: int, view: LinearView, dear: Sequence[Pattern]
) -> Iterator[Pair]:
    """Pairs of streams (groups, ticks) that differ in one unit; the first that is dear comes first."""
    move = spread(mechanism.reach, view.laplace)
    nothing = np.zeros((len(move), ticks), np.int64)
    placed = dict.fromkeys([*dear, *landmarks(mechanism.unit, ticks)])
    streams = [(pattern, nothing, "") for pattern in placed]
    streams.insert(1, (dear[0], busy(nothing), " of a busy stream"))
    for pattern, other, where in streams:
        one = joined(other, move, pattern)
        yield Pair(f"{Worst(pattern, 0)}{where}", one, other, Likelihood(view, len(move), fixed(one, other)))


def landmarks(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """Units that come first, last, in the middle, and just before and at the last power of two.

    >>> from streamgauge.privacy import WEvent
    >>> list(landmarks(WEvent(2), 6))
    [(1, 2), (5, 6), (3, 4), (4, 5)]
    """
    size = min(unit.ticks, ticks)
    power = 1 << (ticks.bit_length() - 1)
    begins = (1, ticks - size + 1, ticks // 2, power - 1, power)
    for first in dict.fromkeys(min(max(1, begin), ticks - size + 1) for begin in begins):
        yield tuple(range(first, first + size))


def joined(stream: Ints, move: Ints, pattern: Pattern) -> Ints:
    """The stream with a unit that moves these ticks."""
    with_unit = stream.copy()
    for tick in pattern:
        with_unit[:, tick - 1] += move
    return with_unit


def busy(stream: Ints) -> Ints:
    """Other people's events: so many that they would not fit into the noise."""
    return stream + 1000 + 7 * np.arange(stream.shape[1]) % 11


def spread(reach: Reach, laplace: bool) -> Ints:
    """A move of one tick that is as far as the reach allows in the norm that counts, one number per group.

    >>> spread(Reach(13, 91, 3), True), spread(Reach(13, 91, 3), False)
    (array([5, 4, 4]), array([9]))
    """
    groups = min(reach.coordinates, int(reach.l1))
    if not laplace or reach.l2_squared == reach.l1**2 or groups > SPREAD:
        return np.array([isqrt(int(reach.l2_squared))], np.int64)
    each, rest = divmod(int(reach.l1), groups)
    return np.array([each + (place < rest) for place in range(groups)], np.int64)


def at_first(unit: Unit, ticks: int) -> Pattern:
    """The first of its patterns."""
    return tuple(range(1, min(unit.ticks, ticks) + 1))


def worst_tried(mechanism: Mechanism[Any], view: View, ticks: int, seen: str = "") -> Worst:
    """The dearest neighbour under a view that is found by trying."""
    return worst_in(tried(view, ticks), mechanism, seen)


def worst_in(linear: LinearView, mechanism: Mechanism[Any], seen: str = "") -> Worst:
    """Of all patterns, if there are not too many; else of some, with an upper end that no other exceeds."""
    unit, ticks = mechanism.unit, linear.by_data.shape[1]
    if can_be_listed(unit, ticks, MANY if linear.quick else FEW):
        return worst_of(costly(linear, mechanism, pattern, seen) for pattern in patterns(unit, ticks))
    dear = dearest_unlisted(linear, min(unit.ticks, ticks))
    tried_out = {*landmarks(unit, ticks), dear.pattern}
    worst = worst_of(costly(linear, mechanism, pattern, seen) for pattern in tried_out)
    return replace(worst, amount=max(float(worst.amount), scale_of(linear, mechanism) * dear.most))


def costly(linear: LinearView, mechanism: Mechanism[Any], pattern: Pattern, seen: str) -> Worst:
    """What one unit costs to hide."""
    move = np.zeros(linear.by_data.shape[1])
    move[[tick - 1 for tick in pattern]] = 1
    cost, scale = linear.cost(move), scale_of(linear, mechanism)
    return Worst(pattern, scale * cost.most, seen, scale * cost.least)


def scale_of(linear: LinearView, mechanism: Mechanism[Any]) -> float:
    """How far a unit moves a tick, in the norm that counts."""
    return float(mechanism.reach.l1 if linear.laplace else mechanism.reach.l2_squared)


def dearest_unlisted(linear: LinearView, size: int) -> DearestSet:
    """Of sets that are too many to go through: the cost of hiding is a norm, and so at most adds up.

    Under Gaussian noise it is the square of one, of which more is known (see `tick_sets`).
    """
    alone = np.array([linear.cost(move).most for move in np.eye(linear.by_data.shape[1])])
    if not linear.laplace and np.isfinite(alone).all():
        return by_squares(np.abs(linear.gram), size)
    dear = largest(alone, size)
    return DearestSet(tuple(int(place) + 1 for place in dear), 0.0, float(alone[dear].sum()))
