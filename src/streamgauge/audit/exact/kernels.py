"""Finite mechanisms, exactly: the worst likelihood ratio over all neighbours of short streams.

A kernel is a mechanism with finitely many states and outputs: randomised response, tables of noisy bits, counters
modulo k. The result is the largest P(view | x) / P(view | x') over all streams x of a few ticks, all their neighbours
x', and all views. A view has every output, and the state after one tick of the intruder's choice, unannounced. With
`announced_tick` it also has the state that an announced intruder gets after that tick. If both come after the same
tick, either may be first.

Dynamic programming runs over beliefs: after each tick the view gives each state a weight in either world. Two
histories with weights in the same proportions have the same future, and are one.

`ForkedChance` takes every branch of chance: code that draws coins and dice is run once for each outcome of them. Noise
with infinitely many values is not forked. Draws of the discrete Laplace law come from `laplace_draws`, zeros by
default, and their scales are recorded, so that the caller can insert the law.

Promise
    With probabilities as Fractions the ratio is exact: nothing is sampled, and nothing is left out. The weights of
    branches are exact and add up to 1. The code must draw the same after the same earlier draws.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, product
from math import inf, log
from typing import Generic, Protocol, TypeVar, runtime_checkable

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
NO_EVENT: Value = None  # what a tick has in which nothing happened


class Kernel(Protocol):
    """A mechanism with finitely many states; each law says how likely what is."""

    def initial(self) -> Mapping[State, Probability]: ...

    def step(self, state: State, value: Value) -> Mapping[tuple[State, Output], Probability]: ...


@runtime_checkable
class IntrusionKernel(Protocol):
    """A kernel that answers announced intrusions with an output and a next state."""

    def intrude(self, state: State) -> Mapping[tuple[State, Output], Probability]: ...


@dataclass(frozen=True)
class WorstRatio:
    """The largest ratio, and where it is."""

    ratio: Fraction | float
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
) -> Fraction | float:
    """Return the largest ratio of weights of anything visible of these two streams."""
    beliefs = {normalise({state: (chance, chance) for state, chance in kernel.initial().items()})}
    for tick in range(len(one) + 1):
        if tick:
            values = one[tick - 1], other[tick - 1]
            beliefs = set(update_beliefs(beliefs, lambda state, world: kernel.step(state, values[world])))  # noqa: B023 - used at once
        beliefs = set(apply_intrusion(kernel, beliefs, looks=tick == peek, asks=tick == announced_tick))
    return max(quotient(belief) for belief in beliefs)


def apply_intrusion(kernel: Kernel, beliefs: Iterable[Belief], *, looks: bool, asks: bool) -> Iterable[Belief]:
    """Return the beliefs after a look, an announced intrusion, or both in either order."""
    if looks and asks:
        return chain(
            reveal_state(apply_announced_intrusion(kernel, beliefs)),
            apply_announced_intrusion(kernel, reveal_state(beliefs)),
        )
    if asks:
        return apply_announced_intrusion(kernel, beliefs)
    return reveal_state(beliefs) if looks else beliefs


def apply_announced_intrusion(kernel: Kernel, beliefs: Iterable[Belief]) -> Iterator[Belief]:
    if not isinstance(kernel, IntrusionKernel):
        raise TypeError(f"kernel must answer announced intrusions, got {type(kernel).__name__}")
    return update_beliefs(beliefs, lambda state, world: kernel.intrude(state))


def update_beliefs(
    beliefs: Iterable[Belief], step: Callable[[State, int], Mapping[tuple[State, Output], Probability]]
) -> Iterator[Belief]:
    """Yield the beliefs after one more output, for every possible output."""
    for belief in beliefs:
        yield from (normalise(found) for found in list_outcomes(belief, step) if any(map(any, found.values())))


def list_outcomes(
    belief: Belief, step: Callable[[State, int], Mapping[tuple[State, Output], Probability]]
) -> Iterable[Weights]:
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


def reveal_state(beliefs: Iterable[Belief]) -> Iterator[Belief]:
    """Yield the beliefs of an intruder who looked at the state."""
    for belief in beliefs:
        yield from (normalise({state: (one, other)}) for state, one, other in belief if one or other)


def normalise(weights: Weights) -> Belief:
    """Return the same proportions in one form."""
    total = sum(one + other for one, other in weights.values())
    return frozenset((state, one / total, other / total) for state, (one, other) in weights.items())


def quotient(belief: Belief) -> Fraction | float:
    """Return the likelihood ratio of the first world."""
    one = sum(weight for _, weight, _ in belief)
    other = sum(weight for _, _, weight in belief)
    return one / other if other else inf


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
        raise TypeError("chance must be asked for coins, dice and Laplace noise, got Gaussian noise")

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
    forced: list[int] | None = []
    while forced is not None:
        chance = ForkedChance(forced)
        result = act(chance)
        choices = tuple(choice for choice, _ in chance.choices)
        yield ChanceBranch(chance.weight, result, tuple(chance.scales), choices)
        forced = find_next_choices(chance.choices)


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


def find_next_choices(choices: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return the choices of the next branch: the last choice that can be increased is increased."""
    for place in reversed(range(len(choices))):
        choice, sides = choices[place]
        if choice + 1 < sides:
            return [*(before for before, _ in choices[:place]), choice + 1]
    return None
