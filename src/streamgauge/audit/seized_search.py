"""The worst that a seized memory can show, over all streams and orders at once: dynamic programming.

A story says how often each thing is seen: estimates or ticks, announced intrusions, and the look that nobody
announced. They come in every order that there is, with free acts before each of them: at those, and at ticks,
what happens in either world is one of some pairs. All orders, all pairs of streams and all that can be seen
are gone through together, by how often each thing was seen so far:

    a belief     how likely each state is in either world, given all that was seen
    a ratio      how much likelier that was in the first world than in the second

What comes after depends on the belief alone, and multiplies the ratio: of all histories that lead to one
belief, the one with the largest ratio is enough.

Promise
    The largest ratio of likelihoods in either direction, exactly, of all orders and all streams that the free
    acts allow. To see less never tells more, so that of stories with fewer acts it is no larger.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, product
from math import inf
from typing import Any

from streamgauge.audit.kernels import Belief, Chance, Kernel, Output, State, Value, Weights, outcomes

LOOK = "look"  # the memory is seen, and nobody has announced it
FREE = "free"  # an act that may be another in either world, where that is seen itself: a tick
Pairs = Sequence[tuple[Value, Value]]
Place = tuple[int, ...]  # how often each act of a story was done
Law = Mapping[tuple[State, Output], Chance]


@dataclass(frozen=True)
class Story:
    """How often each act is done that shows something, and the free acts before each that show nothing."""

    seen: Mapping[Value, int]
    free: int = 1

    def places(self) -> Iterator[Place]:
        """How often each was done so far, at all moments of all orders: what leads to a place first."""
        return product(*(range(times + 1) for times in self.seen.values()))

    def led_to(self, place: Place) -> Iterator[tuple[Value, Place]]:
        """The acts that may have been the last, and where they were done."""
        for at, act in enumerate(self.seen):
            if place[at]:
                yield act, (*place[:at], place[at] - 1, *place[at + 1 :])


@dataclass(frozen=True)
class Streams:
    """How a belief came about: the acts of both worlds, and after how many of them somebody looked."""

    one: tuple[Value, ...] = ()
    other: tuple[Value, ...] = ()
    peek: int | None = None

    def then(self, one: Value, other: Value) -> "Streams":
        if one == LOOK:
            return replace(self, peek=len(self.one))
        return replace(self, one=(*self.one, one), other=(*self.other, other))


Ratio = Fraction | float
Worst = tuple[Ratio, Streams]
Found = dict[Belief, Worst]


def worst_seizure(kernel: Kernel, story: Story, pairs: Pairs) -> Worst:
    """The largest ratio, and the streams that it is of."""
    mirrored = [(other, one) for one, other in pairs]
    ways = [pairs] if set(mirrored) == set(pairs) else [pairs, mirrored]
    return max((worst_one_way(kernel, story, each) for each in ways), key=ratio_of)


def worst_one_way(kernel: Kernel, story: Story, pairs: Pairs) -> Worst:
    """Where it is in favour of the first world."""
    *_, end = story.places()
    known: dict[Place, Found] = {}
    for place in story.places():
        done = [
            gone_on(kernel, known[before], pairs if act == FREE else [(act, act)])
            for act, before in story.led_to(place)
        ]
        found = merged(done or [begun(kernel)])
        for _ in range(0 if place == end else story.free):
            found = gone_on(kernel, found, pairs)
        known[place] = found
    return max(known[end].values(), key=ratio_of)


def begun(kernel: Kernel) -> Found:
    return {frozenset((state, each, each) for state, each in kernel.initial().items()): (1, Streams())}


def gone_on(kernel: Kernel, found: Found, choices: Pairs) -> Found:
    """One more act, in all ways that it may be."""
    later: Found = {}
    choices = unlike(kernel, {state for belief in found for state, *_ in belief}, choices)
    for belief, (ratio, streams) in found.items():
        for values in choices:
            after = streams.then(*values)
            for weights in outcomes(belief, partial(law_in, kernel, values)):
                one, other = totals(weights)
                if one:
                    odds = ratio * one / other if other else inf
                    keep(later, each_by_itself(weights, one, other), (odds, after))
    return later


def unlike(kernel: Kernel, states: Iterable[State], choices: Pairs) -> Pairs:
    """One of all pairs that do the same to every state."""
    every = list(states)
    laws = {
        value: frozenset((state, *known) for state in every for known in law_of(kernel, state, value).items())
        for value in dict.fromkeys(chain.from_iterable(choices))
    }
    kept: dict[Any, tuple[Value, Value]] = {}
    for one, other in choices:
        kept.setdefault((laws[one], laws[other]), (one, other))
    return list(kept.values())


def law_in(kernel: Kernel, values: tuple[Value, Value], state: State, world: int) -> Law:
    return law_of(kernel, state, values[world])


def law_of(kernel: Kernel, state: State, value: Value) -> Law:
    return {(state, state): 1} if value == LOOK else kernel.step(state, value)


def totals(weights: Weights) -> tuple[Any, Any]:
    """How likely it is in either world."""
    ones, others = zip(*weights.values(), strict=True)
    return sum(ones), sum(others)


def each_by_itself(weights: Weights, one: Any, other: Any) -> Belief:
    """What is believed in either world, where weights have these totals."""
    return frozenset((state, a / one, b / other if other else 0) for state, (a, b) in weights.items())


def keep(found: Found, belief: Belief, worst: Worst) -> None:
    """Unless it was come by with as large a ratio."""
    if belief not in found or found[belief][0] < worst[0]:
        found[belief] = worst


def merged(several: Iterable[Found]) -> Found:
    """The worst of all."""
    found: Found = {}
    for belief, worst in chain.from_iterable(each.items() for each in several):
        keep(found, belief, worst)
    return found


def ratio_of(worst: Worst) -> Ratio:
    return worst[0]


def product_of(one: Iterable[Value]) -> Pairs:
    """All pairs of these."""
    values = list(one)
    return [(first, second) for first in values for second in values]
