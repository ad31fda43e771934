"""The law of what a device sends, in fractions: its real code, run along every way that chance may take.

    law_of(act)        all that may be seen, with how likely it is
    worst_of(laws)     the largest ratio of likelihoods of one thing that is seen, over all pairs of inputs

Promise
    Exact: coins and dice of the code fall every way (`forked_chance`), nothing is sampled and nothing left
    out. What one input may show and another cannot is an infinite ratio.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

import numpy as np

from streamgauge.audit.forked_chance import Forked, every_way
from streamgauge.noise.numbers import Floats

Input = Hashable
Law = dict[bytes, Fraction]
FAR = 1e6  # what one input shows and the other cannot


@dataclass(frozen=True)
class Told:
    """How much likelier something is for one input than for another."""

    ratio: Fraction | float
    one: Input
    other: Input
    seen: bytes

    @property
    def epsilon(self) -> float:
        return inf if self.ratio == inf else log(self.ratio)


def law_of(act: Callable[[Forked], bytes]) -> Law:
    found: Law = {}
    for way in every_way(act):
        found[way.result] = found.get(way.result, Fraction(0)) + way.weight
    return found


def worst_of(laws: Mapping[Input, Law]) -> Told:
    """Of all pairs of inputs, in both directions."""
    return max((_of(laws, seen) for seen in _everything(laws)), key=lambda told: told.ratio)


def _everything(laws: Mapping[Input, Law]) -> list[bytes]:
    return sorted(set().union(*laws.values()))


def _of(laws: Mapping[Input, Law], seen: bytes) -> Told:
    chances = {each: law.get(seen, Fraction(0)) for each, law in laws.items()}
    most, least = max(chances, key=chances.__getitem__), min(chances, key=chances.__getitem__)
    ratio = chances[most] / chances[least] if chances[least] else inf
    return Told(ratio, most, least, seen)


@dataclass(frozen=True)
class Evidence:
    """The log-likelihood ratio of rows, each of which is the bytes that were seen in one run."""

    one: Law
    other: Law

    def __call__(self, views: Floats) -> Floats:
        rows, place = np.unique(views, axis=0, return_inverse=True)
        told = [self._told(bytes(row)) for row in rows.astype(np.uint8)]
        return np.array(told, np.float64)[place.ravel()]

    def _told(self, seen: bytes) -> float:
        one, other = self.one.get(seen), self.other.get(seen)
        if one and other:
            return log(one / other)
        return FAR if one else -FAR
