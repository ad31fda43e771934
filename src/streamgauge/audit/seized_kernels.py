"""A pan-private estimator as a finite kernel: its real code, run along every way that chance may take.

The state is what `save` wrote; a step loads it, does one act and saves again, once for every way that coins
and dice may fall. So what is enumerated is the code in service, its way through bytes included. The acts:

    a tuple of users    `add`, or `step` of an estimator that tells something at every tick
    INTRUDE             `intrude`: what is handed over is seen
    ESTIMATE            `estimate`: what is released is seen, under its noise

A release is a sum under discrete Laplace noise, that has infinitely many values. Beyond the least and the
largest sum that there can be, all of them say the same, so noisy sums are cut off there and nothing is
lost. That noise is added to sums, draw by draw in order, is tried on each of them, not believed.

Promise
    Probabilities are exact but for e^(-1/scale), which is taken from its float.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import exp
from typing import Any

import numpy as np

from streamgauge.audit.forked_chance import Forked, Way, every_way
from streamgauge.audit.kernels import Output, State, Value
from streamgauge.continual.saved import pack

INTRUDE, ESTIMATE = "intrude", "estimate"
Law = Mapping[tuple[State, Output], Fraction]


class Overheard:
    """A claim whose estimates are what was released: numbers under noise, of which the estimate is made."""

    def __init__(self, claim: Any) -> None:
        self._claim = claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def estimated(self, released: Any, intrusions: int) -> Any:
        return released


@dataclass
class SeizedKernel:
    """See the module. Transitions are computed once."""

    claim: Any
    known: dict[tuple[State, Value], Law] = field(default_factory=dict, repr=False)

    def initial(self) -> dict[State, Fraction]:
        found: dict[State, Fraction] = {}
        for way in every_way(lambda chance: self.claim.start(chance).save()):
            found[way.result] = found.get(way.result, Fraction(0)) + way.weight
        return found

    def step(self, state: State, value: Value) -> Law:
        if (state, value) not in self.known:
            found: dict[tuple[State, Output], Fraction] = {}
            for way in every_way(lambda chance: acted(self.claim, state, value, chance)):
                for output, chance in self._noised(way, state, value):
                    place = way.result[0], output
                    found[place] = found.get(place, Fraction(0)) + way.weight * chance
            self.known[state, value] = found
        return self.known[state, value]

    def _noised(self, way: Way[Any], state: State, value: Value) -> Iterator[tuple[Output, Fraction]]:
        """All that may be seen of an act that went this way."""
        _, seen = way.result
        if not way.scales:
            yield seen, Fraction(1)
            return
        self._tried(way, state, value)
        laws = [cut_laplace(sum_, scale, self.ends) for sum_, scale in zip(seen, way.scales, strict=True)]
        for outputs in product(*(law.items() for law in laws)):
            weight = Fraction(1)
            for _, each in outputs:
                weight *= each
            yield tuple(output for output, _ in outputs), weight

    def _tried(self, way: Way[Any], state: State, value: Value) -> None:
        """Draws of 1, 2, 3, .. must move the numbers of the release by as much, in order."""
        draws = range(1, len(way.scales) + 1)
        _, moved = acted(self.claim, state, value, Forked(way.choices, draws))
        if not np.array_equal(np.array(moved) - draws, way.result[1]):
            raise TypeError(
                "release must be sums under noise, one draw each and in order, got something else"
            )

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Between which all sums over entries are: those of the start, where all entries may be anything."""
        first = [acted(self.claim, state, ESTIMATE, Forked())[1] for state in self.initial()]
        sums = [sum_ for sums in first for sum_ in sums]
        return min(0, *sums), max(self.claim.entries, *sums)


def acted(claim: Any, state: State, value: Value, chance: Forked) -> tuple[bytes, Any]:
    """The state after one act, and what is seen of the act."""
    run = claim.load(state, chance)
    run.claim = Overheard(run.claim)
    seen = shown(run, value)
    return run.save(), seen


def shown(run: Any, value: Value) -> Any:
    if value == INTRUDE:
        return pack("", 1, {}, run.intrude())
    if value == ESTIMATE:
        return numbers(run.estimate())
    users = np.array(value, np.int64)
    return numbers(run.step(users)) if hasattr(run, "step") else run.add(users)


def numbers(released: Any) -> tuple[int, ...]:
    return tuple(np.ravel(released).tolist())


def cut_laplace(centre: int, scale: Fraction, ends: tuple[int, int]) -> dict[int, Fraction]:
    """Discrete Laplace noise around a sum, what is beyond the ends counted as these.

    >>> [round(float(each), 3) for each in cut_laplace(0, Fraction(1), (-1, 1)).values()]
    [0.269, 0.462, 0.269]
    """
    least, most = ends
    if not least <= centre <= most:
        raise ValueError(f"sum must be between {least} and {most}, as sums over entries are, got {centre}")
    r = Fraction(exp(-float(1 / scale)))
    law = {place: (1 - r) / (1 + r) * r ** abs(place - centre) for place in range(least, most)}
    return {**law, least: tail(centre - least, r), most: tail(most - centre, r)}


def tail(distance: int, r: Fraction) -> Fraction:
    """P(noise >= distance)."""
    return r**distance / (1 + r)
