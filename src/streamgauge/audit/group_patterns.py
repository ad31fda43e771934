"""The chance of a pattern of groups, computed from the code of a grouper: each ask is tried by itself.

A grouper is driven along a pattern: noise that no deviation outweighs forces each ask to say what it is to
say, and what is drawn on the way is written down. Before each ask its state is set side by side many times
and asked under as many noises: where the answer turns is its margin. So a pattern is a sequence of
thresholds, each with the asks under it:

    threshold r   asks   join if v1 < m1 + r,   join if v2 < m2 + r,   refuse if v3 >= m3 + r

    P = sum over r of P(r) P(v1 < m1 + r) P(v2 < m2 + r) P(v3 >= m3 + r),      a factor for each threshold

with all laws as the code draws them: a grouper that keeps a threshold, draws too little, or lets a count into
the asks of two groups is computed as what it does.

Promise
    The chance of a pattern is exact but for the rounding of floats, and for thresholds that are FAR scales
    beyond all margins.
"""

from copy import deepcopy
from dataclasses import dataclass, field, fields
from fractions import Fraction
from math import log, tanh
from typing import Any, Protocol

import numpy as np

from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.testing import CountedNoise

FAR = 40
FORCED = 2**50  # noise that outweighs any deviation
TRIED = 2**8  # noises to either side that an ask is tried under at once

Counts = tuple[int, ...]


class Groups(Protocol):
    """Code that cuts columns of counts into groups; its state has the `length` of each open group."""

    @property
    def opening(self) -> DiscreteLaplace:
        """The noise of a threshold."""
        ...

    def initial(self, width: int) -> Any: ...

    def step(self, state: Any, values: Ints, noise: Noise) -> Bools:
        """Which columns began a group at this tick; asks are drawn before thresholds."""
        ...


@dataclass
class Said:
    """Noise of which the first draws are as told; all others are 0."""

    first: Ints | None

    def laplace(self, scale: Fraction, size: int) -> Ints:
        if self.first is None or not size:
            return np.zeros(size, np.int64)
        said, self.first = np.resize(self.first, size), None
        return said

    gaussian = laplace


@dataclass
class Asks:
    """All asks under one threshold: what noise each joins below, and which of them refused."""

    opening: Fraction  # the scale of the threshold
    asking: list[Fraction] = field(default_factory=list)
    margins: list[int] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)

    def log_chance(self) -> float:
        """Of all these answers."""
        reach = max(map(abs, self.margins), default=0) + int(FAR * self.opening) + 1
        r = np.arange(-reach, reach + 1)
        told = log_pmf(self.opening, r)
        for scale, margin, no in zip(self.asking, self.margins, self.refused, strict=True):
            told = told + log_below(scale, -margin - r if no else margin + r - 1)
        top = float(told.max())
        return top + log(float(np.exp(told - top).sum()))


def log_pmf(scale: Fraction, k: Ints) -> Floats:
    return np.asarray(log(tanh(float(1 / (2 * scale)))) - np.abs(k) / float(scale))


def log_below(scale: Fraction, k: Ints) -> Floats:
    """log P(v <= k) of a discrete Laplace draw v.

    >>> bool(np.isclose(np.exp(log_below(Fraction(1), np.array([-1, 0]))).sum(), 1))
    True
    """
    rate = float(1 / scale)
    edge = -np.log1p(np.exp(-rate))
    above = np.exp(edge - rate * (np.maximum(k, 0) + 1))
    return np.asarray(np.where(k >= 0, np.log1p(-above), edge + rate * np.minimum(k, 0)))


def log_chance(grouper: Groups, counts: Counts, refused: frozenset[int]) -> float:
    """Of the pattern in which asks at these ticks refuse, and all others join."""
    return sum(asks.log_chance() for asks in asks_along(grouper, counts, refused))


def asks_along(grouper: Groups, counts: Counts, refused: frozenset[int]) -> list[Asks]:
    """What is asked along a pattern, threshold by threshold."""
    state, found = grouper.initial(1), list[Asks]()
    for tick, count in enumerate(counts, 1):
        asked, no = bool(state.length[0]), tick in refused
        if asked:
            found[-1].margins.append(margin(grouper, state, count))
            found[-1].refused.append(no)
        noise = CountedNoise(Said(np.array([FORCED if no else -FORCED]) if asked else None))
        grouper.step(state, np.array([count]), noise)
        drawn = [scale for _, scale, size in noise.requests if size]
        if asked:
            found[-1].asking.append(drawn.pop(0))
        found += [Asks(scale) for scale in drawn]
    return found


def margin(grouper: Groups, state: Any, count: int) -> int:
    """The least noise under which a count is refused by the group that is open."""
    joins, refuses, under = -FORCED, FORCED, np.arange(-TRIED, TRIED)
    while refuses - joins > 1:
        values, beside = np.full(len(under), count), repeated(state, len(under))
        refused = grouper.step(beside, values, Said(under))
        joins = max([joins, *under[~refused].tolist()])
        refuses = min([refuses, *under[refused].tolist()])
        under = np.unique(np.linspace(joins + 1, refuses - 1, 2 * TRIED).astype(np.int64))
    if not -FORCED + 1 < refuses < FORCED:
        raise ValueError("grouper must answer by its noise, got one answer for all")
    return refuses


def repeated(state: Any, width: int) -> Any:
    """A state of one column so many times side by side."""
    beside = deepcopy(state)
    for each in fields(beside):
        setattr(beside, each.name, np.repeat(getattr(state, each.name), width, axis=-1))
    return beside
