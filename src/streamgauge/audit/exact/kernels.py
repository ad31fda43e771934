"""Finite mechanisms, exactly: the worst likelihood ratio over all neighbours of short streams.

A kernel is a mechanism with finitely many states and outputs: randomised response, tables of noisy bits, counters
modulo k. The result is the largest P(view | x) / P(view | x') over all streams x of a few ticks, all their neighbours
x', and all views. A view has every output, and the state after one tick of the intruder's choice, unannounced. With
`announced_tick` it also has the state that an announced intruder gets after that tick. If both come after the same
tick, either may be first.

Dynamic programming covers many streams and orders at once:

    a belief    the probability of each state in either world, given the view
    a ratio     the likelihood ratio of the view

The future depends on the belief alone, and multiplies the ratio: of all histories that lead to one belief, the one with
the largest ratio is enough. `find_worst_seizure` covers all orders of a schedule, which says how often each act is
visible: estimates or ticks, announced intrusions, and the unannounced look. They come in every order, with free acts
before each of them. At free acts and at ticks, the acts of the two worlds are one of some pairs. The position is the
count of each act so far.

`ForkedChance` takes every branch of chance: code that draws coins and dice is run once for each outcome of them. Noise
with infinitely many values is not forked. Draws of the discrete Laplace law come from `laplace_draws`, zeros by
default, and their scales are recorded, so that the caller can insert the law.

Promise
    With probabilities as Fractions the ratio is exact: nothing is sampled, and nothing is left out. The weights of
    branches are exact and add up to 1. The code must draw the same after the same earlier draws. Of a schedule it is
    the largest ratio in either direction, of all orders and all streams that the free acts allow. A smaller view
    never shows more, so schedules with fewer acts have no larger ratio.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import reduce
from itertools import chain, permutations, product
from math import inf, log
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Bytes

Value = Hashable
State = Hashable
Output = Hashable
Probability = Fraction | float
KernelStream = tuple[Value, ...]
Weights = dict[State, tuple[Probability, Probability]]  # of each state, in either world
Belief = frozenset[tuple[State, Probability, Probability]]
NeighbourFunction = Callable[[KernelStream, Sequence[Value]], Iterable[KernelStream]]
TransitionLaw = Mapping[tuple[State, Output], Probability]
Ratio = Fraction | float
NO_EVENT: Value = None  # what a tick has in which nothing happened


class Act(Enum):
    """An act of a run that is no event."""

    LOOK = "look"  # an unannounced view of the memory
    INTRUDE = "intrude"  # an announced intrusion
    ESTIMATE = "estimate"
    FREE = "free"  # an act that may be another in either world, if that is visible itself: a tick


LOOK_ACT, INTRUDE_ACT, ESTIMATE_ACT, FREE_ACT = Act


class Kernel(Protocol):
    """A mechanism with finitely many states; each law says how likely what is."""

    def initial(self) -> Mapping[State, Probability]: ...

    def step(self, state: State, value: Value) -> TransitionLaw: ...


@runtime_checkable
class IntrusionKernel(Protocol):
    """A kernel that answers announced intrusions with an output and a next state."""

    def intrude(self, state: State) -> TransitionLaw: ...


@dataclass(frozen=True)
class WorstRatio:
    """The largest ratio, and where it is."""

    ratio: Ratio
    one: KernelStream
    other: KernelStream
    peek: int | None = None
    announced_tick: int | None = None

    @property
    def epsilon(self) -> float:
        return inf if self.ratio == inf else log(self.ratio)


def one_event(stream: KernelStream, values: Sequence[Value]) -> Iterator[KernelStream]:
    """Yield neighbours that differ in one tick."""
    for tick, value in product(range(len(stream)), values):
        if value != stream[tick]:
            yield *stream[:tick], value, *stream[tick + 1 :]


def one_person(stream: KernelStream, values: Sequence[Value]) -> Iterator[KernelStream]:
    """Yield neighbours that lack some or all events of one person."""
    for person in {value for value in stream if value != NO_EVENT}:
        places = [tick for tick, value in enumerate(stream) if value == person]
        for gone in product((False, True), repeat=len(places)):
            if any(gone):
                left = {tick for tick, absent in zip(places, gone, strict=True) if absent}
                yield tuple(NO_EVENT if tick in left else value for tick, value in enumerate(stream))


def worst_ratio(
    kernel: Kernel,
    values: Sequence[Value],
    ticks: int,
    neighbours: NeighbourFunction = one_event,
    *,
    peeks: bool = True,
    announced_tick: int | None = None,
) -> WorstRatio:
    """Find the worst ratio over all streams of so many ticks, and all ticks of a look (0: at the start).

    Neighbours are taken in both directions.
    """
    when: list[int | None] = [None, *range(ticks + 1)] if peeks else [None]
    found = (
        WorstRatio(compute_ratio(kernel, *pair, peek, announced_tick), *pair, peek, announced_tick)
        for stream in product(values, repeat=ticks)
        for neighbour in neighbours(stream, values)
        for pair in ((stream, neighbour), (neighbour, stream))
        for peek in when
    )
    return max(found, key=lambda worst: worst.ratio)


def compute_ratio(
    kernel: Kernel, one: KernelStream, other: KernelStream, peek: int | None = None, announced_tick: int | None = None
) -> Ratio:
    """Return the largest ratio of weights of anything visible of these two streams."""
    if announced_tick is not None and not isinstance(kernel, IntrusionKernel):
        raise TypeError(f"kernel must answer announced intrusions, got {type(kernel).__name__}")
    found = begin_beliefs(kernel)
    for tick in range(len(one) + 1):
        if tick:
            found = advance_beliefs(kernel, found, [(one[tick - 1], other[tick - 1])])
        intruders = [LOOK_ACT] * (tick == peek) + [INTRUDE_ACT] * (tick == announced_tick)
        found = merge_beliefs(
            reduce(lambda beliefs, act: advance_beliefs(kernel, beliefs, [(act, act)]), order, found)
            for order in permutations(intruders)  # either may come first
        )
    return max(ratio for ratio, _ in found.values())


def list_outcomes(belief: Belief, step: Callable[[State, int], TransitionLaw]) -> Iterable[Weights]:
    """Return the weights after one more output, for every possible output."""
    after: dict[Output, Weights] = {}
    for state, *weights in belief:
        for world, weight in enumerate(weights):
            for (later, output), chance in step(state, world).items():
                found = after.setdefault(output, {})
                one, other = found.get(later, (0, 0))
                more = weight * chance
                found[later] = (one, other + more) if world else (one + more, other)
    return after.values()


Acts = tuple[Value, ...]
ActPairs = Sequence[tuple[Value, Value]]
ActCounts = tuple[int, ...]  # how often each act of a schedule was done


@dataclass(frozen=True)
class ActSchedule:
    """The number of each visible act, and of the free acts before each, which show nothing."""

    visible_acts: Mapping[Value, int]
    free_acts: int = 1

    def list_positions(self) -> Iterator[ActCounts]:
        """List the counts of acts at all moments of all orders, predecessors first."""
        return product(*(range(times + 1) for times in self.visible_acts.values()))

    def list_predecessors(self, place: ActCounts) -> Iterator[tuple[Value, ActCounts]]:
        """List the acts that may have been the last, and the counts before them."""
        for at, act in enumerate(self.visible_acts):
            if place[at]:
                yield act, (*place[:at], place[at] - 1, *place[at + 1 :])


@dataclass(frozen=True)
class ActStreams:
    """The history of a belief: the acts of both worlds, and the number of acts before the look."""

    one: Acts = ()
    other: Acts = ()
    peek: int | None = None

    def insert_look(self, acts: Acts) -> Acts:
        return acts if self.peek is None else (*acts[: self.peek], LOOK_ACT, *acts[self.peek :])

    def append(self, one: Value, other: Value) -> "ActStreams":
        if one == LOOK_ACT:
            return replace(self, peek=len(self.one))
        return replace(self, one=(*self.one, one), other=(*self.other, other))


RatioAndStreams = tuple[Ratio, ActStreams]
WorstByBelief = dict[Belief, RatioAndStreams]


def find_worst_seizure(kernel: Kernel, schedule: ActSchedule, pairs: ActPairs) -> RatioAndStreams:
    """Find the largest ratio, and its streams."""
    mirrored = [(other, one) for one, other in pairs]
    ways = [pairs] if set(mirrored) == set(pairs) else [pairs, mirrored]
    return max((find_worst_one_sided(kernel, schedule, each) for each in ways), key=itemgetter(0))


def find_worst_one_sided(kernel: Kernel, schedule: ActSchedule, pairs: ActPairs) -> RatioAndStreams:
    """Find the largest ratio in favour of the first world."""
    *_, end = schedule.list_positions()
    known: dict[ActCounts, WorstByBelief] = {}
    for place in schedule.list_positions():
        done = [
            advance_beliefs(kernel, known[before], pairs if act == FREE_ACT else [(act, act)])
            for act, before in schedule.list_predecessors(place)
        ]
        found = merge_beliefs(done or [begin_beliefs(kernel)])
        for _ in range(0 if place == end else schedule.free_acts):
            found = advance_beliefs(kernel, found, pairs)
        known[place] = found
    return max(known[end].values(), key=itemgetter(0))


def begin_beliefs(kernel: Kernel) -> WorstByBelief:
    """Return the belief of one who has seen nothing."""
    return {frozenset((state, each, each) for state, each in kernel.initial().items()): (1, ActStreams())}


def advance_beliefs(kernel: Kernel, found: WorstByBelief, choices: ActPairs) -> WorstByBelief:
    """Advance beliefs by one more act, of every possible kind."""
    later: WorstByBelief = {}
    choices = drop_equivalent_pairs(kernel, {state for belief in found for state, *_ in belief}, choices)
    for belief, (ratio, streams) in found.items():
        for values in choices:
            after = streams.append(*values)
            for weights in list_outcomes(belief, lambda state, world: find_law(kernel, state, values[world])):  # noqa: B023
                one, other = (sum(world) for world in zip(*weights.values(), strict=True))
                if one:
                    odds = ratio * one / other if other else inf
                    proportions = ((state, a / one, b / other if other else 0) for state, (a, b) in weights.items())
                    keep_worst(later, frozenset(proportions), (odds, after))
    return later


def drop_equivalent_pairs(kernel: Kernel, states: Iterable[State], choices: ActPairs) -> ActPairs:
    """Return one of all pairs that do the same to every state."""
    every = list(states)
    laws = {
        value: frozenset((state, *known) for state in every for known in find_law(kernel, state, value).items())
        for value in dict.fromkeys(chain.from_iterable(choices))
    }
    distinct: dict[Any, tuple[Value, Value]] = {}
    for one, other in choices:
        distinct.setdefault((laws[one], laws[other]), (one, other))
    return list(distinct.values())


def find_law(kernel: Kernel, state: State, value: Value) -> TransitionLaw:
    if value == LOOK_ACT:
        return {(state, state): 1}
    if value == INTRUDE_ACT and isinstance(kernel, IntrusionKernel):
        return kernel.intrude(state)
    return kernel.step(state, value)


def keep_worst(found: WorstByBelief, belief: Belief, worst: RatioAndStreams) -> None:
    """Store a belief, unless it is stored with as large a ratio."""
    if belief not in found or found[belief][0] < worst[0]:
        found[belief] = worst


def merge_beliefs(several: Iterable[WorstByBelief]) -> WorstByBelief:
    """Return the worst of each belief."""
    found: WorstByBelief = {}
    for belief, worst in chain.from_iterable(each.items() for each in several):
        keep_worst(found, belief, worst)
    return found


R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
IMPOSSIBLE_SCORE = 1e6  # of an outcome that one law excludes


@dataclass
class ForkedChance:
    """One branch: choices come from `forced_choices`, and beyond them the first possible one."""

    forced_choices: Sequence[int] = ()
    laplace_draws: Sequence[int] = ()
    choices: list[tuple[int, int]] = field(default_factory=list)  # each choice, and how many there were
    weight: Fraction = Fraction(1)
    scales: list[Fraction] = field(default_factory=list)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        sides = [(side, weight) for side, weight in enumerate((1 - chance, chance)) if weight]
        return np.array([self._choose_side(sides) for _ in range(size)], np.uint8)

    def uniform(self, sides: int, size: int) -> Ints:
        even = [(side, Fraction(1, sides)) for side in range(sides)]
        return np.array([self._choose_side(even) for _ in range(size)], np.int64)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        done = len(self.scales)
        self.scales += [scale] * size
        drawn = [*self.laplace_draws, *[0] * len(self.scales)][done : done + size]
        return np.array(drawn, np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        raise TypeError("chance must be of coins, dice and Laplace noise, got Gaussian noise")

    def _choose_side(self, sides: Sequence[tuple[int, Fraction]]) -> int:
        place = len(self.choices)
        choice = self.forced_choices[place] if place < len(self.forced_choices) else 0
        self.choices.append((choice, len(sides)))
        side, weight = sides[choice]
        self.weight *= weight
        return side


@dataclass(frozen=True)
class ChanceBranch(Generic[R]):
    """The result of one branch of chance, and its probability."""

    weight: Fraction
    result: R
    scales: tuple[Fraction, ...]  # of all requested Laplace noise
    choices: tuple[int, ...]


def list_branches(act: Callable[[ForkedChance], R]) -> Iterator[ChanceBranch[R]]:
    """Call `act` once for each branch of chance.

    >>> [(str(way.weight), way.result) for way in list_branches(lambda chance: chance.uniform(2, 2).tolist())]
    [('1/4', [0, 0]), ('1/4', [0, 1]), ('1/4', [1, 0]), ('1/4', [1, 1])]
    """
    forced: Sequence[int] = ()
    while True:
        chance = ForkedChance(forced)
        result = act(chance)
        choices = tuple(choice for choice, _ in chance.choices)
        yield ChanceBranch(chance.weight, result, tuple(chance.scales), choices)
        open_places = [place for place, (choice, sides) in enumerate(chance.choices) if choice + 1 < sides]
        if not open_places:
            return
        last = open_places[-1]  # the last choice that can be increased
        forced = (*choices[:last], choices[last] + 1)


def add_weights(outcomes: Iterable[tuple[K, Fraction]]) -> dict[K, Fraction]:
    """Return the law of outcomes that several branches may have."""
    found: dict[K, Fraction] = {}
    for outcome, weight in outcomes:
        found[outcome] = found.get(outcome, Fraction(0)) + weight
    return found


def score_outcome(one: Mapping[K, Fraction], other: Mapping[K, Fraction], outcome: K) -> float:
    """Return the log-likelihood ratio of an outcome under two laws."""
    if one.get(outcome) and other.get(outcome):
        return log(one[outcome] / other[outcome])
    return IMPOSSIBLE_SCORE if one.get(outcome) else -IMPOSSIBLE_SCORE
